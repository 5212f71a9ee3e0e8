"""Does a label-free metric follow the score of a task along depth? Association of two short, smooth curves.

The paper (section 4.3, figures 3, 8, 9) reports distance correlation, Spearman's rho and Kendall's tau over the
layers of one model. Layers are no independent draws: two unrelated random walks over 25 layers have a distance
correlation of about 0.54, so a value of 0.8 says little by itself. Each association is therefore set beside a null
that keeps the smoothness of the curves (`smooth_null`).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats
from scipy.fft import dct, idct

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.values import Absent

CONSTANT = Absent("a curve is constant: nothing can be associated with it")
TIED = Absent("a curve is so tied that its bias-corrected distance variance is 0")


def distance_correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float | Absent:
    """How far two curves depend on each other in any way, linear or not: 0 to 1.

    dCor = sqrt(dCov^2(x, y) / sqrt(dCov^2(x, x) dCov^2(y, y))), with dCov^2 the mean product of doubly centred
    |x_i - x_j| and |y_i - y_j| (Szekely, Rizzo and Bakirov 2007, eq. 2.8 to 2.10): the biased form that the
    paper's bars rest on. It is above 0 for independent curves, the more so the fewer points there are.
    O(n log^2 n) time and O(n) memory; float64. Absent where a curve is constant.

    >>> x = np.arange(5.0)
    >>> print(f"{distance_correlation(x, 2 - 3 * x):.6f} {distance_correlation(x, (x - 2) ** 2):.6f}")
    1.000000 0.515923
    >>> distance_correlation(x, np.ones(5)).reason
    'a curve is constant: nothing can be associated with it'
    """
    x, y = _curves(x, y, at_least=2)
    spread = _covariance(x, x) * _covariance(y, y)
    if not spread > 0:
        return CONSTANT
    return float(np.sqrt(max(_covariance(x, y), 0.0) / np.sqrt(spread)))


def bias_corrected_correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float | Absent:
    """Squared distance correlation without its bias: 0 on average for independent points, and below it by chance.

    The same ratio, unrooted, of U-statistics of dCov^2 (Szekely and Rizzo 2014, section 3.1; the sums by rows of
    Huo and Szekely 2016, eq. 2.7). At least 4 points. O(n log^2 n) time; float64. Absent where a curve is constant, or
    tied but for a few layers, which leaves this form no variance.

    >>> x = np.arange(5.0)
    >>> print(f"{bias_corrected_correlation(x, -x):.6f} {bias_corrected_correlation(x, (x - 2) ** 2):.6f}")
    1.000000 -0.408248
    """
    x, y = _curves(x, y, at_least=4)
    if not (np.ptp(x) and np.ptp(y)):
        return CONSTANT
    # Curves have unit range, so a variance of rounding's size is none: 0 0 0 1 has none in this form.
    spread = [_unbiased(x, x), _unbiased(y, y)]
    if min(spread) < 1e-12:
        return TIED
    return float(_unbiased(x, y) / np.sqrt(spread[0] * spread[1]))


def smooth_surrogates(curve: Float[np.ndarray, " n"], n: int, seed: int) -> Float[np.ndarray, "draw n"]:
    """Curves that are as smooth as `curve` and share nothing else with it: cosine terms with signs drawn anew.

    The size of every term of the discrete cosine transform stays, and with it mean, variance and how much of the
    curve is slow; which way each term points is a coin toss. Unlike a shift along depth it needs no curve that
    closes on itself, unlike a permutation of layers it does not make a rough curve of a smooth one.

    >>> drawn = smooth_surrogates(np.arange(6.0), 3, seed=0)
    >>> bool(np.allclose(drawn.mean(axis=1), 2.5)), bool(np.allclose(drawn.std(axis=1), np.arange(6.0).std()))
    (True, True)
    """
    terms = dct(np.asarray(curve, dtype=np.float64), norm="ortho")
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, len(terms)))
    signs[:, 0] = 1.0
    return idct(signs * terms, norm="ortho", axis=1)


@dataclass(frozen=True)
class Association:
    """How closely two curves over the same n layers go together, and what chance would give.

    null_high: what 95 of 100 curves as smooth as the metric's stay below in distance correlation.
    p_smooth: share of these that reach the value found, the found one counted. p_iid: the same for shuffled layers,
    which is too small for smooth curves and shown for comparison.
    """

    dcor: float
    dcor_bias_corrected: float | Absent
    spearman: float
    kendall: float
    null_high: float
    p_smooth: float
    p_iid: float
    n: int


def association(
    metric: Float[np.ndarray, " n"], score: Float[np.ndarray, " m"], *, n_null: int = 999, seed: int = 0
) -> Association | Absent:
    """Distance correlation, Spearman's rho and Kendall's tau-b of a metric and a score along depth, with nulls.

    Absent where a curve is constant. Raises ParameterError where the curves differ in length or n_null is below
    19, TooFewError below 4 layers, NonFiniteError where a value is no number.

    >>> depth = np.linspace(0, 1, 12)
    >>> found = association(depth, depth**2, seed=0)
    >>> found.p_iid <= found.p_smooth  # a shuffle of layers is the easier null to beat
    True
    """
    metric, score = _curves(metric, score, at_least=4)
    if n_null < 19:
        raise ParameterError(f"n_null={n_null}: at least 19 draws are needed for a p-value of 0.05")
    found = distance_correlation(metric, score)
    if isinstance(found, Absent):
        return found
    smooth = _of_each(smooth_surrogates(metric, n_null, seed), score)
    shuffle = np.random.default_rng(seed).permuted(np.tile(metric, (n_null, 1)), axis=1)
    iid = _of_each(shuffle, score)
    return Association(
        dcor=found,
        dcor_bias_corrected=bias_corrected_correlation(metric, score),
        spearman=float(stats.spearmanr(metric, score).statistic),
        kendall=float(stats.kendalltau(metric, score).statistic),
        null_high=float(np.quantile(smooth, 0.95)),
        p_smooth=_share(smooth, found),
        p_iid=_share(iid, found),
        n=len(metric),
    )


def _of_each(
    curves: Float[np.ndarray, "draw n"], score: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " draw"]:
    """Distance correlation of many short curves with one score, from their n x n distances: n is the depth."""
    a, b = _centred(curves), _centred(score[None])
    covariance = np.maximum((a * b).sum((1, 2)), 0)
    return np.sqrt(covariance / np.sqrt(np.square(a).sum((1, 2)) * np.square(b).sum((1, 2))))


def _centred(curves: Float[np.ndarray, "draw n"]) -> Float[np.ndarray, "draw n n"]:
    distances = np.abs(curves[:, :, None] - curves[:, None])
    rows = distances.mean(2, keepdims=True)
    return distances - rows - rows.mT + rows.mean(1, keepdims=True)


def _share(null: Float[np.ndarray, " draw"], found: float) -> float:
    """Rounding may put an equal draw a hair below, which must not make it count as smaller."""
    return float((1 + (null >= found - 1e-12).sum()) / (1 + len(null)))


def _curves(x, y, *, at_least: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Both in float64, centred and of unit range, which leaves every correlation and avoids cancellation."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ParameterError(f"curves of shape {x.shape} and {y.shape}; two of one length are needed")
    if len(x) < at_least:
        raise TooFewError(f"{len(x)} layers; an association needs at least {at_least}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise NonFiniteError("a curve holds a value that is no number; leave out layers without a value")
    return _scaled(x), _scaled(y)


def _scaled(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    spread = np.ptp(x)
    return (x - x.mean()) / spread if spread > 0 else np.zeros_like(x)


def _covariance(x, y) -> float:
    n, rows_x, rows_y = len(x), _distances(x), _distances(y)
    products = _products(x, y) - 2 * rows_x @ rows_y / n + rows_x.sum() * rows_y.sum() / n**2
    return float(products / n**2)


def _unbiased(x, y) -> float:
    n, rows_x, rows_y = len(x), _distances(x), _distances(y)
    last = rows_x.sum() * rows_y.sum() / ((n - 1) * (n - 2))
    return float((_products(x, y) - 2 * rows_x @ rows_y / (n - 2) + last) / (n * (n - 3)))


def _distances(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Sum over j of |x_i - x_j|, from running sums of the sorted values."""
    order = np.argsort(x, kind="stable")
    ranked, n = x[order], len(x)
    below = np.cumsum(ranked) - ranked
    rows = np.empty(n)
    rows[order] = (2 * np.arange(n) - n + 1) * ranked + ranked.sum() - ranked - 2 * below
    return rows


def _products(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Sum over i and j of |x_i - x_j| |y_i - y_j|, by merging halves of the points sorted by x.

    For i in a left half and j in the right one beside it, x_j - x_i is not negative, and running sums in the order
    of y say for each j which i lie below it. All merges of one width are done at once.
    """
    order = np.argsort(x, kind="stable")
    size = 1 << (len(x) - 1).bit_length()
    # Rows: 1 (0 for points that only fill up to a power of 2), x, y, x y.
    table = np.zeros((4, size))
    table[:, : len(x)] = np.ones(len(x)), x[order], y[order], x[order] * y[order]
    total, width = 0.0, 1
    while width < size:
        blocks = table.reshape(4, -1, 2 * width)
        by_y = np.argsort(blocks[2], axis=-1, kind="stable")
        is_left = by_y < width
        blocks = np.take_along_axis(blocks, by_y[None], axis=-1)
        left = np.cumsum(blocks * is_left, axis=-1)
        below, all_of_them = _against(blocks, left), _against(blocks, left[..., -1:])
        total += float(((2 * below - all_of_them) * ~is_left).sum())
        width *= 2
    return 2 * total


def _against(points, sums):
    """Sum over the i in `sums` of (x_j - x_i)(y_j - y_i) for each point j; 0 for a point that only fills up."""
    one, x, y, product = points
    count, of_x, of_y, of_product = sums
    return one * (count * product - x * of_y - y * of_x + of_product)
