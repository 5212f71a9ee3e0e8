"""What the public code of the paper computes where it is not what the paper's text says."""

import torch
from jaxtyping import Float
from torch import Tensor

from readout.scorers.maxsim import maxsim, unit
from readout.scorers.tokens import Tokens


def late_interaction_as_published(query: Tokens, key: Tokens) -> Float[Tensor, "query key"]:
    """`LateInteraction` with padding kept out of the maximum by subtracting the number of query columns.

    Similarities of padding become s - m, m the padded width of the query: the same maximum while m is above 2, another
    one for a query of one or two columns whose true similarities are low. The score so depends on padding.

    >>> one = torch.tensor([[True]])
    >>> q = Tokens(torch.tensor([[[1.0, 0.0]]]), one, one)
    >>> k = Tokens(torch.tensor([[[-1.0, 0.0], [1.0, 0.0]]]), *2 * [torch.tensor([[True, False]])])
    >>> late_interaction_as_published(q, k).item()  # padding at 1 - 1 = 0 wins over -1
    0.0
    """
    similar = torch.einsum("qad,kbd->qkab", unit(query.states), unit(key.states))
    similar = similar - query.states.shape[1] * (~key.mask)[None, :, None].to(similar.dtype)
    return (similar.amax(dim=-1) * query.content[:, None].to(similar.dtype)).sum(dim=-1)


def patch_late_interaction_as_published(query: Tokens, key: Tokens, n: int) -> Float[Tensor, "query key"]:
    """`PatchLateInteraction` with patches counted from column 0, so that padding on the left moves their borders.

    On the right-padded batches of the public code it is the same.
    """
    (a, a_mask), (b, b_mask) = (_by_column(tokens, n) for tokens in (query, key))
    return maxsim(a, a_mask, b, b_mask)


def _by_column(tokens: Tokens, n: int) -> tuple[Tensor, Tensor]:
    width = tokens.states.shape[1]
    room = -width % n
    weight = torch.nn.functional.pad(tokens.mask, (0, room)).unflatten(1, (-1, n))
    states = tokens.states.masked_fill(~tokens.mask[..., None], 0.0)
    sums = torch.nn.functional.pad(states, (0, 0, 0, room)).unflatten(1, (-1, n)).sum(dim=2)
    counts = weight.sum(dim=2)
    return sums / counts.clamp(min=1)[..., None], counts > 0
