"""Intervals for means over texts, and for statistics of a whole data set.

Two estimators, because two kinds of statistic need them:

- A *mean over texts* (prompt entropy, curvature) is resampled with replacement, whole clusters at a time:
  passages of one author are no independent draws, so authors are what is drawn.
- A statistic *of the set* (dataset entropy, InfoNCE, LiDAR, DiME) cannot be resampled with replacement: a
  text drawn twice is a repeated row, and repeated rows lower an entropy by construction. It is computed on
  subsets without replacement, and the spread of those is scaled to the full sample (delete-d jackknife).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from readout.errors import ParameterError, TooFewError


@dataclass(frozen=True)
class Interval:
    """Estimates with their limits, one for each leading index; `n` is the number of texts behind them."""

    value: Float[np.ndarray, "*site"]
    low: Float[np.ndarray, "*site"]
    high: Float[np.ndarray, "*site"]
    n: Int[np.ndarray, "*site"]


def _check(level: float, n_resamples: int) -> None:
    if not 0 < level < 1:
        raise ParameterError(f"level={level}: a confidence level lies between 0 and 1, such as 0.95")
    if n_resamples < 10:
        raise ParameterError(f"n_resamples={n_resamples}: at least 10 are needed for an interval")


def cluster_weights(clusters: Sequence, n_resamples: int, seed: int) -> Int[np.ndarray, "resample text"]:
    """How often each text counts in each bootstrap resample of whole clusters.

    >>> w = cluster_weights(["a", "a", "b"], n_resamples=10, seed=0)
    >>> bool((w[:, 0] == w[:, 1]).all())  # texts of one author come together
    True
    """
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        raise TooFewError(f"clusters: {len(names)} distinct, but an interval over clusters needs at least 2")
    draws = np.random.default_rng(seed).multinomial(
        len(names), np.full(len(names), 1 / len(names)), n_resamples
    )
    return draws[:, member]


def cluster_bootstrap(
    values: Float[np.ndarray, "*site text"],
    clusters: Sequence,
    *,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean over texts with a percentile interval from resampling whole clusters (authors).

    A text whose value is undefined is NaN in `values` and is left out of its mean; `n` counts the others.
    `statistic` maps the means `[site, resample]` to `[out, resample]` for quantities of several sites at once,
    such as the depth of a valley; then `n` is that of the smallest site. Time and memory grow as
    sites x texts + sites x resamples.

    Raises TooFewError for fewer than two clusters or a site without a single defined value.

    >>> interval = cluster_bootstrap(np.array([[1.0, 2.0, 3.0, 4.0]]), ["a", "a", "b", "b"], seed=0)
    >>> interval.value.tolist(), interval.low.tolist(), interval.high.tolist()
    ([2.5], [1.5], [3.5])
    """
    _check(level, n_resamples)
    weights = cluster_weights(clusters, n_resamples, seed)
    defined = np.isfinite(values)
    n = defined.sum(-1)
    if (n == 0).any():
        raise TooFewError("values: a site has no text with a defined value, so it has no mean")
    filled = np.where(defined, values, 0.0)
    with np.errstate(invalid="ignore"):  # a resample may miss every text that is defined at a site
        resampled = (filled @ weights.T) / (defined @ weights.T)
    mean = filled.sum(-1) / n
    if statistic is not None:
        mean, resampled = statistic(mean[..., None])[..., 0], statistic(resampled)
        n = np.full(mean.shape, n.min())
    tail = (1 - level) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail], axis=-1)
    return Interval(mean, low, high, n)


def subsample(
    statistic: Callable[[np.ndarray], np.ndarray],
    clusters: Sequence,
    *,
    n_resamples: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """A statistic of a whole set of texts with an interval from half-samples without replacement.

    `statistic` takes row indices and returns one value a site. Each half-sample holds half the clusters; with m
    of n texts in it, the standard error is the root mean square of sqrt(m / (n - m)) (value - mean over
    half-samples), the delete-d jackknife of Shao and Wu (1989, Annals of Statistics 17:1176), and the interval
    is normal, centred on the value of the full sample: a statistic that depends on n is not shifted.

    Raises TooFewError for fewer than four clusters.

    >>> x = np.arange(8.0)
    >>> half = subsample(lambda rows: x[rows].mean(keepdims=True), list("abcdefgh"), seed=0)
    >>> half.value.tolist(), bool(half.low[0] < 3.5 < half.high[0])
    ([3.5], True)
    """
    _check(level, n_resamples)
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 4:
        raise TooFewError(f"clusters: {len(names)} distinct, but half-samples of clusters need at least 4")
    rng = np.random.default_rng(seed)
    value = np.asarray(statistic(np.arange(len(member))), dtype=float)
    halves = [
        np.flatnonzero(np.isin(member, rng.permutation(len(names))[: len(names) // 2]))
        for _ in range(n_resamples)
    ]
    drawn = np.stack([np.asarray(statistic(rows), dtype=float) for rows in halves])
    scale = np.array([np.sqrt(len(rows) / (len(member) - len(rows))) for rows in halves])
    deviations = (drawn - drawn.mean(0)) * scale.reshape(-1, *[1] * value.ndim)
    error = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt((deviations**2).sum(0) / (n_resamples - 1))
    return Interval(value, value - error, value + error, np.full(value.shape, len(member)))
