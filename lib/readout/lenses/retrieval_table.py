"""Rankings averaged over queries and training seeds, with intervals, and the difference of two read-outs."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_weights
from readout.lenses.retrieval import PerQuery


def retrieval_table(
    runs: Sequence[PerQuery], *, n_resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """The mean of every metric over queries, and over seeds where `runs` are several, with percentile intervals.

    runs: of the same queries, one a training seed. Resamples draw author-sets and, of several runs, runs too (two
    stages, with replacement; of few runs, their part of the width is too small by sqrt(1 - 1 / runs)).
    Columns metric, unit, value, low, high, level, n (queries). Time: runs x metrics x queries x resamples.

    Raises ParameterError for runs of different queries, a level outside (0, 1) or too few resamples, TooFewError for
    no run or fewer than two author-sets.

    >>> run = PerQuery({"MRR": np.array([1.0, 0.5])}, np.arange(2), ["a", "b"], 0)
    >>> retrieval_table([run])[["metric", "value", "low", "high", "n"]].values.tolist()
    [['MRR', 0.75, 0.5, 1.0, 2]]
    """
    drawn = _means(runs, n_resamples, level, seed)
    return pd.DataFrame([_row(name, drawn[name], level, len(runs[0])) for name in runs[0].values])


def retrieval_contrast(
    first: Sequence[PerQuery],
    second: Sequence[PerQuery],
    metric: str = "R@20",
    *,
    ratio: bool = False,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """How much better the first read-out is than the second: value, low, high, level, n of a difference or a ratio.

    Both are resampled together: the same author-sets and, where they have as many runs, the same seeds. Resamples in
    which the second is 0 have no ratio and are left out.

    Raises as `retrieval_table`, ParameterError for a metric they lack, DegenerateError for a ratio to 0.

    >>> one, two = (PerQuery({"MRR": np.array([x, x / 2])}, np.arange(2), ["a", "b"], 0) for x in (1.0, 0.5))
    >>> found = retrieval_contrast([one], [two], "MRR")
    >>> [float(found[name]) for name in ("value", "low", "high")]
    [0.375, 0.25, 0.5]
    """
    means = [_means(runs, n_resamples, level, seed) for runs in (first, second)]
    _check_runs([*first, *second])
    if metric not in first[0].values:
        raise ParameterError(f"metric={metric!r}: the runs have {', '.join(first[0].values)}")
    one, two = (each[metric] for each in means)
    if ratio and not two[0] > 0:
        raise DegenerateError(f"second: its {metric} is 0, so there is no ratio to it")
    drawn = one[two > 0] / two[two > 0] if ratio else one - two
    found = _row(metric, drawn, level, len(first[0]))
    return {name: found[name] for name in ("value", "low", "high", "level", "n")}


def _check_runs(runs: Sequence[PerQuery]) -> None:
    if not runs:
        raise TooFewError("runs: is empty; give at least one")
    for run in runs[1:]:
        same = np.array_equal(run.queries, runs[0].queries) and run.author_sets == runs[0].author_sets
        if not same or run.values.keys() != runs[0].values.keys():
            raise ParameterError("runs: are not of the same queries and cut-offs; rank one gallery by each")


def _means(
    runs: Sequence[PerQuery], n_resamples: int, level: float, seed: int
) -> dict[str, Float[np.ndarray, " resample"]]:
    """The sample's mean of each metric, then that of every resample of author-sets and runs."""
    _check_runs(runs)
    if not 0 < level < 1 or n_resamples < 10:
        raise ParameterError(
            f"level={level}, n_resamples={n_resamples}: 0 < level < 1 and 10 resamples are needed"
        )
    authors = runs[0].author_sets
    weights = np.concatenate([np.ones((1, len(authors))), cluster_weights(authors, n_resamples, seed)])
    draws = np.random.default_rng([seed, 1]).multinomial(
        len(runs), np.full(len(runs), 1 / len(runs)), n_resamples
    )
    shares = np.concatenate([np.ones((1, len(runs))), draws]) / len(runs)
    means = {}
    for name in runs[0].values:
        by_run = np.stack([weights @ run.values[name] for run in runs], axis=1) / weights.sum(axis=1)[:, None]
        means[name] = (by_run * shares).sum(axis=1)
    return means


def _row(metric: str, drawn: Float[np.ndarray, " resample"], level: float, n: int) -> dict:
    low, high = np.quantile(drawn[1:], [(1 - level) / 2, (1 + level) / 2])
    limits = {"value": drawn[0], "low": low, "high": high}
    return {"metric": metric, "unit": "share", **limits, "level": level, "n": n}
