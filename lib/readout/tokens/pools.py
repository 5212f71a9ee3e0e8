"""From the states of generated tokens to one vector a text: every pooling that alignment compares.

All take states [text token dim] with the mask of real tokens, which come first, and count positions over those.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.states import last_token, masked_mean

States = Float[Tensor, "text token dim"]
Mask = Bool[Tensor, "text token"]


def running_mean(states: States, mask: Mask) -> Float[Tensor, "token text dim"]:
    """For each t, the mean of a text's first t states, or of all it has where it is shorter; float64.

    >>> states, mask = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> running_mean(states, mask)[:, 0, 0].tolist()
    [1.0, 2.0, 2.0]
    """
    sums = states.double().masked_fill(~mask[..., None], 0.0).cumsum(dim=1)
    return (sums / mask.cumsum(dim=1)[..., None]).transpose(0, 1)


def running_mean_as_published(states: States, mask: Mask) -> Float[Tensor, "token text dim"]:
    """As the public code of arXiv 2605.09969: a text that ends early goes on with its last state, which counts again.

    >>> states, mask = torch.tensor([[[1.0], [4.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> running_mean_as_published(states, mask)[:, 0, 0].tolist()
    [1.0, 2.5, 3.0]
    """
    filled = torch.where(mask[..., None], states, last_token(states, mask)[:, None]).double()
    counts = torch.arange(1, states.shape[1] + 1, device=states.device)
    return (filled.cumsum(dim=1) / counts[:, None]).transpose(0, 1)


def segment_means(states: States, mask: Mask, k: int) -> Float[Tensor, "segment text dim"]:
    """The mean state of each of `k` consecutive parts of a text, cut at round(T j / k) of its T tokens; float64.

    Raises TooFewError for a text of fewer than k tokens, ParameterError for k below 1.

    >>> states = torch.tensor([[[1.0], [2.0], [6.0], [0.0]]])
    >>> segment_means(states, torch.tensor([[True, True, True, False]]), 2)[:, 0, 0].tolist()  # cut at round(1.5)
    [1.5, 6.0]
    """
    if k < 1:
        raise ParameterError(f"k={k}: a text has at least one part")
    lengths = mask.sum(dim=1)
    if lengths.min() < k:
        raise TooFewError(f"mask: a text has {int(lengths.min())} tokens, too few for {k} parts")
    bounds = torch.stack([(lengths * j / k).round().long() for j in range(k + 1)])
    sums = torch.nn.functional.pad(
        states.double().masked_fill(~mask[..., None], 0.0).cumsum(dim=1), (0, 0, 1, 0)
    )
    rows = torch.arange(len(states))
    ends = torch.stack([sums[rows, bound] for bound in bounds])
    return (ends[1:] - ends[:-1]) / (bounds[1:] - bounds[:-1])[..., None]


def elementwise_max(states: States, mask: Mask) -> Float[Tensor, "text dim"]:
    """The largest value of each dimension over a text's tokens."""
    return states.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)


def weighted_mean(states: States, weights: Float[Tensor, "text token"]) -> Float[Tensor, "text dim"]:
    """States weighted by what `weights` gives each token; rows of weights sum to 1."""
    return torch.einsum("nt,ntd->nd", weights.double(), states.double())


def shuffled_tokens(states: States, mask: Mask, seed: int) -> States:
    """The same states of each text in an order drawn for it; padding stays behind."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(mask.shape, generator=generator).masked_fill(~mask, 2.0).argsort(dim=1)
    return states.gather(1, order[..., None].expand_as(states))


__all__ = [
    "elementwise_max",
    "last_token",
    "masked_mean",
    "running_mean",
    "running_mean_as_published",
    "segment_means",
    "shuffled_tokens",
    "weighted_mean",
]
