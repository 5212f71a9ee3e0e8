"""Pooling by the model's own attention: what the last generated token looks back at, as weights of a mean.

The paper names attention pooling and does not define it; this definition is ours.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from readout.errors import ArchitectureError, DegenerateError
from readout.generation.forced import read_generated
from readout.generation.sample import Generated
from readout.states.sites import Norm, Site
from readout.states.stream import ResidualStream


def attention_pooled(
    model: PreTrainedModel,
    samples: Sequence[Generated],
    prompts: Sequence[Sequence[int]],
    *,
    norm: Norm = "final",
    batch_size: int = 16,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> Float[Tensor, "text dim"]:
    """The mean of a generation's last-layer states, each weighted by how much its last token attends to it.

    sum_t w_t h_t over generated tokens t = 1..T, where w_t is the last block's attention from token T to token t,
    averaged over heads and rescaled to sum to 1. float32. The whole model runs with the eager implementation of
    attention, the only one that gives weights out: heads * tokens^2 numbers a text in one block at a time.

    Raises ArchitectureError where the last block gives no attention weights, DegenerateError where its last token
    attends to no generated one, and what `read_generated` raises.

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    >>> sample = Generated("x", 0, (5,), "", "length")
    >>> attention_pooled(LlamaForCausalLM(LlamaConfig(vocab_size=9, **sizes)), [sample], [[3, 4]]).shape
    torch.Size([1, 4])
    """
    last = ResidualStream(model).n_layers
    with attention_pool(model, len(samples)) as pool:
        read_generated(
            model,
            samples,
            prompts,
            [pool],
            norms=(norm,),
            layers=[last],
            batch_size=batch_size,
            precision=precision,
            progress=progress,
        )
    return pool.states()


@contextmanager
def attention_pool(model: PreTrainedModel, n_texts: int) -> Iterator["AttentionPool"]:
    """A consumer of `read_generated` that pools by attention; inside the `with` the model gives its weights out."""
    stream = ResidualStream(model)
    pool = AttentionPool(n_texts, stream.n_layers)
    with _eager(model), _watched(stream, type(model).__name__, pool):
        yield pool


class AttentionPool:
    """What `attention_pooled` gives, of the states at the last layer; other layers pass by."""

    def __init__(self, n_texts: int, n_layers: int):
        self.n_layers = n_layers
        self.vectors: list[Tensor | None] = [None] * n_texts
        self.weights: Float[Tensor, "text head token token"] | None = None

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        prompt: Bool[Tensor, "text token"],
        generated: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch, whose weights came just before."""
        if site.layer != self.n_layers:
            return
        if self.weights is None or self.weights.ndim != 4:
            raise ArchitectureError(
                "model: its last block gives no attention weights of [text, head, token, token]"
            )
        last = generated.shape[1] - 1 - generated.flip(1).int().argmax(dim=1)
        # Of a prompt that was read before, only what follows it asks; all of it is asked about.
        asking = last - (self.weights.shape[3] - self.weights.shape[2])
        texts = torch.arange(len(states), device=states.device)
        weights = self.weights[texts, :, asking].double().mean(dim=1).masked_fill(~generated, 0)
        total = weights.sum(dim=1, keepdim=True)
        if not (total > 0).all():
            raise DegenerateError("samples: a last token attends to no generated one; leave it out")
        pooled = torch.einsum(
            "nt,ntd->nd", weights / total, states.double().masked_fill(~generated[..., None], 0)
        )
        for row, vector in zip(rows.tolist(), pooled.float().cpu(), strict=True):
            self.vectors[row] = vector
        self.weights = None

    def states(self) -> Float[Tensor, "text dim"]:
        """One vector a text."""
        return torch.stack(self.vectors)


@contextmanager
def _eager(model: PreTrainedModel) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _watched(stream: ResidualStream, name: str, pool: AttentionPool) -> Iterator[None]:
    def keep(module: nn.Module, args: tuple, output: object) -> None:
        pool.weights = output[1] if isinstance(output, tuple) else None

    block = stream.blocks[-1]
    found = [module for module in block.children() if type(module).__name__.endswith("Attention")]
    if len(found) != 1:
        raise ArchitectureError(f"{name}: looked for one attention in the last block, found {len(found)}")
    hook = found[0].register_forward_hook(keep)
    try:
        yield
    finally:
        hook.remove()
