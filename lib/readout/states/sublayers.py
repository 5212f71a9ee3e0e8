"""Patching of one sub-layer: what attention alone, or the MLP alone, of one block carries over.

A block adds two updates to the residual stream. Putting in the clean text's whole state at a site brings along
everything below it; putting in one update leaves the rest of the stream to the corrupted text, so that equal
lengths do not give the clean run back.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from readout.errors import ArchitectureError, ParameterError
from readout.states.interventions import overlap, overwrite
from readout.states.patching import (
    CleanTokens,
    Sweep,
    Tokens,
    check_pairs,
    evaluating,
    first_of,
    take_along,
    with_first,
)
from readout.states.stream import ResidualStream, forward

Part = Literal["attention", "mlp"]
PARTS: tuple[Part, ...] = ("attention", "mlp")

# The module whose output is added to the residual, attention's and the MLP's. The first family that fits counts:
# models with a norm after each sub-layer add what that norm gives out.
FAMILIES = {
    "BERT, RoBERTa": ("attention.output.dense", "output.dense"),
    "OLMo-2, OLMo-3": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "Llama, Qwen, gpt-oss": ("self_attn", "mlp"),
    "ModernBERT": ("attn", "mlp"),
    "GPT-NeoX": ("attention", "mlp"),
}


def sublayer_sweep(
    model: nn.Module,
    clean: CleanTokens,
    corrupt: Tokens,
    part: Part,
    layers: Sequence[int] | None = None,
) -> Sweep:
    """The final states of the corrupted texts with one update of block l from the clean run, for every l in 1..L.

    part: "attention" or "mlp"; its update, as it is added to the residual stream, is the clean text's at every
    position t < min(S_p, S_n). Everything else of block l, and all blocks above, are computed anew.
    layers: some of 1..L, all by default. Cost, memory and the other arguments are those of `patch_sweep`.

    Raises ArchitectureError for blocks of no known family, and ParameterError as `patch_sweep` does, for another
    part and for layer 0, which has no sub-layer. Source: our own.

    >>> import torch
    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> model, p = BertModel(BertConfig(vocab_size=9, **sizes)), torch.tensor([[1, 2, 3]])
    >>> sweep = sublayer_sweep(model, (p, p > 0), (p, p > 0), "mlp")  # a text patched with its own states
    >>> sweep.layers, torch.allclose(sweep.patched[0], sweep.corrupt, atol=1e-6)
    ([1, 2], True)
    """
    check_pairs(clean[1], corrupt[1])
    stream = ResidualStream(model)
    wanted = _wanted(stream, layers)
    modules = {layer: sublayer(stream.blocks[layer - 1], part) for layer in wanted}
    updates: dict[int, Tensor] = {}
    shared = overlap(clean[1], corrupt[1])

    def keep(layer: int, module: nn.Module, args: tuple, output: Any) -> None:
        updates[layer] = first_of(output)

    def put(update: Tensor, module: nn.Module, args: tuple, output: Any) -> Any:
        return with_first(output, overwrite(update, first_of(output), shared))

    def patch(layer: int, states: Tensor, run: Callable[[Tensor], Tensor], below: Tensor) -> Tensor:
        with modules[layer].register_forward_hook(partial(put, updates.pop(layer))):
            return run(below)

    with evaluating(stream.base):
        with ExitStack() as hooks:
            for layer, module in modules.items():
                hooks.enter_context(module.register_forward_hook(partial(keep, layer)))
            clean_final = forward(model, *clean)
        patched, corrupt_final = take_along(stream, corrupt, wanted, patch)
    return Sweep(wanted, patched, corrupt_final, clean_final)


def sublayer(block: nn.Module, part: str) -> nn.Module:
    """The module of a block whose output is the update that `part` adds to the residual stream.

    Raises ArchitectureError for a block of no known family, and ParameterError for another part.

    >>> block = nn.ModuleDict({"attn": nn.Identity(), "mlp": nn.Linear(2, 2)})
    >>> sublayer(block, "mlp")
    Linear(in_features=2, out_features=2, bias=True)
    """
    if part not in PARTS:
        raise ParameterError(f"part: {part!r} is not one of {', '.join(PARTS)}")
    modules = dict(block.named_modules())
    for paths in FAMILIES.values():
        if all(path in modules for path in paths):
            return modules[paths[PARTS.index(part)]]
    raise ArchitectureError(
        f"{type(block).__name__}: no attention and MLP found; known are the blocks of {', '.join(FAMILIES)}"
    )


def _wanted(stream: ResidualStream, layers: Sequence[int] | None) -> list[int]:
    every = range(1, stream.n_layers + 1)
    wanted = [site.layer for site in stream.sites(layers=every if layers is None else layers)]
    if wanted[0] == 0:
        raise ParameterError(
            f"layers: 0 is the embedding and has no sub-layer; give some of 1..{stream.n_layers}"
        )
    return wanted
