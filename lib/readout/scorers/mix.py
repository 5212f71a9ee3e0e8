"""A learned mix of all layers (Peters et al. 2018), the paper's *layerwise* read-out."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from readout.errors import ParameterError


class ScalarMix(nn.Module):
    """gamma * sum over sites l of softmax(w)_l h_l, with w = 0 and gamma = 1 at the start: the mean of all sites.

    >>> mix = ScalarMix(2)
    >>> mix([torch.zeros(1, 1, 3), torch.ones(1, 1, 3)]).flatten().tolist(), mix.weights.tolist()
    ([0.5, 0.5, 0.5], [0.5, 0.5])
    """

    def __init__(self, n_sites: int):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_sites))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Float[Tensor, " site"]:
        """The share of each site, which sum to 1."""
        return self.logits.detach().softmax(dim=0)

    def forward(self, states: Sequence[Float[Tensor, "text token dim"]]) -> Float[Tensor, "text token dim"]:
        """The mixed states. Raises ParameterError for another number of sites."""
        if len(states) != len(self.logits):
            raise ParameterError(f"states: of {len(states)} sites; this mix has {len(self.logits)}")
        shares = self.logits.softmax(dim=0)
        return self.scale * sum(share * at_site for share, at_site in zip(shares, states, strict=True))
