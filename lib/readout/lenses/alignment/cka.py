"""CKA, how alike two feature sets arrange the same texts: debiased, biased, as published, and many at once."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError
from readout.lenses.alignment.clip import clip_in_own_precision
from readout.lenses.alignment.hsic import (
    as_pair,
    biased_hsic,
    center_fully,
    check_count,
    hsic_of_centered,
    self_hsic_of_centered,
    u_center,
)
from readout.lenses.preprocess import as_states

Steps = Callable[[Tensor], Tensor]

# Entries of one float64 work array, 128 MiB: chunks of sets are cut to it.
CHUNK_ENTRIES = 2**24
# Below this share of trace(K)², what is left of ||U(K)||² is the rounding of float64.
ROUNDING = 1e-13


def debiased_cka(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """Do the two sets hold the same texts near each other? 1 for the same arrangement, 0 for unrelated ones.

    `HSIC_u(x, y) / sqrt(HSIC_u(x, x) HSIC_u(y, y))` with linear kernels: a cosine of U-centred Gram matrices,
    so in [-1, 1]; for independent features its mean is about 0 and its sd about sqrt(2)/n. Takes features as
    given (`published_steps`, `corrected_steps`). Invariant to rotation, translation and one global scale. float64,
    cost as `debiased_hsic`. Raises `DegenerateError` for features without variation, `TooFewError` for n < 4,
    `ParameterError`, `NonFiniteError`. Source: Kornblith et al. 2019 (arXiv 1905.00414), debiased by Song et
    al. 2012.

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> round(float(debiased_cka(x, 3 * x)), 6), round(float(debiased_cka(x, y)), 6)
    (1.0, -0.5)
    """
    x, y = (center_fully(z) for z in as_pair(x, y))
    norms = _self_hsic("x", x) * _self_hsic("y", y)
    return (hsic_of_centered(x, y) / norms.sqrt()).clamp(-1, 1)


def _self_hsic(name: str, x: Float[Tensor, "text dim"]) -> Float[Tensor, ""]:
    value = self_hsic_of_centered(x)
    if without_variation(x, value):
        raise DegenerateError(
            f"{name} is constant over texts, but for one at most; features that vary are needed"
        )
    return value


def without_variation(
    x: Float[Tensor, "*batch text dim"], self_hsic: Float[Tensor, "*batch"]
) -> Bool[Tensor, "*batch"]:
    """Whether HSIC_u(x, x) of centred features is 0 up to rounding."""
    n = x.shape[-2]
    return self_hsic * n * (n - 3) <= ROUNDING * x.square().sum((-2, -1)).square()


def biased_cka(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """CKA from the plug-in HSIC: in [0, 1], and near 1 for unrelated features with more dimensions than texts.

    Features as given, float64, O(n d d2). Raises as `debiased_cka`.

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> float(biased_cka(x, y)), round(float(biased_cka(x, x + y)), 6)
    (0.0, 0.5)
    """
    x, y = as_pair(x, y)
    norms = biased_hsic(x, x), biased_hsic(y, y)
    for name, norm in zip("xy", norms, strict=True):
        if norm == 0:
            raise DegenerateError(f"{name} is constant over texts; features that vary are needed")
    return (biased_hsic(x, y) / (norms[0] * norms[1]).sqrt()).clamp(0, 1)


def cka_as_published(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """The public code's score of raw states: clip at .95, unit rows, `HSIC_u / (sqrt(HSIC_u HSIC_u) + 1e-6)`.

    All in float32 and without centring. Differs from `debiased_cka(published_steps(x), ...)` where states are
    near-identical: there HSIC_u(x, x) is no larger than 1e-6 or than the rounding of the three terms, and the
    score falls towards 0 or leaves [-1, 1], with digits that depend on the order of summation.
    O(n² (d + d2)). Raises `DegenerateError` where rounding makes
    HSIC_u(x, x) negative (NaN in the original) or a row is 0; else as `debiased_cka`.
    Source: arXiv 2605.09969, its public code.

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> round(float(cka_as_published(x, x)), 3), round(float(cka_as_published(x + 100, x)), 1)
    (1.0, 0.0)
    """
    as_pair(x, y)
    k, l = (_cosines_as_published(name, z) for name, z in (("x", x), ("y", y)))
    norms = _hsic_as_published(k, k) * _hsic_as_published(l, l)
    if norms < 0:
        raise DegenerateError(
            "x, y: rounding in float32 makes HSIC(x, x) HSIC(y, y) negative; use debiased_cka"
        )
    return _hsic_as_published(k, l) / (norms.sqrt() + 1e-6)


def _cosines_as_published(name: str, z: Float[Tensor, "text dim"]) -> Float[Tensor, "text text"]:
    z = clip_in_own_precision(z.float(), 0.95)
    norms = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    if (norms == 0).any():
        raise DegenerateError(f"{name} has a row of length 0 after clipping; every row needs a direction")
    z = z / norms
    return (z @ z.T).fill_diagonal_(0.0)


def _hsic_as_published(k: Float[Tensor, "text text"], l: Float[Tensor, "text text"]) -> Float[Tensor, ""]:
    """The three terms of Song et al. on kernels with a zero diagonal, in their own precision."""
    n = len(k)
    sums = k.sum() * l.sum() / ((n - 1) * (n - 2))
    return ((k * l).sum() + sums - 2 * (k @ l).sum() / (n - 2)) / (n * (n - 3))


class CkaTarget:
    """One target, U-centred once, for CKA with many feature sets: every layer, token and mixture.

    `HSIC_u(x, y) = sum(K * U(L)) / (n(n-3)) = sum(X * (U(L) X)) / (n(n-3))`. Memory O(n²).
    Raises as `debiased_cka`, naming the target.

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> CkaTarget(x).cka(torch.stack([x, 1 - x]))
    tensor([1., 1.], dtype=torch.float64)
    """

    def __init__(self, target: Float[Tensor, "text dim"]) -> None:
        y = as_states("target", target, ndim=2)
        check_count("target", len(y))
        y = center_fully(y)
        self.self_hsic = _self_hsic("target", y)
        self.u = u_center(y @ y.T)

    def cka(self, features: Float[Tensor, "set text dim"], first: int = 0) -> Float[Tensor, " set"]:
        """Debiased CKA of each set; `first` is the index of the first one, for the message of an error.

        Takes sets as given, all in one go: O(sets n max(n, d)) memory. Raises as `debiased_cka`.
        """
        n = len(self.u)
        if features.shape[1] != n:
            raise ParameterError(f"features has {features.shape[1]} texts and target {n}; as many are needed")
        x = center_fully(as_states("features", features, ndim=3))
        own, shared = self._hsics(x)
        if (flat := without_variation(x, own)).any():
            index = first + int(flat.nonzero()[0])
            raise DegenerateError(f"features[{index}] is constant over texts; features that vary are needed")
        return (shared / (own * self.self_hsic).sqrt()).clamp(-1, 1)

    def _hsics(self, x: Float[Tensor, "set text dim"]) -> tuple[Float[Tensor, " set"], Float[Tensor, " set"]]:
        """HSIC of each centred set with itself and with the target."""
        n, dims = x.shape[1:]
        scale = n * (n - 3)
        if n <= dims:  # one Gram matrix serves both
            gram = x @ x.mT
            return u_center(gram).square().sum((1, 2)) / scale, (gram * self.u).sum((1, 2)) / scale
        return self_hsic_of_centered(x), (x * (self.u @ x)).sum((1, 2)) / scale


def debiased_cka_many(
    features: Float[Tensor, "set text dim"],
    target: Float[Tensor, "text dim2"],
    *,
    prepare: Steps | None = None,
) -> Float[Tensor, " set"]:
    """`debiased_cka` of every set with one target: a whole curve over layers or tokens at once.

    `prepare` (such as `corrected_steps`) is applied to every set and to the target; without it features are
    taken as given. Works in chunks, so that no float64 copy of all sets is made: O(sets n d min(n, d)) time,
    O(n² + chunk) memory. Raises as `debiased_cka`, naming the set.

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> debiased_cka_many(torch.stack([x, y]), x)
    tensor([ 1.0000, -0.5000], dtype=torch.float64)
    """
    reference = CkaTarget(target if prepare is None else prepare(target))
    values = []
    for rows in chunks(len(features), *features.shape[1:]):
        chunk = features[rows]
        values.append(reference.cka(chunk if prepare is None else prepare(chunk), rows.start))
    return torch.cat(values) if values else reference.u.new_zeros(0)


def chunks(n_sets: int, n_texts: int, dim: int) -> Iterator[slice]:
    """Slices of sets whose features and Gram or covariance matrices fit the work array."""
    size = max(1, CHUNK_ENTRIES // (n_texts * max(n_texts, dim)))
    return (slice(start, min(start + size, n_sets)) for start in range(0, n_sets, size))
