"""Recovery statistics at every layer, and the layers at which they set in, over resampled author-sets."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from readout.errors import DegenerateError, ParameterError
from readout.lenses.intervals import cluster_weights
from readout.lenses.recovery import (
    Curve,
    PatchScores,
    Weights,
    failure_rate,
    first_layer,
    rank_recovery,
    recovery,
    recovery_ratio,
    sensitivity,
    sensitivity_per_gap,
)
from readout.lenses.values import Absent

CONSOLIDATED, INFLECTED = 0.75, 50.0
"""Rank recovery at the published consolidation point, and percent of recovery at the inflection of the code."""


@dataclass(frozen=True)
class Onset:
    """The layer at which a curve first reaches a threshold, over resamples.

    low, high: percentile limits, layers too, over those resamples in which the threshold is reached at all.
    share: of the resamples in which it is; where it is well below 1, the limits tell only half the story.
    """

    value: int | Absent
    low: int | Absent
    high: int | Absent
    share: float


def onset(
    curve: Curve, resampled: Curve, layers: Sequence[int], threshold: float, level: float = 0.95
) -> Onset:
    """Where the curve of the sample, `[site 1]`, first reaches `threshold`, with the same for its resamples.

    Consolidation point: of `rank_recovery`, at 0.75. Inflection: of `recovery`, at 50 percent.

    >>> onset(np.array([[0.5], [0.8]]), np.array([[0.5, 0.9, 0.5], [0.7, 0.9, 0.8]]), [0, 1], 0.75)
    Onset(value=1, low=0, high=1, share=0.6666666666666666)
    """
    found = first_layer(resampled, layers, threshold)
    found = found[~np.isnan(found)]
    tail, none = (1 - level) / 2, Absent(f"no layer reaches {threshold:g}")
    low, high = (
        np.quantile(found, [tail, 1 - tail], method="inverted_cdf") if len(found) else (np.nan, np.nan)
    )
    value, low, high = (
        none if np.isnan(x) else int(x) for x in (first_layer(curve, layers, threshold)[0], low, high)
    )
    return Onset(value, low, high, len(found) / resampled.shape[1])


def recovery_table(
    scores: PatchScores,
    author_sets: Sequence[Hashable],
    *,
    random_negatives: Float[np.ndarray, " score"] | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Every statistic of `recovery` with a percentile interval over resampled author-sets.

    Columns layer, metric, unit, value, low, high, level, n. Rows: each curve at each layer, and, without a layer,
    consolidation and inflection, the share of resamples in which each exists, the failure rate and counts of
    triplets. A missing value is a threshold that no layer reaches; counts have no interval. Without an
    eligible triplet, what is a mean over those has no row; without any gap, nor has what is in units of it.
    author_sets: one a triplet, of any hashable kind (frozensets). random_negatives: scores of anchors with texts of
    others; given these, `sensitivity_per_sd` is there too, their standard deviation taken as known.
    Time and memory: layers x resamples x triplets and layers x resamples.

    Raises ParameterError for arguments that do not fit, TooFewError for fewer than two author-sets.

    >>> scores = PatchScores(np.array([3.0, 2.0]), np.array([1.0, 1.0]), np.array([[1.0, 1.0], [3.0, 2.0]]), [0, 1])
    >>> table = recovery_table(scores, [frozenset({"a"}), frozenset({"b"})])
    >>> table.loc[table["metric"] == "recovery", ["layer", "value", "low", "high"]].values.tolist()
    [[0, 0.0, 0.0, 0.0], [1, 100.0, 100.0, 100.0]]
    >>> table.loc[table["metric"] == "consolidation_layer", "value"].tolist()
    [1.0]
    """
    n_all = len(scores.clean)
    _check(n_all, author_sets, level, n_resamples)
    sample, drawn = np.ones((1, n_all)), cluster_weights(_codes(author_sets), n_resamples, seed)
    rows = [("failure_rate", "share", None, failure_rate(scores, sample), failure_rate(scores, drawn), n_all)]
    for name, unit, statistic, n in _curves(scores, random_negatives):
        rows.append((name, unit, scores.layers, statistic(scores, sample), statistic(scores, drawn), n))
    tables = [_limits(*row, level=level) for row in rows]
    tables += [_onsets(scores, sample, drawn, level), _counts(scores)]
    table = pd.DataFrame([row for rows in tables for row in rows]).assign(level=level)
    types = {"layer": "Int64", "value": "Float64", "low": "Float64", "high": "Float64"}
    return table.astype(types)[["layer", "metric", "unit", "value", "low", "high", "level", "n"]]


def _check(n_texts: int, author_sets: Sequence[Hashable], level: float, n_resamples: int) -> None:
    if len(author_sets) != n_texts:
        raise ParameterError(
            f"author_sets: {len(author_sets)} for {n_texts} triplets; there should be one each"
        )
    if not 0 < level < 1:
        raise ParameterError(f"level={level}: a confidence level lies between 0 and 1, such as 0.95")
    if n_resamples < 10:
        raise ParameterError(f"n_resamples={n_resamples}: at least 10 are needed for an interval")


def _curves(scores: PatchScores, random_negatives: np.ndarray | None) -> list[tuple]:
    n_eligible, n_all = int(scores.eligible.sum()), len(scores.clean)
    recoveries = [
        ("recovery", "percent", recovery, n_eligible),
        ("recovery_ratio", "percent", recovery_ratio, n_eligible),
        ("rank_recovery", "share", rank_recovery, n_eligible),
    ]
    curves = [
        *(recoveries if n_eligible else []),
        ("sensitivity", "score", sensitivity, n_all),
    ]
    if not scores.tied.all():
        curves.append(("sensitivity_per_gap", "gap", sensitivity_per_gap, n_all))
    if random_negatives is None:
        return curves
    if len(random_negatives) < 2 or not (sd := np.std(random_negatives, ddof=1)) > 0:
        raise DegenerateError(
            "random_negatives: have no spread to divide by; give two different scores or more"
        )
    return [*curves, ("sensitivity_per_sd", "sd", lambda s, w: sensitivity(s, w) / sd, n_all)]


def _limits(
    metric: str, unit: str, layers: Sequence | None, curve: Curve, resampled: Curve, n: int, level: float
) -> list[dict]:
    limits = np.nanquantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return [
        {"layer": layer, "metric": metric, "unit": unit, "value": value, "low": low, "high": high, "n": n}
        for layer, value, low, high in zip(layers or [pd.NA], curve[:, 0], *limits, strict=True)
    ]


def _onsets(scores: PatchScores, sample: Weights, drawn: Weights, level: float) -> list[dict]:
    rows = []
    if not scores.eligible.any():
        return rows
    for name, statistic, threshold in (
        ("consolidation", rank_recovery, CONSOLIDATED),
        ("inflection", recovery, INFLECTED),
    ):
        found = onset(statistic(scores, sample), statistic(scores, drawn), scores.layers, threshold, level)
        limits = {
            key: pd.NA if isinstance(x := getattr(found, key), Absent) else x
            for key in ("value", "low", "high")
        }
        rows.append({"metric": f"{name}_layer", "unit": "layer", **limits})
        rows.append({"metric": f"{name}_exists", "unit": "share of resamples", "value": found.share})
    return [row | {"n": int(scores.eligible.sum())} for row in rows]


def _counts(scores: PatchScores) -> list[dict]:
    counts = {"n_eligible": scores.eligible, "n_left_out": ~scores.eligible, "n_tied": scores.tied}
    return [
        {"metric": name, "unit": "triplets", "value": int(which.sum()), "n": len(which)}
        for name, which in counts.items()
    ]


def _codes(author_sets: Sequence[Hashable]) -> list[int]:
    """Numbers for names: frozensets have no order to be sorted by."""
    codes: dict[Hashable, int] = {}
    return [codes.setdefault(each, len(codes)) for each in author_sets]
