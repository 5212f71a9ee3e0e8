"""Patch scores of trained scorers: triplets in, the clean, corrupted and patched score of each out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from readout.errors import ArchitectureError, ParameterError
from readout.lenses.recovery import PatchScores
from readout.lenses.recovery_table import recovery_table
from readout.progress import progress_bar
from readout.scorers import Scorer, Tokens, skip_list
from readout.states.interventions import all_positions, equal_length, mean_shift, random_positions
from readout.states.patching import Sweep, patch_sweep
from readout.states.sublayers import sublayer_sweep
from readout.training import Encoder

Ids = list[list[int]]
# The two texts of a pair differ in length, so a name for it would be bound to one of them.
Batch = tuple[Int[Tensor, "text _"], Bool[Tensor, "text _"]]
Sweeper = Callable[[nn.Module, Batch, Batch, list[int]], Sweep]


def _published(model: nn.Module, clean: Batch, corrupt: Batch, rows: list[int]) -> Sweep:
    return patch_sweep(model, clean, corrupt, all_positions)


def _quarter(model: nn.Module, clean: Batch, corrupt: Batch, rows: list[int]) -> Sweep:
    return patch_sweep(model, clean, corrupt, random_positions(0.25, seed=0, rows=rows))


def _shift(model: nn.Module, clean: Batch, corrupt: Batch, rows: list[int]) -> Sweep:
    return patch_sweep(model, clean, corrupt, mean_shift)


def _attention(model: nn.Module, clean: Batch, corrupt: Batch, rows: list[int]) -> Sweep:
    return sublayer_sweep(model, clean, corrupt, "attention")


def _mlp(model: nn.Module, clean: Batch, corrupt: Batch, rows: list[int]) -> Sweep:
    return sublayer_sweep(model, clean, corrupt, "mlp")


ALL_POSITIONS = "all positions"
INTERVENTIONS: dict[str, Sweeper] = {
    ALL_POSITIONS: _published,
    "random positions, 25 %": _quarter,
    "mean shift": _shift,
    "attention alone": _attention,
    "MLP alone": _mlp,
}
"""What is done to the residual stream of the other author's text, at one layer at a time."""


@dataclass(frozen=True)
class ProbeTexts:
    """Tokenized triplets: `anchor`, `clean` (the same author-set) and `corrupt` (another), and who wrote them.

    n_truncated: texts that were cut to `max_tokens`.
    """

    anchor: Ids
    clean: Ids
    corrupt: Ids
    author_sets: list[str]
    corrupt_sets: list[str]
    skipped: Bool[Tensor, " vocab"]
    end_id: int | None
    n_truncated: int

    @classmethod
    def of(
        cls, triplets: Dataset | pd.DataFrame, tokenizer: PreTrainedTokenizerBase, max_tokens: int
    ) -> "ProbeTexts":
        """Tokenize triplets with the columns anchor, positive, negative and anchor_author_set."""
        parts = {part: list(triplets[part]) for part in ("anchor", "positive", "negative")}
        long = {part: tokenizer(texts, verbose=False)["input_ids"] for part, texts in parts.items()}
        options = {"truncation": True, "max_length": max_tokens, "verbose": False}
        ids = [tokenizer(texts, **options)["input_ids"] for texts in parts.values()]
        cut = sum(len(text) > max_tokens for texts in long.values() for text in texts)
        authors = (list(triplets[f"{part}_author_set"]) for part in ("anchor", "negative"))
        return cls(*ids, *authors, skip_list(tokenizer), tokenizer.sep_token_id, cut)

    def __len__(self) -> int:
        return len(self.anchor)

    def lengths(self, part: str) -> Int[np.ndarray, " text"]:
        """Tokens of each text of a part."""
        return np.array([len(ids) for ids in getattr(self, part)])

    def equal_lengths(self) -> "ProbeTexts":
        """The same triplets with the clean and the corrupted text of each cut to the same number of tokens."""
        pairs = [equal_length(p, n, self.end_id) for p, n in zip(self.clean, self.corrupt, strict=True)]
        clean, corrupt = ([pair[side] for pair in pairs] for side in (0, 1))
        return replace(self, clean=clean, corrupt=corrupt)

    def take(self, rows: Sequence[int]) -> "ProbeTexts":
        """Some of the triplets."""
        names = ("anchor", "clean", "corrupt", "author_sets", "corrupt_sets")
        return replace(self, **{name: [getattr(self, name)[row] for row in rows] for name in names})


@dataclass(frozen=True)
class Patched:
    """Scores of all triplets, and scores of anchors with the corrupted texts of other triplets by other authors."""

    scores: PatchScores
    random_negatives: Float[np.ndarray, " score"]


def patch_scores(
    encoder: Encoder,
    scorer: Scorer,
    texts: ProbeTexts,
    intervention: str = ALL_POSITIONS,
    *,
    batch_size: int = 16,
    precision: str = "float32",
    progress: bool = False,
) -> Patched:
    """The score of each anchor with its clean text, its corrupted one, and that one patched at every layer.

    All scores are the model's own: final norm, then head, then scorer (the public code scores candidates before the
    final norm). Memory: one batch at L + 2 sites.

    Raises ParameterError for an unknown intervention, ArchitectureError for an encoder that mixes layers: what it
    compares is no single site, and a patch at one changes only part of it.
    """
    if intervention not in INTERVENTIONS:
        raise ParameterError(f"intervention {intervention!r}: expected one of {', '.join(INTERVENTIONS)}")
    if encoder.mix is not None:
        raise ArchitectureError("encoder: mixes layers; patching needs one that compares its last states")
    layers: list[int] = []
    clean, corrupt, patched, random = np.empty(len(texts)), np.empty(len(texts)), [None] * len(texts), []
    encoder.eval()
    with (
        torch.no_grad(),
        torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bfloat16"),
        progress_bar(len(texts), what=intervention, unit="triplet", shown=progress) as bar,
    ):
        for rows in _batches(texts, batch_size):
            found = _of_batch(encoder, scorer, texts, rows, INTERVENTIONS[intervention])
            clean[rows], corrupt[rows], layers = found.clean, found.corrupt, found.layers
            random.append(found.random_negatives)
            for row, scores in zip(rows, found.patched.T, strict=True):
                patched[row] = scores
            bar.update(len(rows))
    return Patched(PatchScores(clean, corrupt, np.stack(patched, axis=1), layers), np.concatenate(random))


def _batches(texts: ProbeTexts, batch_size: int) -> Iterator[list[int]]:
    """Rows of similar length together, so that little is padding."""
    order = np.argsort(
        [len(p) + len(n) for p, n in zip(texts.clean, texts.corrupt, strict=True)], kind="stable"
    )
    for at in range(0, len(order), batch_size):
        yield order[at : at + batch_size].tolist()


@dataclass(frozen=True)
class _BatchScores:
    clean: Float[np.ndarray, " text"]
    corrupt: Float[np.ndarray, " text"]
    patched: Float[np.ndarray, "site text"]
    random_negatives: Float[np.ndarray, " score"]
    layers: list[int]


def _of_batch(
    encoder: Encoder, scorer: Scorer, texts: ProbeTexts, rows: list[int], sweep: Sweeper
) -> _BatchScores:
    anchor, clean, corrupt = (
        _padded([part[row] for row in rows], encoder.device)
        for part in (texts.anchor, texts.clean, texts.corrupt)
    )
    query = _tokens(encoder(*anchor), anchor, texts.skipped)
    swept = sweep(encoder.backbone, clean, corrupt, rows)

    def scored(final: Float[Tensor, "text token dim"], batch: Batch) -> Float[np.ndarray, "text text"]:
        vectors = _tokens(encoder.head(final).float(), batch, texts.skipped)
        with torch.autocast(encoder.device.type, enabled=False):
            return scorer.score(query, vectors).double().cpu().numpy()

    plain = scored(swept.corrupt, corrupt)
    return _BatchScores(
        clean=scored(swept.clean, clean).diagonal(),
        corrupt=plain.diagonal(),
        patched=np.stack([scored(final, corrupt).diagonal() for final in swept.patched]),
        random_negatives=plain[_of_others(texts, rows)],
        layers=swept.layers,
    )


def _of_others(texts: ProbeTexts, rows: list[int]) -> Bool[np.ndarray, "text text"]:
    """Pairs of an anchor and the corrupted text of another triplet that is not by the anchor's author-set."""
    anchors = np.array([texts.author_sets[row] for row in rows])
    corrupt = np.array([texts.corrupt_sets[row] for row in rows])
    return (anchors[:, None] != corrupt) & ~np.eye(len(rows), dtype=bool)


def _padded(ids: Ids, device: torch.device) -> Batch:
    lengths = torch.tensor([len(text) for text in ids], device=device)
    texts = [torch.tensor(text, device=device) for text in ids]
    input_ids = nn.utils.rnn.pad_sequence(texts, batch_first=True)
    return input_ids, torch.arange(input_ids.shape[1], device=device) < lengths[:, None]


def _tokens(states: Float[Tensor, "text token dim"], batch: Batch, skipped: Bool[Tensor, " vocab"]) -> Tokens:
    input_ids, mask = batch
    return Tokens(states, mask, mask & ~skipped.to(mask.device)[input_ids])


def pooled_over_seeds(runs: Sequence[Patched]) -> Patched:
    """The scores of several trained seeds as one: each triplet once a seed."""
    columns = {
        name: np.concatenate([getattr(run.scores, name) for run in runs], axis=-1)
        for name in ("clean", "corrupt", "patched")
    }
    negatives = np.concatenate([run.random_negatives for run in runs])
    return Patched(PatchScores(**columns, layers=runs[0].scores.layers), negatives)


SENSITIVITY_UNITS = {
    "sensitivity": "score",
    "sensitivity_per_gap": "clean-corrupt gaps",
    "sensitivity_per_sd": "SD of random negatives",
}


def patch_table(patched: Patched, author_sets: Sequence[str], **resampling) -> pd.DataFrame:
    """`recovery_table` in the schema of tables: site and depth beside layer, one metric for sensitivity in its units.

    Thresholds that no layer reaches have no row.
    """
    table = recovery_table(
        patched.scores, author_sets, random_negatives=patched.random_negatives, **resampling
    )
    last = max(patched.scores.layers)
    layer = table["layer"]
    table["depth"] = layer.astype("Float64") / last
    table["site"] = [pd.NA if pd.isna(x) else f"block {x}" if x else "embedding" for x in layer]
    sensitive = table["metric"].isin(SENSITIVITY_UNITS)
    table.loc[sensitive, "unit"] = table.loc[sensitive, "metric"].map(SENSITIVITY_UNITS)
    table.loc[sensitive, "metric"] = "sensitivity"
    return table.dropna(subset=["value"])


def length_table(texts: dict[str, ProbeTexts]) -> pd.DataFrame:
    """How many texts of each tier and side have how many tokens; side: anchor, positive or negative."""
    rows = []
    for tier, of_tier in texts.items():
        for side, part in (("anchor", "anchor"), ("positive", "clean"), ("negative", "corrupt")):
            tokens, counts = np.unique(of_tier.lengths(part), return_counts=True)
            rows.append(pd.DataFrame({"tier": tier, "side": side, "token": tokens, "value": counts}))
    return pd.concat(rows, ignore_index=True).assign(
        metric="texts", unit="texts", n=lambda t: t["value"].sum()
    )
