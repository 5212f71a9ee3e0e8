"""What is put into a corrupted text's states at one site: the whole of a clean text's, a random share, or its mean."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from readout.errors import ParameterError, TextError
from readout.states.pooling import masked_mean

Intervention = Callable[[int, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(layer, clean states, corrupted states, clean mask, corrupted mask) to patched states, shaped as the corrupted."""


def all_positions(
    layer: int,
    clean: Float[Tensor, "text clean_token dim"],
    corrupt: Float[Tensor, "text token dim"],
    clean_mask: Bool[Tensor, "text clean_token"],
    corrupt_mask: Bool[Tensor, "text token"],
) -> Float[Tensor, "text token dim"]:
    """As published: every position t < min(S_p, S_n) takes the clean text's whole state at t.

    Positions are aligned by number alone, special tokens too; the rest of a longer corrupted text keeps its own.
    For S_p = S_n the outcome is the clean run at every layer. Source: the public code of arXiv 2605.19908.

    >>> p, n = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[7.0], [8.0], [9.0]]])
    >>> all_positions(0, p, n, torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)).flatten()
    tensor([1., 2., 9.])
    """
    return overwrite(clean, corrupt, overlap(clean_mask, corrupt_mask))


def random_positions(fraction: float, seed: int, rows: Sequence[int] | None = None) -> Intervention:
    """Overwrites a random share of the overlapping positions, the same ones at every layer.

    fraction: rho in [0, 1]; round(rho min(S_p, S_n)) positions, those of a smaller rho among those of a larger.
    rows: the number of each text of the batch among all texts, 0, 1, ... by default; the draw hangs on `seed`
    and this number, so that batching does not change it.

    Raises ParameterError for a fraction outside [0, 1]. Source: our own, to escape the identity of `all_positions`.

    >>> p, n, real = torch.zeros(1, 4, 1), torch.ones(1, 4, 1), torch.ones(1, 4, dtype=torch.bool)
    >>> [int(random_positions(rho, seed=0)(0, p, n, real, real).sum()) for rho in (0.0, 0.5, 1.0)]
    [4, 2, 0]
    """
    if not 0 <= fraction <= 1:
        raise ParameterError(f"fraction={fraction}: a share of the positions lies between 0 and 1")

    def patch(layer: int, clean: Tensor, corrupt: Tensor, clean_mask: Tensor, corrupt_mask: Tensor) -> Tensor:
        chosen = overlap(clean_mask, corrupt_mask)
        for i, row in enumerate(range(len(chosen)) if rows is None else rows):
            n_positions = int(chosen[i].sum())
            order = np.random.default_rng([seed, row]).permutation(n_positions)
            chosen[i, order[round(fraction * n_positions) :]] = False
        return overwrite(clean, corrupt, chosen)

    return patch


def mean_shift(
    layer: int,
    clean: Float[Tensor, "text clean_token dim"],
    corrupt: Float[Tensor, "text token dim"],
    clean_mask: Bool[Tensor, "text clean_token"],
    corrupt_mask: Bool[Tensor, "text token"],
) -> Float[Tensor, "text token dim"]:
    """Moves every state of the corrupted text by the difference of the two means: h^n_t + mu(p) - mu(n).

    Means are over real tokens, special ones too, in float64. Source: our own, to escape the identity of
    `all_positions`: each token keeps its place relative to its text.

    >>> p, n = torch.tensor([[[5.0], [7.0]]]), torch.tensor([[[1.0], [3.0]]])
    >>> mean_shift(0, p, n, *2 * [torch.ones(1, 2, dtype=torch.bool)]).flatten()  # means 6 and 2
    tensor([5., 7.])
    """
    shift = masked_mean(clean, clean_mask) - masked_mean(corrupt, corrupt_mask)
    return corrupt + shift[:, None].to(corrupt.dtype)


def equal_length(
    clean_ids: Sequence[int], corrupt_ids: Sequence[int], end_id: int | None
) -> tuple[list[int], list[int]]:
    """Both texts cut to the length of the shorter, with the end token put back as the last.

    end_id: [SEP] or the like; None for models without one (decoders).

    Raises TextError where a text is empty.

    >>> equal_length([1, 5, 6, 7, 2], [1, 8, 2], end_id=2)
    ([1, 5, 2], [1, 8, 2])
    """
    n_tokens = min(len(clean_ids), len(corrupt_ids))
    if n_tokens == 0:
        raise TextError("clean_ids, corrupt_ids: a text is empty; leave the pair out")
    end = [] if end_id is None else [end_id]
    first, second = (list(ids[: n_tokens - len(end)]) + end for ids in (clean_ids, corrupt_ids))
    return first, second


def overlap(
    clean_mask: Bool[Tensor, "text clean_token"], corrupt_mask: Bool[Tensor, "text token"]
) -> Bool[Tensor, "text token"]:
    """The positions t < min(S_p, S_n) of each pair, in the width of the corrupted texts.

    >>> overlap(torch.tensor([[True, True]]), torch.tensor([[True, True, True]]))
    tensor([[ True,  True, False]])
    """
    return corrupt_mask & _fitted(clean_mask[..., None], corrupt_mask.shape[1])[..., 0]


def overwrite(
    clean: Float[Tensor, "text clean_token dim"],
    corrupt: Float[Tensor, "text token dim"],
    positions: Bool[Tensor, "text token"],
) -> Float[Tensor, "text token dim"]:
    """The corrupted states, with the clean ones at `positions`.

    >>> p, n = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[7.0], [8.0], [9.0]]])
    >>> overwrite(p, n, torch.tensor([[False, True, False]])).flatten()
    tensor([7., 2., 9.])
    """
    return torch.where(positions[..., None], _fitted(clean, corrupt.shape[1]), corrupt)


def _fitted(values: Tensor, n_tokens: int) -> Tensor:
    """Cut, or filled up with zeros, to `n_tokens` along the second of three axes."""
    return pad(values, (0, 0, 0, n_tokens - values.shape[1]))
