"""Intervals and a null for CKA.

A bootstrap with replacement is no choice here: a text drawn twice puts an entry of the diagonal, which the
debiased estimate leaves out, back into the kernel, and unrelated features score about .5. Half-samples without
replacement have no such pairs. For θ computed on m of n texts, Var(θ_m - θ_n) = σ² (1/m - 1/n), which at m = n/2
is σ²/n, the variance of θ_n itself: θ_m - θ_n is spread as θ_n - θ is, without any scaling.

For unrelated features the variance falls as 1/n² and the interval is too wide, by about sqrt(3); whether there is
any alignment is the question of `permutation_test`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.alignment.cka import debiased_cka
from readout.lenses.alignment.hsic import MINIMUM_TEXTS, as_pair, center_fully, u_center


@dataclass(frozen=True)
class CkaInterval:
    """An estimate with the limits of its confidence interval; `n` is the number of texts behind it."""

    value: float
    low: float
    high: float
    level: float
    n: int


@dataclass(frozen=True)
class PermutationTest:
    """CKA, its one-sided p value, and the standard deviation of CKA when the texts of y are shuffled."""

    value: float
    p: float
    null_sd: float
    n_permutations: int


def cka_interval(
    x: Float[Tensor, "text dim"],
    y: Float[Tensor, "text dim2"],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> CkaInterval:
    """`debiased_cka` with an interval from half-samples of the texts without replacement.

    `[θ_n - q_high, θ_n - q_low]`, q the quantiles of `θ_m - θ_n` at m = floor(n/2), times sqrt(m/(n-m)) for odd n.
    Features as given; steps that look at all texts (clipping) belong before. All resamples come from two Gram
    matrices by 0/1 weights: O(n² (d + resamples)) time, O(n² + n resamples) memory. Raises `TooFewError` for
    n < 8, `ParameterError` for a level outside (0, 1) or fewer than 10 resamples; else as `debiased_cka`.

    >>> x = torch.arange(12.0)[:, None]
    >>> interval = cka_interval(x, 2 * x, seed=0)
    >>> round(interval.value, 6), round(interval.low, 6), round(interval.high, 6), interval.n
    (1.0, 1.0, 1.0, 12)
    """
    return cka_combination([x], [1.0], y, n_resamples=n_resamples, level=level, seed=seed)


def cka_difference(
    x1: Float[Tensor, "text dim"],
    x2: Float[Tensor, "text dim2"],
    y: Float[Tensor, "text dim3"],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> CkaInterval:
    """How much better is x1 aligned with y than x2? `debiased_cka(x1, y) - debiased_cka(x2, y)`.

    Both are computed on the same half-samples, so what the choice of texts does to both cancels. Interval, cost
    and errors as `cka_interval`.

    >>> x = torch.arange(12.0)[:, None]
    >>> cka_difference(x, x, x**2).high
    0.0
    """
    return cka_combination([x1, x2], [1.0, -1.0], y, n_resamples=n_resamples, level=level, seed=seed)


def cka_combination(
    xs: Sequence[Float[Tensor, "text _"]],
    weights: Sequence[float],
    y: Float[Tensor, "text dim"],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> CkaInterval:
    """The sum of `weights[i] * debiased_cka(xs[i], y)`: a mean over decoding seeds, or one mean less another.

    All are computed on the same half-samples of the texts. Interval and errors as `cka_interval`, cost as many of it;
    ParameterError for another number of weights than of features.

    >>> x = torch.arange(12.0)[:, None]
    >>> round(cka_combination([x, 2 * x], [0.5, 0.5], x).value, 6)
    1.0
    """
    if len(xs) != len(weights) or not xs:
        raise ParameterError(f"weights: {len(weights)} for {len(xs)} sets of features; give each its own")
    halves = _half_samples(len(y), n_resamples, level, seed)
    value = sum(w * float(debiased_cka(x, y)) for x, w in zip(xs, weights, strict=True))
    found = sum(w * _cka_of_halves(x, y, halves) for x, w in zip(xs, weights, strict=True))
    return _interval(value, found, len(y), level)


def half_sample_interval(
    statistic: Callable[[Int[Tensor, " row"]], float],
    n: int,
    *,
    n_resamples: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> CkaInterval:
    """The interval of `cka_interval` for any number that is computed from some of n texts, given by their rows.

    One call of `statistic` a half-sample, and one for all texts: for what has no closed form in Gram matrices, such as
    a difference of differences or a fitted curve. Raises as `cka_interval` for n and the options.

    >>> half_sample_interval(lambda rows: float(len(rows) > 0), 12).value
    1.0
    """
    halves = _half_samples(n, n_resamples, level, seed)
    found = torch.tensor([statistic(half.nonzero()[:, 0]) for half in halves], dtype=torch.float64)
    return _interval(statistic(torch.arange(n)), found, n, level)


def _half_samples(n: int, n_resamples: int, level: float, seed: int) -> Float[Tensor, "resample text"]:
    """0/1 weights with floor(n/2) ones in each row."""
    if not 0 < level < 1:
        raise ParameterError(f"level={level}: a confidence level lies between 0 and 1, such as 0.95")
    if n_resamples < 10:
        raise ParameterError(f"n_resamples={n_resamples}: at least 10 are needed for an interval")
    if n // 2 < MINIMUM_TEXTS:
        raise TooFewError(f"y has {n} texts; half-samples need at least {2 * MINIMUM_TEXTS}")
    order = np.random.default_rng(seed).random((n_resamples, n)).argsort(-1)
    return torch.from_numpy((order < n // 2).astype(float))


def _cka_of_halves(
    x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"], halves: Float[Tensor, "resample text"]
) -> Float[Tensor, " resample"]:
    # U-centring all texts first adds a_i + a_j + c to each kernel: it changes no half-sample, and keeps the digits.
    k, l = (u_center(z @ z.T) for z in (center_fully(z) for z in as_pair(x, y)))
    halves = halves.to(k.device)
    kk, ll = _weighted_hsic(k, k, halves), _weighted_hsic(l, l, halves)
    for name, own, gram in (("x", kk, k), ("y", ll, l)):
        if (own <= 1e-13 * gram.square().mean()).any():
            raise DegenerateError(f"{name} is constant over half of the texts; features that vary are needed")
    return _weighted_hsic(k, l, halves) / (kk * ll).sqrt()


def _weighted_hsic(
    k: Float[Tensor, "text text"], l: Float[Tensor, "text text"], halves: Float[Tensor, "resample text"]
) -> Float[Tensor, " resample"]:
    """HSIC_u, up to 1 / (m(m-3)), of the texts with weight 1; k and l have a zero diagonal."""
    m = int(halves[0].sum())
    trace = ((halves @ (k * l)) * halves).sum(-1)
    rows_k, rows_l = (halves @ k) * halves, (halves @ l) * halves
    sums = rows_k.sum(-1) * rows_l.sum(-1) / ((m - 1) * (m - 2))
    return trace + sums - 2 * (rows_k * rows_l).sum(-1) / (m - 2)


def _interval(value: float, halves: Float[Tensor, " resample"], n: int, level: float) -> CkaInterval:
    m = n // 2
    tail = (1 - level) / 2
    deviations = (halves.cpu().numpy() - value) * np.sqrt(m / (n - m))
    low, high = np.quantile(deviations, [tail, 1 - tail])
    return CkaInterval(value, float(value - high), float(value - low), level, n)


def permutation_test(
    x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"], n_permutations: int = 999, seed: int = 0
) -> PermutationTest:
    """Is there any alignment? CKA against its values when the rows of y are shuffled.

    `p = (1 + #{null >= value}) / (1 + permutations)`, so never 0. The null's sd is about sqrt(2)/n. Only HSIC(x, y)
    changes under a permutation: O(n² (d + permutations)). Raises `ParameterError` for fewer than 10 permutations;
    else as `debiased_cka`.

    >>> x = torch.arange(12.0)[:, None]
    >>> permutation_test(x, x, n_permutations=99).p
    0.01
    """
    if n_permutations < 10:
        raise ParameterError(f"n_permutations={n_permutations}: at least 10 are needed for a p value")
    value = float(debiased_cka(x, y))
    k, l = (u_center(z @ z.T) for z in (center_fully(z) for z in as_pair(x, y)))
    norm = (k.square().sum() * l.square().sum()).sqrt()
    rng = np.random.default_rng(seed)
    orders = (torch.from_numpy(rng.permutation(len(k))).to(k.device) for _ in range(n_permutations))
    null = torch.stack([(k * l[order][:, order]).sum() / norm for order in orders])
    # A permutation that only swaps equal texts gives the value again, up to rounding.
    count = int((null >= value - 1e-12).sum())
    return PermutationTest(value, (1 + count) / (1 + n_permutations), float(null.std()), n_permutations)
