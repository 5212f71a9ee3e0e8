"""Alignment of neighbourhoods: do both feature sets give a text the same nearest texts?"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError
from readout.lenses.alignment.hsic import as_pair


def mutual_knn(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"], k: int = 10) -> Float[Tensor, ""]:
    """What share of a text's k nearest texts in one set are among its k nearest in the other, on average?

    `mean_i |N_k^x(i) ∩ N_k^y(i)| / k`, N_k the k largest inner products with the text itself left out, ties to
    the earlier text. Takes features as given: `published_steps` first makes it the cosine, as in the public code
    of arXiv 2605.09969; centring would change the neighbours. In [0, 1]; k/(n-1) for unrelated features. float64,
    O(n² (d + d2 + log n)). Raises `ParameterError` for k outside 1 .. n-1, `TooFewError` for n < 4,
    `NonFiniteError`. Source: Huh et al. 2024 (arXiv 2405.07987).

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> float(mutual_knn(x, x, k=1)), float(mutual_knn(x, x[[0, 2, 1, 3]], k=1))
    (1.0, 0.0)
    """
    x, y = as_pair(x, y)
    return (_neighbours(x @ x.T, k) & _neighbours(y @ y.T, k)).double().sum() / (k * len(x))


def _neighbours(gram: Float[Tensor, "text text"], k: int) -> Bool[Tensor, "text text"]:
    """Row i marks the k texts with the largest similarity to text i."""
    if not 1 <= k < len(gram):
        raise ParameterError(
            f"k={k} is out of range; 1 <= k <= {len(gram) - 1} is needed for {len(gram)} texts"
        )
    order = gram.clone().fill_diagonal_(-torch.inf).argsort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(gram, dtype=torch.bool).scatter_(1, order[:, :k], True)


def cknna(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"], k: int = 10) -> Float[Tensor, ""]:
    """CKA that counts only pairs which both sets hold near each other: centred kernel nearest-neighbour alignment.

    `A(x, y) / sqrt(A(x, x) A(y, y))` with `A(x, y) = Σ_ij α_ij (K_ij - K_i) (L_ij - L_i)`, `α_ij` = 1 if j is
    one of i's k nearest texts in x and in y, else 0; K_i the mean similarity of text i to the others. Neighbours
    and features as given, as in `mutual_knn`; k = n-1 counts every pair. In [-1, 1], higher for the same local
    arrangement. float64, O(n² (d + d2 + log n)). Raises `DegenerateError` for features without variation; else as
    `mutual_knn`. Source: Huh et al. 2024 (arXiv 2405.07987), appendix; the public code's form, which applies
    HSIC_u to kernels with zeros in place of other pairs, is another number.

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> round(float(cknna(x, 2 * x, k=1)), 6)
    1.0
    >>> float(cknna(x, x[[0, 2, 1, 3]], k=1))  # no common neighbour
    0.0
    """
    x, y = as_pair(x, y)
    (near_x, k_x), (near_y, k_y) = (_near_and_row_centered(z @ z.T, k) for z in (x, y))
    norms = [(c.square() * near).sum() for c, near in ((k_x, near_x), (k_y, near_y))]
    for name, norm, z in zip("xy", norms, (x, y), strict=True):
        if norm.sqrt() <= 1e-12 * z.square().sum():
            raise DegenerateError(
                f"{name} has the same similarity between all texts; features that vary are needed"
            )
    return (k_x * k_y * (near_x & near_y)).sum() / (norms[0] * norms[1]).sqrt()


def _near_and_row_centered(
    gram: Float[Tensor, "text text"], k: int
) -> tuple[Bool[Tensor, "text text"], Float[Tensor, "text text"]]:
    others = (gram.sum(-1) - gram.diagonal()) / (len(gram) - 1)
    return _neighbours(gram, k), gram - others[:, None]
