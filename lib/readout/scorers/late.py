"""Late interaction: every query token looks for its best match in the key (ColBERT, Khattab and Zaharia 2020)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import TextError
from readout.scorers.maxsim import Reduction, check_reduction, maxsim
from readout.scorers.tokens import Tokens


@dataclass(frozen=True)
class LateInteraction:
    """s(q, k) = sum (or mean) over the query's tokens i of max over the key's tokens j of cos(q_i, k_j).

    skip_punctuation: query tokens of punctuation alone do not take part, as in the paper; key tokens all do. The mean
    is over the query tokens that take part.

    >>> mask = torch.tensor([[True, True]])
    >>> q = Tokens(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), mask, torch.tensor([[True, False]]))
    >>> k = Tokens(torch.tensor([[[3.0, 4.0], [0.0, 1.0]]]), mask, mask)
    >>> LateInteraction().score(q, k).item(), LateInteraction(skip_punctuation=False).score(q, k).item()
    (0.6000000238418579, 1.600000023841858)
    """

    reduction: Reduction = "sum"
    skip_punctuation: bool = True

    def __post_init__(self):
        check_reduction(self.reduction)

    def score(self, query: Tokens, key: Tokens) -> Float[Tensor, "query key"]:
        """Every query against every key. Raises TextError for a query of which no token takes part."""
        return maxsim(query.states, self._kept(query), key.states, key.mask, self.reduction)

    def terms(self, query: Tokens) -> Float[Tensor, " query"]:
        """How many cosines a score sums: the query's tokens that take part, or one for a mean."""
        return n_terms(self._kept(query), self.reduction, query.states.dtype)

    def _kept(self, query: Tokens) -> Bool[Tensor, "query token"]:
        kept = query.content & query.mask if self.skip_punctuation else query.mask
        empty = (~kept.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise TextError(f"query: row {empty[0]} is punctuation alone; leave it out or use 'li-all'")
        return kept


def n_terms(
    kept: Bool[Tensor, "query a"], reduction: Reduction, dtype: torch.dtype
) -> Float[Tensor, " query"]:
    """The cosines behind each score.

    >>> n_terms(torch.tensor([[True, True, False]]), "sum", torch.float32)
    tensor([2.])
    """
    count = kept.sum(dim=1).to(dtype)
    return torch.ones_like(count) if reduction == "mean" else count
