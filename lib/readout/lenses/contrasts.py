"""Quantities of whole depth curves, such as the depth of a valley, with an interval.

Each statistic maps curves of means `[site, resample]`, embedding first, to one number a resample. A contrast
computes it anew in every resample of the authors, its lowest site too, and of all its curves at once.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from readout.errors import ParameterError, TooFewError
from readout.lenses.intervals import cluster_bootstrap

# Models differ in depth, so the number of sites is not bound to one name.
Texts = Float[np.ndarray, "_ text"]
Curve = Float[np.ndarray, "_ resample"]
Number = Float[np.ndarray, " resample"]


def curve_of(
    table: pd.DataFrame,
    metric: str,
    *,
    norm: str = "raw",
    convention: str = "corrected",
    first_token: str = "kept",
) -> Texts:
    """The values of every text along depth, from a `TokenQuality.table`; NaN where a text has none.

    Raises ParameterError where the table holds no such rows.
    """
    wanted = {"metric": metric, "norm": norm, "convention": convention, "first_token": first_token}
    rows = table[np.logical_and.reduce([table[column] == value for column, value in wanted.items()])]
    if rows.empty:
        raise ParameterError(f"no rows with {wanted}")
    return rows.pivot(index="layer", columns="text", values="value").to_numpy(float, na_value=np.nan)


def contrast(
    statistic: Callable[..., Number],
    *curves: Texts,
    authors: Sequence[str],
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """`statistic` of the mean curves, with a percentile interval over resampled authors: value, low, high, level, n.

    >>> rng = np.random.default_rng(0)
    >>> curve = np.array([[0.9], [0.5], [0.8]]) + 0.01 * rng.normal(size=(3, 40))
    >>> found = contrast(valley_depth, curve, authors=[str(i) for i in range(40)])
    >>> round(found["value"], 1), found["low"] > 0.28, found["n"]
    (0.3, True, 40)
    """
    ends = np.cumsum([len(curve) for curve in curves])[:-1]
    interval = cluster_bootstrap(
        np.concatenate(curves),
        authors,
        statistic=lambda means: statistic(*np.split(means, ends))[None],
        n_resamples=n_resamples,
        level=level,
        seed=seed,
    )
    return {**{name: each[0].item() for name, each in vars(interval).items()}, "level": level}


def valley_depth(curve: Curve) -> Number:
    """How far the lowest inner site lies below the lower of the two ends; positive where there is a valley.

    >>> valley_depth(np.array([[0.88], [0.54], [0.86]])).round(2).item()
    0.32

    Raises TooFewError for fewer than three sites.
    """
    _require_middle(curve)
    return np.minimum(curve[0], curve[-1]) - curve[1:-1].min(0)


def valley_difference(curve: Curve, other: Curve) -> Number:
    """How much deeper the first curve's valley is than the second's.

    >>> flat, deep = np.array([[0.9], [0.9], [0.9]]), np.array([[0.9], [0.5], [0.9]])
    >>> valley_difference(flat, deep).round(2).item()
    -0.4
    """
    return valley_depth(curve) - valley_depth(other)


def last_difference(curve: Curve, other: Curve) -> Number:
    """The first curve's last site, less the second's.

    >>> last_difference(np.array([[0.5], [0.9]]), np.array([[0.5], [0.6]])).round(2).item()
    0.3
    """
    return curve[-1] - other[-1]


def middle_change(curve: Curve) -> Number:
    """Mean over the middle third of the depth, less the embedding; negative where the curve falls.

    >>> middle_change(np.array([[120.0], [115.0], [113.0], [118.0]])).item()  # depths 0, 1/3, 2/3, 1
    -6.0

    Raises TooFewError for fewer than three sites.
    """
    _require_middle(curve)
    depth = np.arange(len(curve)) / (len(curve) - 1)
    middle = (depth >= 1 / 3 - 1e-9) & (depth <= 2 / 3 + 1e-9)
    return curve[middle].mean(0) - curve[0]


def _require_middle(curve: Curve) -> None:
    if len(curve) < 3:
        raise TooFewError(f"curve: {len(curve)} sites; at least 3 are needed, two ends and one between")
