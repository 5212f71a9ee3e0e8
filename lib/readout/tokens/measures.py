"""Alignment of what a model wrote with what it wrote about: one function a question, each a table.

Every function takes states that lie in memory as `Answers` and gives rows of the schema of tables. Features are
clipped, scaled to unit rows and centred (`corrected_steps`); values are debiased CKA at the model's final site unless
a row says otherwise; intervals are of half-samples of the texts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import DegenerateError, TooFewError
from readout.lenses.alignment import (
    CkaInterval,
    biased_cka,
    cka_as_published,
    cka_combination,
    cka_interval,
    cknna,
    corrected_steps,
    debiased_cka,
    debiased_cka_many,
    fit_averaging_null,
    mixture_cka,
    mutual_knn,
    published_steps,
    rsa,
    simplex_grid,
)
from readout.lenses.alignment.selection import held_out_best
from readout.lenses.preprocess import center, unit_rows
from readout.tokens.pools import (
    elementwise_max,
    last_token,
    masked_mean,
    running_mean,
    running_mean_as_published,
    segment_means,
)

FEWEST = 32
"""Texts that must have a token of some index for its alignment to be measured."""


@dataclass(frozen=True)
class Answers:
    """The states of one model's answers to the items of a domain, all of whom have at least one token of content.

    tokens: at one site; prompts: pooled prompts by name; target: what they are compared with; attended: the tokens
    pooled by the model's attention.
    """

    tokens: Float[Tensor, "text token dim"]
    mask: Bool[Tensor, "text token"]
    prompts: Mapping[str, Float[Tensor, "text dim"]]
    target: Float[Tensor, "text dim2"]
    attended: Float[Tensor, "text dim"] | None = None

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def pooled(self) -> dict[str, Float[Tensor, "text dim"]]:
        """Every read-out that is one vector a text."""
        found = {
            "generated mean": masked_mean(self.tokens, self.mask),
            "generated last": last_token(self.tokens, self.mask).double(),
            "generated max": elementwise_max(self.tokens, self.mask).double(),
        }
        if self.attended is not None:
            found["generated attention"] = self.attended
        return found | {f"prompt {name}": vectors.double() for name, vectors in self.prompts.items()}

    @cached_property
    def mean(self) -> Float[Tensor, "text dim"]:
        """The mean over generated tokens, as the steps before alignment leave it."""
        return corrected_steps(self.pooled["generated mean"])

    @cached_property
    def aim(self) -> Float[Tensor, "text dim2"]:
        """The target after the same steps."""
        return corrected_steps(self.target)

    @cached_property
    def complete(self) -> int:
        """How many token indices at least `FEWEST` texts, or all of fewer, have."""
        counts = self.mask.sum(dim=0)
        return int((counts >= min(FEWEST, len(self))).sum())

    def take(self, rows: Int[np.ndarray, " row"]) -> "Answers":
        """Some of the texts."""
        index = torch.from_numpy(rows)
        return Answers(
            self.tokens[index],
            self.mask[index],
            {name: vectors[index] for name, vectors in self.prompts.items()},
            self.target[index],
            None if self.attended is None else self.attended[index],
        )

    def at(self, token: int) -> tuple[Float[Tensor, "some dim"], Float[Tensor, "some dim2"]]:
        """The states at a token index, from 0, and the targets, of the texts that are that long."""
        rows = self.mask[:, token]
        return self.tokens[rows, token].double(), self.target[rows]


def limits_of(estimate: CkaInterval) -> dict[str, float]:
    """An interval as the numbers of a row or a claim."""
    return {name: getattr(estimate, name) for name in ("value", "low", "high", "level", "n")}


def row_of(estimate: CkaInterval, **about) -> dict:
    """An interval as a row."""
    return {"metric": "CKA", "unit": "CKA", **limits_of(estimate), **about}


def mean_over(sets: Sequence[Float[Tensor, "text dim"]], target: Tensor, **resampling) -> CkaInterval:
    """The mean CKA of several sets of features, such as of decoding seeds, with the target."""
    return cka_combination(sets, [1 / len(sets)] * len(sets), target, **resampling)


def readouts(answers: Sequence[Answers], *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """Every pooling against the target: the mean over decoding seeds, and each seed.

    "best token" is the index that scores best on the same texts, "best token, held out" the one that is best on other
    halves of them.
    """
    rows, options = [], {"n_resamples": n_resamples, "seed": seed}
    for name in answers[0].pooled:
        prepared = [corrected_steps(one.pooled[name]) for one in answers if name in one.pooled]
        rows.append(row_of(mean_over(prepared, answers[0].aim, **options), readout=name))
        each = [float(debiased_cka(x, answers[0].aim)) for x in prepared]
        rows += [_of_seed(value, name, at, len(answers[0])) for at, value in enumerate(each)]
    first = answers[0]
    curve = single_tokens(first)
    best = int(np.argmax(curve))
    x, y = first.at(best)
    estimate = cka_interval(corrected_steps(x), corrected_steps(y), **options)
    rows.append(row_of(estimate, readout="best token", token=best + 1))
    rows.append({"metric": "CKA", "unit": "CKA", "readout": "best token, held out"} | _held_out(first, seed))
    return pd.DataFrame(rows)


def _of_seed(value: float, name: str, seed: int, n: int) -> dict:
    return {"metric": "CKA of one seed", "unit": "CKA", "readout": name, "value": value, "seed": seed, "n": n}


def _held_out(answers: Answers, seed: int) -> dict[str, float]:
    rows = answers.mask[:, : answers.complete].all(dim=1)
    tokens = answers.tokens[rows, : answers.complete].transpose(0, 1)
    return held_out_best(tokens, answers.target[rows], prepare=corrected_steps, seed=seed)


def single_tokens(answers: Answers) -> list[float]:
    """CKA of the states at each token index, over the texts that are that long; NaN where these do not vary."""
    whole = answers.mask.all(dim=0)
    values = np.full(answers.complete, np.nan)
    for token in range(answers.complete):
        if not whole[token]:
            values[token] = _cka(*answers.at(token))
    if whole.any():
        values[whole[: answers.complete].numpy()] = _cka_of_sets(
            answers.tokens[:, whole].transpose(0, 1), answers
        )
    return values.tolist()


def _cka(x: Tensor, y: Tensor) -> float:
    try:
        return float(debiased_cka(corrected_steps(x), corrected_steps(y)))
    except DegenerateError:
        return float("nan")


def _cka_of_sets(sets: Float[Tensor, "set text dim"], answers: Answers) -> np.ndarray:
    """One GEMM for all sets; one by one where some set has no variation."""
    try:
        return debiased_cka_many(sets, answers.target, prepare=corrected_steps).numpy()
    except DegenerateError:
        return np.array([_cka(one, answers.target) for one in sets])


def trajectory(
    answers: Sequence[Answers], null_parts: int = 6, *, n_resamples: int, seed: int = 0
) -> pd.DataFrame:
    """Alignment along the generation: at each single token, of the mean so far, and what averaging noise would give.

    Each seed has its curve, and the mean over seeds has one with intervals; at a single token these are of the texts
    that are that long under every seed. The null is fitted on means of the first so many equal parts of all seeds
    (`fit_averaging_null`), unprepared but scaled to unit rows and centred, and predicts the curve of the running mean.
    """
    rows, options = [], {"n_resamples": n_resamples, "seed": seed}
    for at, one in enumerate(answers):
        curves = {
            "single token": single_tokens(one),
            "cumulative mean": _cka_of_sets(running_mean(one.tokens, one.mask)[: one.complete], one),
            "cumulative mean, as published": _published_curve(one),
        }
        for name, values in curves.items():
            for token, value in enumerate(values, start=1):
                n = int(one.mask[:, token - 1].sum()) if name == "single token" else len(one)
                rows.append({"readout": name, "token": token, "value": value, "seed": at, "n": n})
    rows += _mean_curves(answers, options)
    prompt = float(debiased_cka(corrected_steps(answers[0].pooled["prompt mean"]), answers[0].aim))
    rows.append({"readout": "prompt mean", "value": prompt, "n": len(answers[0])})
    rows += averaging_null(answers, null_parts) if len(answers) > 1 else []
    table = pd.DataFrame(rows).assign(metric="CKA", unit="CKA")
    published = table["readout"].str.endswith("as published")
    table["convention"] = np.where(published, "as_published", "corrected")
    return table.dropna(subset=["value"])


def _mean_curves(answers: Sequence[Answers], options: dict) -> list[dict]:
    """The means over seeds of both curves, with intervals."""
    rows, n_tokens = [], min(one.complete for one in answers)
    running = [running_mean(one.tokens, one.mask) for one in answers]
    for token in range(n_tokens):
        found = {"single token": single_over_seeds(answers, token, **options)}
        sets = [corrected_steps(one[token]) for one in running]
        found["cumulative mean"] = interval_or_none(sets, answers[0].aim, **options)
        rows += [row_of(x, readout=name, token=token + 1) for name, x in found.items() if x is not None]
    return rows


def single_over_seeds(answers: Sequence[Answers], token: int, **resampling) -> CkaInterval | None:
    """The mean over seeds at a token index from 0, over the texts that every seed wrote so far."""
    both = torch.stack([one.mask[:, token] for one in answers]).all(dim=0)
    sets = [one.tokens[both, token].double() for one in answers]
    try:
        prepared = [corrected_steps(x) for x in sets]
        return mean_over(prepared, corrected_steps(answers[0].target[both]), **resampling)
    except (DegenerateError, TooFewError):
        return None


def interval_or_none(sets: Sequence[Tensor], target: Tensor, **resampling) -> CkaInterval | None:
    """`mean_over`; None where features do not vary over some half of the texts."""
    try:
        return mean_over(sets, target, **resampling)
    except DegenerateError:
        return None


def _published_curve(answers: Answers) -> list[float]:
    values = []
    for mean in running_mean_as_published(answers.tokens, answers.mask)[: answers.complete]:
        try:
            values.append(float(cka_as_published(mean.float(), answers.target.float())))
        except DegenerateError:
            values.append(float("nan"))
    return values


def averaging_null(answers: Sequence[Answers], parts: int) -> list[dict]:
    """The predicted running-mean curve, where seeds share a signal; no rows where they do not."""
    n_tokens = min(one.complete for one in answers)
    try:
        fitted = fit_averaging_null(parts_of_seeds(answers, parts), answers[0].aim, n_tokens // parts)
    except DegenerateError:
        return []
    counts = torch.arange(1, n_tokens + 1)
    return [
        {"readout": "averaging null", "token": int(t), "value": float(v), "n": len(answers[0])}
        for t, v in zip(counts, fitted.predict(counts), strict=True)
    ]


def parts_of_seeds(answers: Sequence[Answers], parts: int) -> Float[Tensor, "seed text part dim"]:
    """Means of equal parts of every seed's texts, each part centred over texts, on one scale for all."""
    means = [segment_means(one.tokens, one.mask, parts).transpose(0, 1) for one in answers]
    scale = torch.stack(means).norm(dim=-1).mean()
    return torch.stack([center(mean.transpose(0, 1)).transpose(0, 1) / scale for mean in means])


def simplex(answers: Answers, step: float = 0.1) -> pd.DataFrame:
    """Every mixture of the means of the first, middle and last third."""
    weights = simplex_grid(3, step)
    thirds = segment_means(answers.tokens, answers.mask, 3)
    values = mixture_cka(thirds, answers.target, weights, corrected_steps)
    table = pd.DataFrame(weights.numpy(), columns=["w1", "w2", "w3"])
    return table.assign(value=values.numpy(), metric="CKA", unit="CKA", n=len(answers), readout="mixture")


def segments(answers: Sequence[Answers]) -> pd.DataFrame:
    """Cut again and again: the mixture of all parts against the best part and the mean part; and the same over seeds.

    Over seeds: s parts of one answer against the same part of s answers, as many tokens in both.
    """
    first, rows = answers[0], []
    shortest = int(first.mask.sum(dim=1).min())
    for k in (k for k in (1, 2, 4, 8, 16) if k <= shortest):
        parts = segment_means(first.tokens, first.mask, k)
        each = _cka_of_sets(parts, first)
        about = {"segments": k, "n": len(first)}
        rows.append(about | {"readout": "uniform mixture", "value": _cka(parts.mean(dim=0), first.target)})
        rows.append(about | {"readout": "best segment", "value": float(np.nanmax(each))})
        rows.append(about | {"readout": "mean of segments", "value": float(np.nanmean(each))})
    return pd.DataFrame(rows + _across_seeds(answers)).assign(metric="CKA", unit="CKA")


def _across_seeds(answers: Sequence[Answers]) -> list[dict]:
    n_seeds = len(answers)
    if n_seeds < 2 or min(int(one.mask.sum(dim=1).min()) for one in answers) < n_seeds:
        return []
    parts = torch.stack([segment_means(one.tokens, one.mask, n_seeds) for one in answers])
    rows, target = [], answers[0].target
    for count in range(1, n_seeds + 1):
        same = [_cka(parts[:count, k].mean(dim=0), target) for k in range(n_seeds)]
        other = [_cka(parts[s, :count].mean(dim=0), target) for s in range(n_seeds)]
        about = {"segments": count, "n": len(answers[0])}
        rows.append(about | {"readout": "same segment, other seeds", "value": float(np.mean(same))})
        rows.append(about | {"readout": "other segments, same seed", "value": float(np.mean(other))})
    return rows


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "debiased CKA, clipped": lambda x, y: debiased_cka(corrected_steps(x), corrected_steps(y)),
    "debiased CKA, not clipped": lambda x, y: debiased_cka(center(unit_rows(x)), center(unit_rows(y))),
    "debiased CKA, raw": lambda x, y: debiased_cka(center(x), center(y)),
    "biased CKA": lambda x, y: biased_cka(published_steps(x), published_steps(y)),
    "as published": lambda x, y: cka_as_published(x.float(), y.float()),
    "mutual k-NN": lambda x, y: mutual_knn(published_steps(x), published_steps(y)),
    "CKNNA": lambda x, y: cknna(published_steps(x), published_steps(y)),
    "RSA": lambda x, y: rsa(x, y),
}
"""Measures of alignment by name, each on raw states."""


def estimators(answers: Answers, *, seed: int = 0) -> pd.DataFrame:
    """The generated mean, the prompt mean, and the generated mean with its pairs shuffled, under every measure."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(answers)))
    pairs = {
        "generated mean": (answers.pooled["generated mean"], answers.target),
        "prompt mean": (answers.pooled["prompt mean"], answers.target),
        "pairs shuffled": (answers.pooled["generated mean"], answers.target[order]),
    }
    rows = [
        {"estimator": name, "readout": readout, "value": float(measure(x, y.double())), "n": len(answers)}
        for name, measure in ESTIMATORS.items()
        for readout, (x, y) in pairs.items()
    ]
    return pd.DataFrame(rows).assign(metric="alignment", unit="as estimated")
