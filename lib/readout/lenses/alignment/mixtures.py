"""Convex mixtures of segment means: where on the simplex is alignment best?

A text's generation is cut into k segments with means e_1 .. e_k; a mixture is `e(w) = Σ w_j e_j`, w on the simplex.
`mixture_cka` mixes raw means and then prepares the mixture like any other feature set. Without such steps the
whole simplex follows from a few HSIC values (`hsic_blocks`), which is exact and costs no more per grid point.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.alignment.cka import CkaTarget, Steps, chunks
from readout.lenses.alignment.hsic import center_fully, u_center
from readout.lenses.preprocess import as_states


def segment_bounds(n_tokens: int, n_segments: int) -> list[int]:
    """The k+1 bounds `round(T j / k)` that cut T tokens into k segments; segment j is tokens bounds[j]:bounds[j+1].

    Halves round to the even number. Positions count valid tokens, so padding is to be left out first. Raises
    `ParameterError` for fewer than one segment, `TooFewError` for fewer tokens than segments.

    >>> segment_bounds(128, 3)
    [0, 43, 85, 128]
    """
    if n_segments < 1:
        raise ParameterError(f"n_segments={n_segments} is out of range; n_segments >= 1 is needed")
    if n_tokens < n_segments:
        raise TooFewError(f"n_tokens={n_tokens}; at least one for each of {n_segments} segments is needed")
    return [round(n_tokens * j / n_segments) for j in range(n_segments + 1)]


def simplex_grid(n_segments: int, step: float) -> Float[Tensor, "mix segment"]:
    """All weights that are multiples of `step` and sum to 1, in lexicographic order, vertices included.

    C(1/step + k - 1, k - 1) rows, float64. Raises `ParameterError` if 1/step is not a whole number or k < 1.

    >>> simplex_grid(2, 0.5)
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000],
            [1.0000, 0.0000]], dtype=torch.float64)
    """
    if n_segments < 1:
        raise ParameterError(f"n_segments={n_segments} is out of range; n_segments >= 1 is needed")
    if not 0 < step <= 1 or abs(1 / step - round(1 / step)) > 1e-9:
        raise ParameterError(f"step={step} does not divide 1; such as 0.1 or 0.25 is needed")
    parts = round(1 / step)
    return torch.tensor(_compositions(parts, n_segments), dtype=torch.float64) / parts


def _compositions(total: int, parts: int) -> list[list[int]]:
    if parts == 1:
        return [[total]]
    return [[head, *rest] for head in range(total + 1) for rest in _compositions(total - head, parts - 1)]


@dataclass(frozen=True)
class HsicBlocks:
    """HSIC of every pair of segments with the target and with each other; pairs p = (i, j), i <= j."""

    with_target: Float[Tensor, " pair"]
    with_each_other: Float[Tensor, "pair pair"]
    of_target: Float[Tensor, ""]
    pairs: list[tuple[int, int]]

    def cka(self, weights: Float[Tensor, "mix segment"]) -> Float[Tensor, " mix"]:
        """`mᵀA / sqrt(mᵀB m HSIC(L, L))` with `m_p = w_i w_j (2 - δ_ij)`: CKA of each mixture, O(pairs²) each.

        Raises `DegenerateError` for a mixture without variation, `ParameterError` for weights that do not fit.
        """
        _check_weights(weights, max(j for _, j in self.pairs) + 1)
        w = weights.to(self.with_target)
        m = torch.stack([w[:, i] * w[:, j] * (2 - (i == j)) for i, j in self.pairs], dim=-1)
        own = ((m @ self.with_each_other) * m).sum(-1)
        scale = m.abs() @ self.with_each_other.diagonal().sqrt()
        if (flat := own <= 1e-13 * scale.square()).any():
            raise DegenerateError(f"weights[{int(flat.nonzero()[0])}] mixes to features without variation")
        return m @ self.with_target / (own * self.of_target).sqrt()


def hsic_blocks(
    segments: Float[Tensor, "segment text dim"], target: Float[Tensor, "text dim2"]
) -> HsicBlocks:
    """What debiased CKA of every unprepared mixture of these segments follows from, exactly.

    The kernel of a mixture is `Σ_p m_p S_p` with `S_p = (X_i X_jᵀ + X_j X_iᵀ) / 2`, and HSIC_u is bilinear:
    `A_p = HSIC_u(S_p, L)`, `B_pq = HSIC_u(S_p, S_q)`. k(k+1)/2 pairs: O(pairs n² (d + pairs)) time, O(pairs n²)
    memory, float64. Raises as `debiased_cka`.

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> blocks = hsic_blocks(torch.stack([x, y]), x)
    >>> blocks.cka(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])).round(decimals=4)
    tensor([ 1.0000, -0.5000,  0.5000], dtype=torch.float64)
    """
    reference = CkaTarget(target)
    x, n = center_fully(as_states("segments", segments, ndim=3)), len(target)
    if x.shape[1] != n:
        raise ParameterError(f"segments has {x.shape[1]} texts and target {n}; as many are needed")
    pairs = [(i, j) for i in range(len(x)) for j in range(i, len(x))]
    kernels = torch.stack([x[i] @ x[j].T for i, j in pairs])
    flat = u_center((kernels + kernels.mT) / 2).flatten(1)
    scale = n * (n - 3)
    return HsicBlocks(flat @ reference.u.flatten() / scale, flat @ flat.T / scale, reference.self_hsic, pairs)


def mixture_cka(
    segments: Float[Tensor, "segment text dim"],
    target: Float[Tensor, "text dim2"],
    weights: Float[Tensor, "mix segment"],
    prepare: Steps,
) -> Float[Tensor, " mix"]:
    """Debiased CKA of every mixture `Σ_j w_j segments[j]` with the target, `prepare` applied to both.

    `prepare` (such as `corrected_steps`) sees each mixture as it sees any feature set; it is not applied to the
    segments. Weights may be any numbers, such as `simplex_grid`'s. Cost as `debiased_cka_many` with one set per
    mixture. Raises as it does; the index in the message is that of the mixture.

    >>> x = torch.tensor([[3.0, 0.1], [2.0, 0.2], [0.1, 1.0], [0.3, 2.0]])
    >>> from readout.lenses import center
    >>> mixture_cka(torch.stack([x, x]), x, simplex_grid(2, 0.5), prepare=center).round(decimals=6)
    tensor([1., 1., 1.], dtype=torch.float64)
    """
    segments = as_states("segments", segments, ndim=3)
    _check_weights(weights, len(segments))
    reference, weights = CkaTarget(prepare(target)), weights.to(segments)
    values = [
        reference.cka(prepare(torch.einsum("ms,std->mtd", weights[rows], segments)), rows.start)
        for rows in chunks(len(weights), *segments.shape[1:])
    ]
    return torch.cat(values) if values else weights.new_zeros(0)


def _check_weights(weights: Tensor, n_segments: int) -> None:
    if weights.ndim != 2 or weights.shape[1] != n_segments:
        raise ParameterError(
            f"weights has shape {tuple(weights.shape)}; one row per mixture and {n_segments} columns are needed"
        )
    as_states("weights", weights, ndim=2)
