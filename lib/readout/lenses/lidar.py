"""LiDAR: how many directions separate texts from one another, once the spread of their views is divided out."""

import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.entropy import renyi_entropy, spectrum
from readout.lenses.preprocess import ROUNDING, as_states


def lidar(views: Float[Tensor, "text view dim"], delta: float = 1e-4) -> Float[Tensor, ""]:
    """How evenly the separation between texts spreads over directions, in nats: 0 to `log min(n - 1, D)`.

    `S_1(Σ_w^{-1/2} Σ_b Σ_w^{-1/2})` with the between-text scatter `Σ_b = Σ_i (μ_i - μ)(μ_i - μ)ᵀ / n` and
    the within-text scatter `Σ_w = Σ_ij (x_ij - μ_i)(x_ij - μ_i)ᵀ / nq + δI` (Thilak et al. 2024, eqs. 1-3,
    without their ε; δ as in arXiv 2502.02013's code). Unchanged by an invertible linear map of the features
    as δ goes to 0; with δ > 0 their scale matters. float64. Time O(n q D² + D³), memory O(n q D + D²).
    Raises `TooFewError` for fewer than two texts or views (or, with δ = 0, than D + n vectors),
    `DegenerateError` if all texts have one mean, `ParameterError` for δ < 0, `NonFiniteError`.

    >>> between = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    >>> within = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(float(lidar(between[:, None] + within[None])), 4)  # two directions alike: log 2
    0.6931
    """
    views = as_states("views", views, ndim=3)
    check_views(views, delta)
    n, q, dim = views.shape
    views = in_their_span(views)
    dim = views.shape[-1]
    means = views.mean(1)
    between = means - means.mean(0)
    if between.norm() <= ROUNDING * means.norm():
        raise DegenerateError("views: the texts have one and the same mean, so nothing separates them")
    within = (views - means[:, None]).reshape(n * q, dim)
    scatter = within.T @ within / (n * q) + delta * torch.eye(dim, dtype=views.dtype, device=views.device)
    return renyi_entropy(spectrum(whitened(between, scatter)), 1.0)


def in_their_span(views: Float[Tensor, "text view dim"]) -> Float[Tensor, "text view span"]:
    """The same views in coordinates of the space they span, where they are few against the dimensions.

    Nothing lies outside it and the scatter is δI there, so LiDAR is the same and its matrices are smaller.
    """
    rows = views.flatten(0, 1)
    if 2 * len(rows) >= rows.shape[1]:
        return views
    _, upper = torch.linalg.qr(rows.T, mode="r")
    return upper.T.reshape(*views.shape[:2], -1)


def whitened(rows: Float[Tensor, "row dim"], scatter: Float[Tensor, "dim dim"]) -> Float[Tensor, "row dim"]:
    """Rows in coordinates where `scatter` is the identity, from its Cholesky factor."""
    factor, failed = torch.linalg.cholesky_ex(scatter)
    if failed:
        raise DegenerateError("the within-text scatter is singular; delta > 0 is needed")
    return torch.linalg.solve_triangular(factor, rows.T, upper=False).T


def lidar_effective_rank(views: Float[Tensor, "text view dim"], delta: float = 1e-4) -> Float[Tensor, ""]:
    """`exp(lidar)`: the number of directions, 1 to `min(n - 1, D)`, as Thilak et al. (2024) report it.

    >>> between = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    >>> within = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(float(lidar_effective_rank(between[:, None] + within[None])), 4)
    2.0
    """
    return lidar(views, delta).exp()


def check_views(views: Tensor, delta: float) -> None:
    """Refuse too few texts or views and a delta that cannot make the within-text scatter invertible."""
    n, q, dim = views.shape
    if not delta >= 0:
        raise ParameterError(f"delta={delta} is out of range; delta >= 0 is needed")
    if n < 2 or q < 2:
        raise TooFewError(f"views holds {n} texts with {q} views; at least 2 texts with 2 views are needed")
    if delta == 0 and n * (q - 1) < dim:
        raise TooFewError(f"views holds {n * q} vectors; delta=0 needs {dim + n} in {dim} dimensions")
