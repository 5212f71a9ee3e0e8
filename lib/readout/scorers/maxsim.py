"""MaxSim: how well every query token is matched by its best key token, for all pairs of texts at once.

The similarities of all pairs of tokens are never held together: they are made tile by tile, one matrix product a
tile, and only their maxima kept. For the gradient it is enough to know *which* key token was best: the score is
linear in the vectors of the pairs that were chosen, so backward is a weighted sum of looked-up rows.
"""

from collections.abc import Iterator
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from readout.errors import NonFiniteError, ParameterError

Reduction = Literal["sum", "mean"]

TILE_BYTES = 2**26
"""Memory for the similarities of one tile."""
_TILE_ROWS = 1024


def unit(vectors: Float[Tensor, "*any dim"]) -> Float[Tensor, "*any dim"]:
    """Vectors of length 1; a zero vector stays zero, is like nothing, and gets no gradient.

    Raises NonFiniteError for NaN or infinity.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).round(decimals=2)
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    if not length.isfinite().all():
        raise NonFiniteError("states: a real token holds NaN or infinite values")
    # A zero vector is divided by infinity, so that its gradient is zero too.
    return vectors / length.masked_fill(length == 0, torch.inf)


def check_reduction(reduction: str) -> None:
    """Raises ParameterError for anything but "sum" and "mean".

    >>> check_reduction("max")
    Traceback (most recent call last):
    readout.errors.ParameterError: reduction: 'max' should be one of sum, mean
    """
    if reduction not in get_args(Reduction):
        raise ParameterError(f"reduction: {reduction!r} should be one of {', '.join(get_args(Reduction))}")


def maxsim(
    query: Float[Tensor, "query query_token dim"],
    kept: Bool[Tensor, "query query_token"],
    key: Float[Tensor, "key key_token dim"],
    mask: Bool[Tensor, "key key_token"],
    reduction: Reduction = "sum",
) -> Float[Tensor, "query key"]:
    """`s(q, k) = sum_i max_j cos(q_i, k_j)` over kept query tokens i and real key tokens j.

    "mean" divides by the number of kept query tokens. Dtype of the states; differentiable once. Padding is never
    read; every row needs a kept, or real, token. Time 2 dim flop for each pair of tokens; memory `TILE_BYTES` for
    similarities and, under autograd, 4 bytes for each (query token, key). Late interaction: Khattab and Zaharia
    (2020, arXiv 2004.12832). Raises NonFiniteError for NaN in a real token.

    >>> query, key = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[3.0, 4.0], [0.0, -1.0]]])
    >>> real = torch.tensor([[True, True]])
    >>> maxsim(query, real, key, real)  # 0.6 + 0.8
    tensor([[1.4000]])
    """
    # Only kept query tokens are multiplied; keys stay padded, so that a text is a block of equal width.
    owner = kept.nonzero()[:, 0]
    # A cosine in bfloat16 has three digits, too few to tell the best match from the next.
    with torch.autocast(key.device.type, enabled=False):
        scores = _MaxSim.apply(
            unit(query[kept]), owner, len(query), unit(key.masked_fill(~mask[..., None], 0)), mask
        )
    return scores / kept.sum(dim=1, keepdim=True) if reduction == "mean" else scores


class _MaxSim(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tokens, owner, n_queries, key, mask):
        scores = tokens.new_zeros(n_queries, len(key))
        best = None
        if any(ctx.needs_input_grad):
            best = torch.empty(len(tokens), len(key), dtype=torch.int32, device=key.device)
        padding = None if mask.all() else ~mask
        for rows, keys in _tiles(len(tokens), *key.shape[:2], key.element_size()):
            cosines = (tokens[rows] @ key[keys].flatten(0, 1).T).unflatten(1, (-1, key.shape[1]))
            if padding is not None:
                cosines.masked_fill_(padding[keys], -torch.inf)
            if best is None:
                top = cosines.amax(dim=2)
            else:
                top, best[rows, keys] = cosines.max(dim=2)
            scores[:, keys].index_add_(0, owner[rows], top)
        ctx.save_for_backward(tokens, owner, key, best)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        tokens, owner, key, best = ctx.saved_tensors
        for_tokens, for_key = torch.zeros_like(tokens), torch.empty_like(key)
        n_keys = max(1, TILE_BYTES // (64 * max(1, len(tokens))))
        for keys in _slices(len(key), n_keys):
            weight = grad[owner, keys]
            block = key[keys].flatten(0, 1)
            first = torch.arange(0, len(block), key.shape[1], device=key.device)
            chosen = best[:, keys] + first
            for_tokens += F.embedding_bag(chosen, block, per_sample_weights=weight, mode="sum")
            for_key[keys] = _scattered(tokens, chosen, weight, len(block)).view_as(key[keys])
        return for_tokens, None, None, for_key, None


def _scattered(tokens: Tensor, chosen: Tensor, weight: Tensor, n: int) -> Tensor:
    """Row j: the weighted sum of the tokens that chose j. By sorting, which is deterministic on every device."""
    chosen, order = chosen.flatten().sort(stable=True)
    starts = torch.searchsorted(chosen, torch.arange(n, device=chosen.device))
    by_token = order // weight.shape[1]
    return F.embedding_bag(by_token, tokens, starts, per_sample_weights=weight.flatten()[order], mode="sum")


def _slices(n: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n, size))


def _tiles(n_rows: int, n_keys: int, width: int, item: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of query tokens x key texts whose similarities fit into `TILE_BYTES`."""
    room = TILE_BYTES // item
    rows = min(_TILE_ROWS, max(1, n_rows), max(1, room // width))
    for keys in _slices(n_keys, max(1, room // (rows * width))):
        for block in _slices(n_rows, rows):
            yield block, keys
