"""Style read off every layer: from one vector a text, and from single tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from readout.authorship.cut import cut_to_tokens
from readout.errors import TooFewError
from readout.lenses.probe_scores import R2Accumulator, R2Scores, group_r2, r2_difference
from readout.lenses.probes import RidgeFitter, RidgeProbe
from readout.lenses.stylometry import TOKEN_TARGETS, features, token_targets
from readout.states import Pool, Site, masked_mean, read

ALL_GROUPS = "all groups"


@dataclass(frozen=True)
class StyleTexts:
    """Texts to probe, the first `n_train` to fit on, with their style features and what tells them apart.

    read: what the model reads of each, by default the very words that the features are of.
    folds: of the training texts, whole documents each. clusters: the author-set of every text.
    """

    read: list[str]
    style: pd.DataFrame
    n_train: int
    folds: Int[Tensor, " train"]
    clusters: list[str]
    n_cut: int

    @classmethod
    def of(
        cls,
        train: Dataset,
        test: Dataset,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_tokens: int,
        n_folds: int,
        seed: int = 0,
    ) -> "StyleTexts":
        """The texts of two sets of spans, cut to `max_tokens` before their features are taken.

        Raises TooFewError where the training texts come from fewer documents than there are folds.
        """
        texts, n_cut = cut_to_tokens([*train["text"][:], *test["text"][:]], tokenizer, max_tokens)
        documents, member = np.unique(train["document"][:], return_inverse=True)
        if len(documents) < n_folds:
            raise TooFewError(
                f"n_folds: {n_folds}, but the training texts come from {len(documents)} documents"
            )
        fold = np.random.default_rng(seed).permutation(len(documents)) % n_folds
        authors = [*train["author_set"][:], *test["author_set"][:]]
        return cls(texts, features(texts), len(train), torch.tensor(fold[member]), authors, n_cut)

    def first_characters(self, n: int) -> "StyleTexts":
        """As published: the model reads the first `n` characters, the features stay those of the whole text."""
        return replace(self, read=[text[:n] for text in self.read])

    @property
    def targets(self) -> Float[Tensor, "text target"]:
        """The style features, one column each."""
        return torch.tensor(self.style.to_numpy())


def mean_states(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **reading
) -> tuple[list[Site], Float[Tensor, "site text dim"]]:
    """The mean state of every text at every raw site, from one pass."""
    pool = Pool(masked_mean, len(texts))
    read(model, tokenizer, texts, [pool], **reading)
    return pool.sites(), pool.states()


def probe_style(
    states: Float[Tensor, "site text dim"], texts: StyleTexts, alphas: Sequence[float]
) -> list[R2Accumulator]:
    """For each site, what ridge probes of the mean states explain of the test texts' style.

    With one alpha it is taken, of several each feature's is chosen by cross-validation over documents.
    """
    n, targets, found = texts.n_train, texts.targets, []
    for at_site in states:
        fitter = RidgeFitter(at_site.shape[1], targets.shape[1], n_folds=int(texts.folds.max()) + 1)
        fitter.update(at_site[:n], targets[:n], texts.folds)
        probe = fitter.fit(alphas[0]) if len(alphas) == 1 else fitter.fit_cv(alphas)
        sums = R2Accumulator(list(texts.style.columns), probe.constant)
        sums.update(targets[n:], probe.predict(at_site[n:]), texts.clusters[n:])
        found.append(sums)
    return found


def style_table(
    sites: Sequence[Site],
    probes: Sequence[R2Accumulator],
    control: Sequence[R2Accumulator] | None = None,
    **resampling,
) -> pd.DataFrame:
    """R² of each group at each site, and of all groups together, or its difference to a control's.

    Columns: site, layer, depth, group, metric, unit, value, low, high, level, n. "all groups" is the mean over groups
    of their means, so that a group of many features counts as one.
    """
    rows = []
    for index, (site, sums) in enumerate(zip(sites, probes, strict=True)):
        groups = [name[0] for name in sums.names]
        for labels in (groups, [ALL_GROUPS] * len(groups)):
            if control is None:
                scores = group_r2(sums, labels, **resampling)
            else:
                scores = r2_difference(sums, control[index], labels, **resampling)
            columns = {k: getattr(scores.interval, k) for k in ("value", "low", "high", "n")}
            about = {"site": site.name, "layer": site.layer, "depth": site.depth}
            rows.append(pd.DataFrame({**about, "group": scores.names, **columns}))
    table = pd.concat(rows, ignore_index=True)
    metric = "R2" if control is None else "R2 less control's"
    return table.assign(metric=metric, unit="share", level=resampling.get("level", 0.95))


class TokenProbes:
    """Fits, while `read` runs, probes of what holds of single tokens: from the token's state, and from its text's mean.

    targets: `token_targets` of every text, [token target], and which of its tokens are words or marks. The first
    `n_train` texts are read first, then comes `fit`, then the others are read and scored.
    Memory: per site two sums of dim x dim, however many tokens there are.
    """

    READ_FROM = ("own state", "text vector")

    def __init__(
        self,
        targets: Sequence[tuple[Float[Tensor, "token target"], Bool[Tensor, " token"]]],
        clusters: Sequence[str],
        n_train: int,
    ):
        self.targets, self.clusters, self.n_train = targets, clusters, n_train
        self._first = 0
        self._fitters: dict[tuple[Site, str], RidgeFitter] = {}
        self._probes: dict[tuple[Site, str], RidgeProbe] = {}
        self.scores: dict[tuple[Site, str], R2Accumulator] = {}

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch of texts at one site."""
        own, means, targets, clusters = [], [], [], []
        for row, text, kept in zip((rows + self._first).tolist(), states, mask, strict=True):
            values, real = self.targets[row]
            text = text[kept].float()
            own.append(text[real])
            means.append(text.mean(dim=0).expand(int(real.sum()), -1))
            targets.append(values[real])
            clusters += [self.clusters[row]] * int(real.sum())
        for name, x in zip(self.READ_FROM, (torch.cat(own), torch.cat(means)), strict=True):
            self._take((site, name), x, torch.cat(targets), clusters)

    def _take(self, key: tuple[Site, str], x: Tensor, targets: Tensor, clusters: list[str]) -> None:
        if self._probes:
            self.scores.setdefault(key, R2Accumulator(list(TOKEN_TARGETS), self._probes[key].constant))
            self.scores[key].update(targets, self._probes[key].predict(x), clusters)
        else:
            self._fitters.setdefault(key, RidgeFitter(x.shape[1], len(TOKEN_TARGETS))).update(x, targets)

    def fit(self, alpha: float = 1.0) -> None:
        """Ends fitting: what is read from now on are the other texts, to be scored."""
        self._first = self.n_train
        self._probes = {key: fitter.fit(alpha) for key, fitter in self._fitters.items()}


def probe_tokens(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: StyleTexts,
    *,
    max_tokens: int,
    alpha: float = 1.0,
    **reading,
) -> TokenProbes:
    """Token-level probes of a model, fitted on the training texts and scored on the others."""
    options = {"truncation": True, "max_length": max_tokens, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(texts.read, **options)["offset_mapping"]
    targets = [token_targets(text, spans) for text, spans in zip(texts.read, offsets, strict=True)]
    probes = TokenProbes(
        [(torch.from_numpy(values), torch.from_numpy(real)) for values, real in targets],
        texts.clusters,
        texts.n_train,
    )
    reading |= {"max_tokens": max_tokens}
    read(model, tokenizer, texts.read[: texts.n_train], [probes], **reading)
    probes.fit(alpha)
    read(model, tokenizer, texts.read[texts.n_train :], [probes], **reading)
    return probes


def token_table(probes: TokenProbes, **resampling) -> pd.DataFrame:
    """R² of each token-level target at each site, read from the token's own state and from the mean of its text."""
    rows = []
    for (site, name), sums in probes.scores.items():
        scores = group_r2(sums, sums.names, **resampling)
        columns = {k: getattr(scores.interval, k) for k in ("value", "low", "high", "n")}
        about = {"site": site.name, "layer": site.layer, "depth": site.depth, "intervention": name}
        rows.append(pd.DataFrame({**about, "feature": scores.names, **columns}))
    table = pd.concat(rows, ignore_index=True)
    return table.assign(metric="R2", unit="share", level=resampling.get("level", 0.95))


BEST = ("word_length", "capitalisation", "type_token_ratio", "punctuation")
"""The groups that the paper names as read best."""


def claims(
    sites: Sequence[Site],
    style: pd.DataFrame,
    change: pd.DataFrame,
    whole: dict[str, list[R2Accumulator]],
    cut: dict[str, list[R2Accumulator]],
    tokens: dict[str, TokenProbes],
    **resampling,
) -> dict[str, dict[str, float]]:
    """The estimates behind the claims on style: value, low, high, level, n.

    Of many cells the one that speaks most against a claim is taken: the lowest R2, the largest change. The best four
    groups are set against the best of the others, at the middle of the depth of the control, with the widest limits.
    """
    groups = style[style["group"] != ALL_GROUPS]
    overall = change[change["group"] == ALL_GROUPS]
    middle = len(sites) // 2
    control = groups[(groups["readout"] == "control") & (groups["layer"] == sites[middle].layer)]
    best = control["group"].isin(BEST)
    worst, other = control[best].nsmallest(1, "value").iloc[0], control[~best].nlargest(1, "value").iloc[0]
    about = {"level": worst["level"], "n": worst["n"]}
    labels = [ALL_GROUPS] * len(whole["control"][middle].names)
    of_tokens = tokens["control"].scores
    own, mean = (of_tokens[sites[middle], name] for name in TokenProbes.READ_FROM)
    return {
        "A-avail-all": _cell(groups.loc[groups["value"].idxmin()]),
        "A-avail-same": _cell(overall.loc[overall["value"].abs().idxmax()]),
        "A-avail-best": {
            "value": worst["value"] - other["value"],
            "low": worst["low"] - other["high"],
            "high": worst["high"] - other["low"],
            **about,
        },
        "A-avail-token": _scores(
            r2_difference(own, mean, [ALL_GROUPS] * len(TOKEN_TARGETS), **resampling), resampling
        ),
        "A-cut": _scores(
            r2_difference(cut["control"][middle], whole["control"][middle], labels, **resampling), resampling
        ),
    }


def _cell(row: pd.Series) -> dict[str, float]:
    return {name: row[name] for name in ("value", "low", "high", "level", "n")}


def _scores(scores: R2Scores, resampling: dict) -> dict[str, float]:
    limits = {name: getattr(scores.interval, name)[0].item() for name in ("value", "low", "high", "n")}
    return limits | {"level": resampling.get("level", 0.95)}
