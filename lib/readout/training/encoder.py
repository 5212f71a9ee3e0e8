"""What is trained: a backbone and, where asked for, a mix of its layers and a head on every token."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from readout.scorers import Head, ScalarMix
from readout.states import ResidualStream, forward
from readout.states.sites import Norm


class Encoder(nn.Module):
    """Token vectors for a scorer: the backbone's last state, or a learned mix of all sites, then a head or none.

    mixed: weigh the raw states of the L + 1 sites (`ScalarMix`) instead of taking the last state after the final
    norm. head: two linear layers on each token, as in the paper (`Head`).

    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> encoder = Encoder(BertModel(BertConfig(vocab_size=9, **sizes)), mixed=True)
    >>> encoder.layers, [round(share, 3) for share in encoder.mix.weights.tolist()]
    ([0, 1, 2], [0.333, 0.333, 0.333])
    """

    def __init__(self, backbone: PreTrainedModel, *, mixed: bool = False, head: bool = False):
        super().__init__()
        self.backbone = backbone
        self.n_layers = ResidualStream(backbone).n_layers
        self.mix = ScalarMix(self.n_layers + 1) if mixed else None
        self.head = Head(backbone.config.hidden_size) if head else nn.Identity()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def norm(self) -> Norm:
        """The norm of the sites that `from_sites` needs."""
        return "final" if self.mix is None else "raw"

    @property
    def layers(self) -> list[int]:
        """The layers whose sites `from_sites` needs."""
        return [self.n_layers] if self.mix is None else list(range(self.n_layers + 1))

    def forward(
        self, input_ids: Int[Tensor, "text token"], mask: Bool[Tensor, "text token"]
    ) -> Float[Tensor, "text token dim"]:
        """Token vectors of padded texts, in float32; what stands in the padding means nothing."""
        if self.mix is None:
            return self.head(forward(self.backbone, input_ids, mask)).float()
        states: list[Tensor] = []
        with ResidualStream(self.backbone).watch(lambda site, at_site: states.append(at_site)):
            forward(self.backbone, input_ids, mask)
        return self.head(self.mix(states)).float()

    def from_sites(self, states: list[Float[Tensor, "text token dim"]]) -> Float[Tensor, "text token dim"]:
        """Token vectors from the states of the sites it needs, in order of depth: what `forward` would give."""
        return self.head(states[-1] if self.mix is None else self.mix(states)).float()
