"""DiME: do two views of the same texts share structure, against views whose texts are shuffled?"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.entropy import check_alpha, gram_spectrum, renyi_entropy
from readout.lenses.preprocess import unit_rows


def dime(
    a: Float[Tensor, "text dim"],
    b: Float[Tensor, "text width"],
    *,
    generator: torch.Generator,
    n_permutations: int = 10,
    alpha: float = 1.0,
) -> Float[Tensor, ""]:
    """How much more the matched views agree than shuffled ones, in nats; higher is better aligned.

    `E_Π[S_α(K_A ∘ Π K_B Πᵀ)] - S_α(K_A ∘ K_B)` over random permutations Π (arXiv 2301.08164; 10 of them and
    α = 1 in arXiv 2502.02013's code). K are the n x n Gram matrices of rows scaled to length 1. About 0 for
    independent views. float64. Time O(n³) for each of `n_permutations + 1` eigensolves, memory O(n²).
    Raises `TooFewError` for fewer than two texts, `DegenerateError` for a row of length 0, `ParameterError`.

    >>> a = torch.eye(3)
    >>> b = torch.ones(3, 1)  # says nothing about the texts
    >>> round(float(dime(a, b, generator=torch.Generator().manual_seed(0))), 6)
    0.0
    """
    check_alpha(alpha)
    check_pair(a, b, n_permutations)
    gram_a, gram_b = _grams(a, b)
    shuffled = [gram_b[order][:, order] for order in random_orders(len(a), n_permutations, generator)]
    return difference_of_entropies(gram_a, gram_b, shuffled, alpha)


def difference_of_entropies(
    gram_a: Float[Tensor, "side side"],
    gram_b: Float[Tensor, "side side"],
    shuffled: list[Float[Tensor, "side side"]],
    alpha: float,
) -> Float[Tensor, ""]:
    """Mean joint entropy with the shuffled matrices, less that with the matched one."""
    entropies = joint_entropy(gram_a, torch.stack([*shuffled, gram_b]), alpha)
    return entropies[:-1].mean() - entropies[-1]


def joint_entropy(
    gram_a: Float[Tensor, "side side"], gram_b: Float[Tensor, "*batch side side"], alpha: float
) -> Float[Tensor, "*batch"]:
    """Entropy of the elementwise product of two Gram matrices, which is again one (Schur)."""
    return renyi_entropy(gram_spectrum(gram_a * gram_b), alpha)


def dime_order_two(a: Float[Tensor, "text dim"], b: Float[Tensor, "text width"]) -> Float[Tensor, ""]:
    """The α = 2 relative of `dime`, exact over all permutations and without an eigensolver, in nats.

    `log V(K_A ∘ K_B) - log E_Π[V(K_A ∘ Π K_B Πᵀ)]`, `V(K) = ‖K‖² / n²`: the expectation is inside the
    logarithm, where it has the closed form `(Σ_{i≠j} A²_ij · mean_{i≠j} B²_ij + n) / n²` for unit diagonals.
    By Jensen's inequality at most `dime(alpha=2)` over all permutations. float64, O(n² D).
    Raises as `dime`.

    >>> a = torch.eye(2)  # K_A ∘ K_B = I matched; so it is in the other order
    >>> float(dime_order_two(a, a))
    0.0
    """
    check_pair(a, b)
    gram_a, gram_b = _grams(a, b)
    n = len(a)
    square_a, square_b = gram_a.square(), gram_b.square()
    matched = (square_a * square_b).sum()
    off_diagonal_a, off_diagonal_b = square_a.sum() - n, square_b.sum() - n
    expected = off_diagonal_a * off_diagonal_b / (n * (n - 1)) + n
    return matched.log() - expected.log()


def check_pair(a: Tensor, b: Tensor, n_permutations: int = 1) -> None:
    """Refuse views of different texts, too few texts, and no permutation."""
    if n_permutations < 1:
        raise ParameterError(f"n_permutations={n_permutations} is out of range; at least 1 is needed")
    if len(a) != len(b):
        raise ParameterError(f"a has {len(a)} texts and b {len(b)}; two views of the same texts are needed")
    if len(a) < 2:
        raise TooFewError(f"a has {len(a)} text; at least 2 are needed")


def random_orders(n: int, count: int, generator: torch.Generator) -> list[Int[Tensor, "text"]]:
    """`count` random orders of `n` things."""
    return [torch.randperm(n, generator=generator) for _ in range(count)]


def _grams(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = unit_rows(a), unit_rows(b)
    return a @ a.T, b @ b.T
