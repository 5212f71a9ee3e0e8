"""Matrix-based entropy and effective rank: how evenly the variance of a matrix spreads over directions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.preprocess import as_states


def spectrum(z: Float[Tensor, "*batch row dim"]) -> Float[Tensor, "*batch side"]:
    """How much of the squared norm of `z` lies along each principal direction: shares that sum to 1.

    Eigenvalues of `z zᵀ / tr(z zᵀ)`, ascending, taken on the smaller side `min(row, dim)` (the other
    eigenvalues are 0). float64. Time O(row dim side + side³), memory O(side²).
    Raises `DegenerateError` for a matrix of zeros, `NonFiniteError`, `TooFewError` for no row.

    >>> spectrum(torch.diag(torch.tensor([3.0, 1.0])))
    tensor([0.1000, 0.9000], dtype=torch.float64)
    """
    return gram_spectrum(small_gram(_not_empty(z)))


def gram_spectrum(gram: Float[Tensor, "*batch side side"]) -> Float[Tensor, "*batch side"]:
    """`spectrum` from a symmetric positive semi-definite Gram matrix; raises `ParameterError` for others."""
    shares = eigenvalue_shares(as_states("gram", gram, ndim=gram.ndim))
    if (shares.sum(-1) == 0).any():
        raise DegenerateError("the matrix is zero; its spectrum is undefined")
    return shares


def _not_empty(z: Tensor) -> Tensor:
    if 0 in z.shape:
        raise TooFewError(f"z has shape {tuple(z.shape)}; at least one row and one feature are needed")
    return as_states("z", z, ndim=z.ndim)


def small_gram(z: Float[Tensor, "*batch row dim"]) -> Float[Tensor, "*batch side side"]:
    """`z zᵀ` or `zᵀ z`, whichever is smaller; both have the same eigenvalues other than 0."""
    return z @ z.mT if z.shape[-2] <= z.shape[-1] else z.mT @ z


def eigenvalue_shares(gram: Float[Tensor, "*batch side side"]) -> Float[Tensor, "*batch side"]:
    """Eigenvalues over their sum; a zero matrix has zeros."""
    values = torch.linalg.eigvalsh(gram)
    largest = values[..., -1:]
    if (values[..., :1] < -1e-8 * largest.abs()).any():
        raise ParameterError(
            "the Gram matrix has negative eigenvalues; a positive semi-definite one is needed"
        )
    # Below this an eigenvalue is rounding; its square root would be far from negligible in a rank.
    floor = largest * gram.shape[-1] * torch.finfo(torch.float64).eps
    values = values.masked_fill(values <= floor, 0.0)
    total = values.sum(-1, keepdim=True)
    return values / total.masked_fill(total == 0, 1.0)


def renyi_entropy(shares: Float[Tensor, "*batch side"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order alpha of shares that sum to 1, in nats; higher means more even.

    `log(Σ pᵅ) / (1 - α)`; Shannon's (von Neumann's, of a spectrum) for α = 1, `-log max p` for α = inf.
    Falls as alpha grows: a high order listens to the large shares only. float64, O(side).
    Raises `ParameterError` for alpha <= 0 and for shares that are negative or do not sum to 1.

    >>> p = torch.tensor([0.5, 0.25, 0.25])
    >>> [round(float(renyi_entropy(p, a)) / math.log(2), 3) for a in (1.0, 2.0, math.inf)]
    [1.5, 1.415, 1.0]
    """
    check_alpha(alpha)
    p = as_states("shares", shares, ndim=shares.ndim)
    if (p < 0).any() or ((p.sum(-1) - 1).abs() > 1e-6).any():
        raise ParameterError("shares are negative or do not sum to 1")
    return entropy_of_shares(p, alpha)


def check_alpha(alpha: float) -> None:
    """Refuse an order that is not above 0, before any work is done."""
    if not alpha > 0:
        raise ParameterError(f"alpha={alpha} is not an order; alpha > 0 is needed")


def entropy_of_shares(p: Float[Tensor, "*batch side"], alpha: float) -> Float[Tensor, "*batch"]:
    """`renyi_entropy` of checked shares; all-zero shares give a number that means nothing."""
    if alpha == 1:
        entropy = torch.special.entr(p).sum(-1)
    elif alpha == math.inf:
        entropy = -p.amax(-1).log()
    else:
        # In logarithms, for a high order underflows.
        entropy = torch.logsumexp(alpha * p.log(), -1) / (1 - alpha)
    return entropy.clamp(min=0.0)


def matrix_entropy(z: Float[Tensor, "*batch row dim"], alpha: float = 1.0) -> Float[Tensor, "*batch"]:
    """How evenly the squared norm of `z`, as given, spreads over directions, in nats.

    `S_α(z) = log(Σ (λ_i / tr K)ᵅ) / (1 - α)` with λ the eigenvalues of `K = z zᵀ` ("Layer by Layer",
    arXiv 2502.02013, eq. 1); 0 for one direction, `log min(row, dim)` for all alike. For α = 2 it is
    `-log(‖K‖² / tr² K)` without an eigensolver, O(row dim side). float64. Raises as `spectrum`.

    >>> z = torch.diag(torch.tensor([3.0, 1.0]))  # shares 0.9 and 0.1
    >>> round(float(matrix_entropy(z)), 4), round(float(matrix_entropy(z, alpha=2.0)), 4)
    (0.3251, 0.1985)
    """
    if alpha == 2:
        return _order_two(_not_empty(z))
    return renyi_entropy(spectrum(z), alpha)


def _order_two(z: Float[Tensor, "*batch row dim"]) -> Float[Tensor, "*batch"]:
    gram = small_gram(z)
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    if (trace == 0).any():
        raise DegenerateError("the matrix is zero; its entropy is undefined")
    return -(gram.square().sum((-2, -1)) / trace.square()).log().clamp(max=0.0)


def max_entropy(n_rows: int, dim: int, *, centered: bool) -> float:
    """The greatest entropy that `n_rows` rows in `dim` dimensions can have, in nats.

    `log min(n, D)`, or `log min(n - 1, D)` after centring, which takes one direction away.
    Raises `TooFewError` where no direction is left.

    >>> round(max_entropy(4, 10, centered=True), 4)  # log 3
    1.0986
    """
    directions = min(n_rows - centered, dim)
    if directions < 1:
        raise TooFewError(f"n_rows={n_rows}, dim={dim} leave no direction; at least one is needed")
    return math.log(directions)


def effective_rank(z: Float[Tensor, "*batch row dim"]) -> Float[Tensor, "*batch"]:
    """How many directions `z`, as given, uses: between 1 and `min(row, dim)`.

    `exp(-Σ p log p)`, `p_i = σ_i / Σ σ` over singular values (Roy and Vetterli 2007). At least
    `exp(S_1)`, which weighs by σ² instead (so the theorem in arXiv 2502.02013 has the order reversed).
    float64; raises as `spectrum`.

    >>> z = torch.diag(torch.tensor([3.0, 1.0]))  # p = 0.75, 0.25
    >>> round(float(effective_rank(z)), 3), round(math.exp(matrix_entropy(z)), 3)
    (1.755, 1.384)
    """
    return rank_of_shares(spectrum(z))


def rank_of_shares(shares: Float[Tensor, "*batch side"]) -> Float[Tensor, "*batch"]:
    """Effective rank from a spectrum: the singular values are the square roots of the eigenvalues."""
    sigma = shares.sqrt()
    total = sigma.sum(-1, keepdim=True)
    return entropy_of_shares(sigma / total.masked_fill(total == 0, 1.0), 1.0).exp()
