"""Reading back: one teacher-forced pass over prompt and generation, and whose state each position holds.

Two conventions are in use. The state *at* generated token t is what the model holds after it has read the token; the
state that *predicts* it stands one position earlier, at the prompt's last token for t = 1.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from readout.errors import ParameterError
from readout.generation.cache import Begun
from readout.generation.sample import Generated, _left_padded
from readout.progress import progress_bar
from readout.states.read import (
    Norm,
    Precision,
    _check_numbers,
    _check_vocabulary,
    _deliver,
    read_ids,
    resolve_precision,
    running,
)
from readout.states.sites import Site
from readout.states.stream import ResidualStream, base_model


@runtime_checkable
class GeneratedConsumer(Protocol):
    """What `read_generated` hands states to: called once per batch and site, in order of depth within a batch."""

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        prompt: Bool[Tensor, "text token"],
        generated: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """prompt, generated: masks of the positions whose states are meant; rows: the texts' places, on the CPU."""


def read_generated(
    model: PreTrainedModel,
    samples: Sequence[Generated],
    prompts: Sequence[Sequence[int]],
    consumers: Sequence[GeneratedConsumer],
    *,
    norms: Sequence[Norm] = ("final",),
    layers: Sequence[int] | None = None,
    batch_size: int = 16,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> Precision:
    """The states *at* the prompt's tokens and *at* the generated tokens, at every site, to every consumer.

    Samples are batched by length and padded; several samples of one prompt share the pass over it. Neither moves a
    state beyond rounding. norms, layers: see `ResidualStream.sites`; the default is what the final norm makes of each
    layer. Time is one forward pass over each prompt and each generation; memory one batch, plus what the consumers
    keep. Returns the precision used.

    Raises ParameterError where samples and prompts do not pair up, and what `read` raises.

    >>> from transformers import LlamaConfig, LlamaModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    >>> class Show:
    ...     def update(self, site, states, prompt, generated, rows):
    ...         print(site.name, prompt.int().tolist(), generated.int().tolist())
    >>> model, sample = LlamaModel(LlamaConfig(vocab_size=9, **sizes)), Generated("x", 0, (5, 6), "", "length")
    >>> read_generated(model, [sample], [[3, 4]], [Show()], layers=[1])
    final [[1, 1, 0, 0]] [[0, 0, 1, 1]]
    'float32'
    >>> read_predicting(model, [sample], [[3, 4]], [Show()], layers=[1])
    final [[1, 1, 0, 0]] [[0, 1, 1, 0]]
    'float32'
    """
    options = {"norms": norms, "layers": layers, "batch_size": batch_size, "precision": precision}
    return _read(model, samples, prompts, consumers, 0, **options, progress=progress)


def read_predicting(
    model: PreTrainedModel,
    samples: Sequence[Generated],
    prompts: Sequence[Sequence[int]],
    consumers: Sequence[GeneratedConsumer],
    *,
    norms: Sequence[Norm] = ("final",),
    layers: Sequence[int] | None = None,
    batch_size: int = 16,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> Precision:
    """As `read_generated`, with the state that *predicts* each generated token in place of the state at it.

    The mask of the generated tokens moves one position to the left, onto the prompt's last token; that of the prompt
    stays. This is what arXiv 2610.09411 pools.
    """
    options = {"norms": norms, "layers": layers, "batch_size": batch_size, "precision": precision}
    return _read(model, samples, prompts, consumers, 1, **options, progress=progress)


@dataclass
class _Split:
    """A consumer of `read_ids` that tells the prompt's positions from the generation's."""

    consumers: Sequence[GeneratedConsumer]
    starts: Int[Tensor, " text"]
    shift: int

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        counted = mask.long().cumsum(dim=1) - 1
        starts, lengths = self.starts.to(mask.device)[rows, None], mask.sum(dim=1, keepdim=True)
        prompt = mask & (counted < starts)
        generated = mask & (counted >= starts - self.shift) & (counted < lengths - self.shift)
        for consumer in self.consumers:
            consumer.update(site, states, prompt, generated, rows)


def _read(
    model: PreTrainedModel,
    samples: Sequence[Generated],
    prompts: Sequence[Sequence[int]],
    consumers: Sequence[GeneratedConsumer],
    shift: int,
    **options,
) -> Precision:
    if len(samples) != len(prompts):
        raise ParameterError(f"samples: {len(samples)} for {len(prompts)} prompts; give one each")
    split = _Split(consumers, torch.tensor([len(prompt) for prompt in prompts]), shift)
    of_prompt = defaultdict(list)
    for row, prompt in enumerate(prompts):
        of_prompt[tuple(prompt)].append(row)
    if len(of_prompt) < len(prompts) and () not in of_prompt and Begun.fits(model):
        return _read_shared(model, of_prompt, [list(sample.tokens) for sample in samples], split, **options)
    ids = [[*prompt, *sample.tokens] for prompt, sample in zip(prompts, samples, strict=True)]
    return read_ids(model, ids, [split], **options)


def _read_shared(
    model: PreTrainedModel,
    of_prompt: dict[tuple[int, ...], list[int]],
    tokens: list[list[int]],
    split: _Split,
    *,
    norms: Sequence[Norm],
    layers: Sequence[int] | None,
    batch_size: int,
    precision: str,
    progress: bool,
) -> Precision:
    """Each prompt once, then what follows it: the first sample of every prompt, the second of every prompt ...

    of_prompt: the rows of `tokens` that follow each prompt.
    """
    _check_numbers(batch_size=batch_size)
    stream, used, base = ResidualStream(model), resolve_precision(precision, model), base_model(model)
    stream.sites(norms, layers)
    _check_vocabulary(model, [[*prompt, *tokens[row]] for prompt, rows in of_prompt.items() for row in rows])
    longest_first = sorted(of_prompt, key=len, reverse=True)
    n_tokens = sum(map(len, of_prompt)) + sum(map(len, tokens))
    with (
        progress_bar(n_tokens, what="states", unit="token", shown=progress) as bar,
        running(model, used),
    ):
        for start in range(0, len(longest_first), batch_size):
            batch = longest_first[start : start + batch_size]
            before: dict[Site, Tensor] = {}
            with stream.watch(before.__setitem__, norms, layers):
                begun, _ = Begun.read(base, *_left_padded(batch))
            bar.update(sum(map(len, batch)))
            for turn in range(max(len(of_prompt[prompt]) for prompt in batch)):
                places = [i for i, prompt in enumerate(batch) if len(of_prompt[prompt]) > turn]
                rows = [of_prompt[batch[place]][turn] for place in places]
                _read_on(stream, begun, before, places, rows, tokens, split, norms, layers)
                bar.update(sum(len(tokens[row]) for row in rows))
    return used


def _read_on(
    stream: ResidualStream,
    begun: Begun,
    before: dict[Site, Tensor],
    places: list[int],
    rows: list[int],
    tokens: list[list[int]],
    split: _Split,
    norms: Sequence[Norm],
    layers: Sequence[int] | None,
) -> None:
    """One continuation of some of the prompts; the consumers see it behind its prompt, as in one pass over both."""
    index = torch.tensor(places, device=begun.mask.device)
    lengths = torch.tensor([len(tokens[row]) for row in rows], device=index.device)
    width = max(1, int(lengths.max()))
    ids = torch.tensor([tokens[row] + [0] * (width - len(tokens[row])) for row in rows], device=index.device)
    mask = torch.arange(width, device=index.device) < lengths[:, None]
    deliver = _deliver([split], torch.cat([begun.mask[index], mask], dim=1), torch.tensor(rows))
    own = begun.copy(None if len(places) == len(begun.mask) else index)

    def joined(site: Site, states: Tensor) -> None:
        deliver(site, torch.cat([before[site][index], states], dim=1))

    with stream.watch(joined, norms, layers):
        own.go_on(ids, mask)
