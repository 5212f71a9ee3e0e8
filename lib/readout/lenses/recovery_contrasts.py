"""One number of a scorer's patch scores, or of two scorers' on the same triplets, with an interval.

Each statistic takes `PatchScores` and weights `[resample text]` (see `recovery`) and gives one number a resample.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from readout.lenses.intervals import cluster_weights
from readout.lenses.recovery import (
    PatchScores,
    Weights,
    failure_rate,
    first_layer,
    rank_recovery,
    recovery_ratio,
    sensitivity,
    sensitivity_per_gap,
)
from readout.lenses.recovery_table import CONSOLIDATED

Number = Float[np.ndarray, " resample"]


def patch_contrast(
    statistic: Callable[..., Number],
    *scores: PatchScores,
    author_sets: Sequence[str],
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float] | None:
    """`statistic(*scores, weights)` of the sample, with a percentile interval over resampled author-sets.

    The scores are of the same triplets. None where it is undefined in the sample; resamples in which it is are left
    out.
    """
    n = len(author_sets)
    drawn = np.concatenate([np.ones((1, n)), cluster_weights(list(author_sets), n_resamples, seed)])
    values = statistic(*scores, drawn)
    if np.isnan(values[0]):
        return None
    low, high = np.nanquantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return {"value": values[0].item(), "low": low.item(), "high": high.item(), "level": level, "n": n}


def consolidation_shift(first: PatchScores, second: PatchScores, weights: Weights) -> Number:
    """How much deeper the first scorer consolidates than the second, in relative depth."""
    reached = (first_layer(rank_recovery(s, weights), s.layers, CONSOLIDATED) for s in (first, second))
    one, two = reached
    return (one - two) / max(first.layers)


def centre_shift(first: PatchScores, second: PatchScores, weights: Weights) -> Number:
    """How much deeper the centre of the first scorer's recovery lies: depth averaged with recovery as weight.

    Over the layers below the last: there a mean shift gives mean pooling the clean vector itself, for any model.
    Recoveries below 0 count as 0; undefined where no layer recovers anything.
    """
    return _centre(first, weights) - _centre(second, weights)


def _centre(scores: PatchScores, weights: Weights) -> Number:
    depth = np.array(scores.layers[:-1])[:, None] / max(scores.layers)
    gained = np.clip(recovery_ratio(scores, weights)[:-1], 0, None)
    total = gained.sum(axis=0)
    return np.divide((depth * gained).sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0)


def sensitivity_log_ratio(first: PatchScores, second: PatchScores, weights: Weights) -> Number:
    """Natural log of how many times as sensitive the first scorer is as the second, mean over layers, raw scores."""
    one, two = (sensitivity(s, weights).mean(axis=0) for s in (first, second))
    return np.log(one / two)


def sensitivity_log_ratio_in_gaps(first: PatchScores, second: PatchScores, weights: Weights) -> Number:
    """The same, each scorer's sensitivity in units of its own mean gap between clean and corrupted."""
    one, two = (sensitivity_per_gap(s, weights).mean(axis=0) for s in (first, second))
    return np.log(one / two)


def failure_difference(first: PatchScores, second: PatchScores, weights: Weights) -> Number:
    """How much more often the first scorer prefers the other author's text."""
    return (failure_rate(first, weights) - failure_rate(second, weights))[0]


def lowest_recovery(scores: PatchScores, weights: Weights) -> Number:
    """The recovery ratio, in percent, at the layer where it is least."""
    return recovery_ratio(scores, weights).min(axis=0)


def first_rank_recovery_above_chance(scores: PatchScores, weights: Weights) -> Number:
    """Rank recovery at the embedding, less one half."""
    return rank_recovery(scores, weights)[0] - 0.5


def depth_claims(
    published: dict[tuple[str, str], PatchScores],
    identical: dict[str, PatchScores],
    partial: dict[tuple[str, str], PatchScores],
    *,
    authors: dict[str, Sequence[str]],
    inner: Sequence[str],
    **resampling,
) -> dict[str, dict[str, float]]:
    """The estimates behind the claims on depth; those that are undefined here, or of an empty tier, are left out.

    published: by scorer and tier; identical: by scorer, pairs of equal length; partial: by scorer and intervention.
    authors, inner: the author-sets of the triplets of each tier, and of those of the last two.
    """

    def of(statistic: Callable, *scores: PatchScores, sets: Sequence[str]) -> dict[str, float] | None:
        return patch_contrast(statistic, *scores, author_sets=sets, **resampling)

    def in_tier(tier: str, statistic: Callable, *names: str) -> dict[str, float] | None:
        if tier not in authors:
            return None
        return of(statistic, *(published[name, tier] for name in names), sets=authors[tier])

    least = min(identical, key=lambda name: recovery_ratio(identical[name], np.ones((1, len(inner)))).min())
    found = {
        "A-patch-identity": of(lowest_recovery, identical[least], sets=inner),
        "A-consol-li": in_tier("A", consolidation_shift, "li", "mean"),
        "A-consol-pli": in_tier("A", consolidation_shift, "pli-2", "mean"),
        "A-rank-mean": in_tier("A", first_rank_recovery_above_chance, "mean"),
        "A-sens": in_tier("A", sensitivity_log_ratio, "li", "mean"),
        "A-sens-unit": in_tier("A", sensitivity_log_ratio_in_gaps, "li", "mean"),
        "A-tier-b": _hard_tier(published, authors, **resampling),
        "A-tier-robust": in_tier("B", failure_difference, "li", "mean"),
    }
    for claim, kind in (("A-true-shift", "mean shift"), ("A-true-random", "random positions, 25 %")):
        found[claim] = of(centre_shift, partial["li", kind], partial["mean", kind], sets=inner)
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _hard_tier(
    published: dict[tuple[str, str], PatchScores],
    authors: dict[str, Sequence[str]],
    *,
    n_resamples: int,
    seed: int,
    level: float = 0.95,
) -> dict[str, float] | None:
    """Failure rate in tier B less that in tier A, mean over scorers, in the same resamples of author-sets."""
    if not {"A", "B"} <= authors.keys():
        return None
    sets = [*authors["A"], *authors["B"]]
    drawn = np.concatenate([np.ones((1, len(sets))), cluster_weights(sets, n_resamples, seed)])
    parts = {"A": drawn[:, : len(authors["A"])], "B": drawn[:, len(authors["A"]) :]}
    names = list(dict.fromkeys(name for name, _ in published))
    rates = {
        t: np.mean([failure_rate(published[n, t], w)[0] for n in names], axis=0) for t, w in parts.items()
    }
    values = rates["B"] - rates["A"]
    low, high = np.nanquantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return {"value": values[0].item(), "low": low.item(), "high": high.item(), "level": level, "n": len(sets)}
