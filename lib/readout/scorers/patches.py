"""Patch-level late interaction: late interaction between means of n consecutive tokens."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import ParameterError
from readout.scorers.late import n_terms
from readout.scorers.maxsim import Reduction, check_reduction, maxsim
from readout.scorers.tokens import Tokens


@dataclass(frozen=True)
class PatchLateInteraction:
    """s(q, k) = sum (or mean) over the query's patches a of max over the key's patches b of cos(mean of a, mean of b).

    A patch is n consecutive tokens, counted from the first real one; the last may be shorter and is the mean of what
    it has. There is no skip list, as in the public code. n = 1 is late interaction over all tokens, n at least the
    length of both texts is mean pooling.

    Raises ParameterError for n below 1.
    """

    n: int
    reduction: Reduction = "sum"

    def __post_init__(self):
        if self.n < 1:
            raise ParameterError(f"n: patches of {self.n} tokens; expected at least 1")
        check_reduction(self.reduction)

    def score(self, query: Tokens, key: Tokens) -> Float[Tensor, "query key"]:
        """Every query against every key."""
        a, a_mask = patch_means(query.states, query.mask, self.n)
        b, b_mask = patch_means(key.states, key.mask, self.n)
        return maxsim(a, a_mask, b, b_mask, self.reduction)

    def terms(self, query: Tokens) -> Float[Tensor, " query"]:
        """How many cosines a score sums: the query's patches, or one for a mean."""
        kept = patch_means(query.states[..., :1], query.mask, self.n)[1]
        return n_terms(kept, self.reduction, query.states.dtype)


def patch_means(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"], n: int
) -> tuple[Float[Tensor, "text patch dim"], Bool[Tensor, "text patch"]]:
    """The mean vector of each patch of n tokens, and which patches each text has.

    >>> states = torch.tensor([[[9.0], [1.0], [3.0], [5.0]]])
    >>> means, real = patch_means(states, torch.tensor([[False, True, True, True]]), 2)
    >>> means.flatten().tolist(), real.tolist()
    ([2.0, 5.0], [[True, True]])
    """
    n_patches = -(-int(mask.sum(dim=1).max()) // n)
    # Padding goes into one more patch, which is cut off.
    patch = ((mask.cumsum(dim=1) - 1) // n).masked_fill(~mask, n_patches)
    counts = torch.zeros(len(mask), n_patches + 1, dtype=states.dtype, device=states.device)
    counts = counts.scatter_add(1, patch, mask.to(states.dtype))[:, :n_patches]
    real = states.masked_fill(~mask[..., None], 0.0)
    sums = states.new_zeros(len(mask), n_patches + 1, states.shape[-1])
    sums = sums.scatter_add(1, patch[..., None].expand_as(states), real)[:, :n_patches]
    return sums / counts.clamp(min=1)[..., None], counts > 0
