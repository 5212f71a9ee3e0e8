"""What stays of the states of prompts and generations: every generated token, or one vector a pooling."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import ParameterError
from readout.states.pooling import last_token, masked_mean
from readout.states.sites import Site

POOLINGS = (
    "prompt_mean",
    "caption_mean",
    "prompt_last",
    "generated_mean",
    "generated_last",
    "generated_max",
)


class SegmentStates:
    """Keeps the state of every generated token, at the layers that are asked for.

    dtype: what a state is stored in; bfloat16 and float16 take 2 bytes a number, float16 overflows beyond 65504.
    layers: of the sites that are read; None keeps all. Memory: bytes * sites * texts * tokens * dim, on the CPU.

    Raises ParameterError for a generation of more than `n_tokens` tokens.

    >>> kept = SegmentStates(n_texts=1, n_tokens=3)
    >>> states, mask = torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[True, False, False]])
    >>> kept.update(Site(1, 1), states, mask, ~mask, torch.tensor([0]))
    >>> kept.states(Site(1, 1)).flatten(), kept.mask
    (tensor([2., 3., 0.]), tensor([[ True,  True, False]]))
    """

    def __init__(
        self,
        n_texts: int,
        n_tokens: int,
        dtype: torch.dtype = torch.float32,
        layers: Sequence[int] | None = None,
    ):
        self.n_tokens, self.dtype, self.layers = n_tokens, dtype, layers
        self.lengths = torch.zeros(n_texts, dtype=torch.long)
        self._states: dict[Site, Tensor] = {}

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        prompt: Bool[Tensor, "text token"],
        generated: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch at one site."""
        if self.layers is not None and site.layer not in self.layers:
            return
        counts = generated.sum(dim=1).cpu()
        if counts.max() > self.n_tokens:
            raise ParameterError(f"n_tokens: {self.n_tokens}, but a text has {counts.max()} generated tokens")
        if site not in self._states:
            shape = (len(self.lengths), self.n_tokens, states.shape[-1])
            self._states[site] = torch.zeros(shape, dtype=self.dtype)
        # One copy from the device for the batch; its rows differ in length.
        parts = states[generated].to("cpu", self.dtype).split(counts.tolist())
        for row, part in zip(rows.tolist(), parts, strict=True):
            self._states[site][row, : len(part)] = part
        self.lengths[rows] = counts

    @property
    def mask(self) -> Bool[Tensor, "text token"]:
        """Which tokens of `states` are real."""
        return torch.arange(self.n_tokens) < self.lengths[:, None]

    def sites(self) -> list[Site]:
        """The sites that were kept, in order of depth."""
        return sorted(self._states)

    def states(self, site: Site) -> Float[Tensor, "text token dim"]:
        """The states of generated tokens 1..T, zeros behind the end. ParameterError for a site that was not kept."""
        return _of_site(self._states, site)


class Pooled:
    """Keeps one float32 vector per text, site and pooling of `POOLINGS`: memory does not grow with the tokens.

    prompt_mean, prompt_last: over all tokens of the prompt, those of the chat template too, and its last one.
    caption_mean: over tokens start <= i < stop of the prompt, `captions` holding (start, stop) of each text.
    generated_mean, generated_last, generated_max: over valid generated tokens; the maximum is taken per dimension.

    >>> pooled = Pooled(captions=[(1, 2)])
    >>> states, prompt = torch.tensor([[[1.0], [2.0], [4.0], [8.0]]]), torch.tensor([[True, True, False, False]])
    >>> pooled.update(Site(1, 1), states, prompt, ~prompt, torch.tensor([0]))
    >>> {name: pooled.states(Site(1, 1), name).item() for name in ("prompt_mean", "caption_mean", "generated_mean")}
    {'prompt_mean': 1.5, 'caption_mean': 2.0, 'generated_mean': 6.0}
    """

    def __init__(self, captions: Sequence[tuple[int, int]]):
        self.captions = torch.tensor(captions)
        self._vectors: dict[Site, dict[str, Tensor]] = {}

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        prompt: Bool[Tensor, "text token"],
        generated: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch at one site."""
        span = self.captions[rows].to(prompt.device)
        counted = prompt.long().cumsum(dim=1) - 1
        caption = prompt & (counted >= span[:, :1]) & (counted < span[:, 1:])
        found = {
            "prompt_mean": masked_mean(states, prompt),
            "caption_mean": masked_mean(states, caption),
            "prompt_last": last_token(states, prompt),
            "generated_mean": masked_mean(states, generated),
            "generated_last": last_token(states, generated),
            "generated_max": states.masked_fill(~generated[..., None], -torch.inf).amax(dim=1),
        }
        empty = torch.full((len(self.captions), states.shape[-1]), torch.nan)
        kept = self._vectors.setdefault(site, {name: empty.clone() for name in POOLINGS})
        for name, vectors in found.items():
            kept[name][rows] = vectors.float().cpu()

    def sites(self) -> list[Site]:
        """The sites that were read, in order of depth."""
        return sorted(self._vectors)

    def states(self, site: Site, pooling: str) -> Float[Tensor, "text dim"]:
        """One vector per text. ParameterError for a site that was not read, or another name than of `POOLINGS`."""
        if pooling not in POOLINGS:
            raise ParameterError(f"pooling: {pooling!r} is not one of {', '.join(POOLINGS)}")
        return _of_site(self._vectors, site)[pooling]


def repeat_padded_mean(
    mean: Float[Tensor, "text dim"],
    last: Float[Tensor, "text dim"],
    n_tokens: Int[Tensor, " text"],
    length: int,
) -> Float[Tensor, "text dim"]:
    """The mean that the published code takes: over `length` states, the last one repeated behind an early end.

    (T * mean + (length - T) * last) / length, with T valid tokens. Equals the mean where T = length.

    >>> repeat_padded_mean(torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([1]), 4)
    tensor([[1.7500]])
    """
    share = (n_tokens / length)[:, None]
    return share * mean + (1 - share) * last


def _of_site(kept: dict, site: Site):
    if site not in kept:
        raise ParameterError(f"site: {site.name} was not kept; kept were {[s.name for s in sorted(kept)]}")
    return kept[site]
