"""The best match of every query token in every key, exactly, in a bounded piece of memory.

All late scorers rest on it. The similarities of one tile are a matrix product over flattened tokens; only the best
and its place are kept, so memory is queries x keys x query tokens and not that times key tokens. The backward pass
rebuilds each tile from the places.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TILE_BYTES = 64 * 2**20
"""The similarities that are in memory at a time."""


def unit(vectors: Float[Tensor, "*any dim"]) -> Float[Tensor, "*any dim"]:
    """Vectors of length 1; a zero vector stays zero, is like nothing, and gets no gradient.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).round(decimals=2)
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    some = length > 0
    return torch.where(some, vectors / length.where(some, torch.ones_like(length)), torch.zeros_like(vectors))


def maxsim(
    query: Float[Tensor, "query a dim"],
    query_mask: Bool[Tensor, "query a"],
    key: Float[Tensor, "key b dim"],
    key_mask: Bool[Tensor, "key b"],
) -> Float[Tensor, "query key a"]:
    """The largest cosine of each query vector with the masked vectors of each key; 0 for vectors out of `query_mask`.

    What stands outside the masks is never read, and a similarity below 0 is never replaced by that of padding.
    Every key has a vector in its mask. Time: one product of all with all; of equal matches the first gets the gradient.

    >>> q, k = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[-1.0, 0.0], [-3.0, 4.0]]])
    >>> every = torch.tensor([[True, True]])
    >>> maxsim(q, every, k, every)
    tensor([[[-0.6000,  0.8000]]])
    """
    query = unit(query.masked_fill(~query_mask[..., None], 0.0))
    key = unit(key.masked_fill(~key_mask[..., None], 0.0))
    best = _Best.apply(query, key, key_mask)
    return best.masked_fill(~query_mask[:, None], 0.0)


class _Best(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, key_mask: Tensor) -> Tensor:
        flat = query.flatten(0, 1)
        best = query.new_empty(len(flat), len(key))
        place = torch.empty(len(flat), len(key), dtype=torch.int32, device=query.device)
        for rows, keys in _tiles(len(flat), key):
            similar = flat[rows] @ key[keys].flatten(0, 1).T
            similar = similar.unflatten(1, (-1, key.shape[1]))
            similar = similar.masked_fill(~key_mask[keys], float("-inf"))
            best[rows, keys], where = similar.max(dim=-1)
            place[rows, keys] = where.int()
        ctx.save_for_backward(query, key, place)
        return best.view(*query.shape[:2], len(key)).transpose(1, 2)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key, place = ctx.saved_tensors
        flat, gradient = query.flatten(0, 1), gradient.transpose(1, 2).flatten(0, 1)
        of_query, of_key = torch.zeros_like(flat), torch.zeros_like(key)
        for rows, keys in _tiles(len(flat), key):
            chosen = flat.new_zeros(*gradient[rows, keys].shape, key.shape[1])
            chosen.scatter_(2, place[rows, keys].long()[..., None], gradient[rows, keys][..., None])
            chosen = chosen.flatten(1)
            of_query[rows] += chosen @ key[keys].flatten(0, 1)
            of_key[keys] += (chosen.T @ flat[rows]).view_as(key[keys])
        return of_query.view_as(query), of_key, None


def _tiles(n_rows: int, key: Tensor):
    """Slices of query vectors and of keys whose similarities fit the budget; one key at least."""
    room = max(1, TILE_BYTES // (key.element_size() * key.shape[1]))
    rows = min(n_rows, room)
    keys = max(1, room // rows)
    for start in range(0, n_rows, rows):
        for first in range(0, len(key), keys):
            yield slice(start, start + rows), slice(first, first + keys)
