"""Mean pooling: one vector a text, and the cosine of two."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from readout.scorers.maxsim import unit
from readout.scorers.tokens import Tokens


@dataclass(frozen=True)
class MeanPooling:
    """s(q, k) = cos(mean of the query's token vectors, mean of the key's); special tokens and punctuation count.

    >>> mask = torch.tensor([[True, True, False]])
    >>> text = Tokens(torch.tensor([[[1.0, 0.0], [1.0, 2.0], [9.0, 9.0]]]), mask, mask)
    >>> MeanPooling().score(text, text).round(decimals=3)
    tensor([[1.]])
    """

    def score(self, query: Tokens, key: Tokens) -> Float[Tensor, "query key"]:
        """Every query against every key, in the dtype of the vectors. Memory: queries x keys."""
        with torch.autocast(key.states.device.type, enabled=False):
            return unit(_sum(query)) @ unit(_sum(key)).T

    def terms(self, query: Tokens) -> Float[Tensor, " query"]:
        """How many cosines a score sums: one."""
        return query.mask.new_ones(len(query), dtype=query.states.dtype)


def _sum(tokens: Tokens) -> Float[Tensor, "text dim"]:
    return tokens.states.masked_fill(~tokens.mask[..., None], 0.0).sum(dim=1)
