"""Quantities of a depth curve as a whole, and the verdict that an interval gives on a claim about them.

Each contrast maps means `[site, resample]` along depth (embedding first) to one number a resample, so that
`cluster_bootstrap` carries the sites' dependence: the lowest site is found anew in every resample.
"""

import numpy as np
from jaxtyping import Float

from readout.errors import TooFewError

Curve = Float[np.ndarray, "site resample"]
Number = Float[np.ndarray, "1 resample"]


def valley_depth(curve: Curve) -> Number:
    """How far the lowest inner site lies below the lower of the two ends; positive where there is a valley.

    >>> valley_depth(np.array([[0.88], [0.54], [0.86]])).round(2).item()
    0.32

    Raises TooFewError for fewer than three sites.
    """
    if len(curve) < 3:
        raise TooFewError(
            f"curve: {len(curve)} sites, but a valley needs at least 3 (two ends and one between)"
        )
    return (np.minimum(curve[0], curve[-1]) - curve[1:-1].min(0))[None]


def middle_change(curve: Curve) -> Number:
    """Mean over the middle third of the depth, less the embedding; negative where the curve falls.

    >>> middle_change(np.array([[120.0], [115.0], [113.0], [118.0]])).item()  # depths 0, 1/3, 2/3, 1
    -6.0

    Raises TooFewError for fewer than three sites.
    """
    if len(curve) < 3:
        raise TooFewError(f"curve: {len(curve)} sites, but a middle needs at least 3")
    depth = np.arange(len(curve)) / (len(curve) - 1)
    middle = (depth >= 1 / 3 - 1e-9) & (depth <= 2 / 3 + 1e-9)
    return (curve[middle].mean(0) - curve[0])[None]


def verdict(low: float, high: float, *, above: float | None = None, below: float | None = None) -> str:
    """`holds` if the whole interval lies on the claimed side, `fails` if on the other, else `undecided`.

    >>> verdict(0.2, 0.4, above=0.0), verdict(-0.4, -0.2, above=0.0), verdict(-0.1, 0.1, above=0.0)
    ('holds', 'fails', 'undecided')
    >>> verdict(-0.4, -0.2, below=0.0)
    'holds'
    """
    if (above is None) == (below is None):
        raise TypeError("verdict: give exactly one of `above` and `below`")
    if below is not None:
        low, high, above = -high, -low, -below
    return "holds" if low > above else "fails" if high < above else "undecided"
