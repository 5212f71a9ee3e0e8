"""Activation patching: run a corrupted text, put a clean text's states in at one site, see what comes out.

With p the clean text (of the anchor's author) and n the corrupted one (of another author), patching at site l
replaces the residual stream of n there by a mix of both, h'_l = f(h^p_l, h^n_l); the blocks above l run on, and
the final states say how far n now looks like p to a scorer. A curve over l asks where the difference is carried.

One forward per layer would run all L blocks L + 1 times, although below l nothing is changed. Here one forward of
the corrupted texts takes the patched ones along: after block l those patched at l join, and each block, called by
the model itself, is run again with the same arguments on all that have joined so far. That halves the work.

Two texts of equal length, patched at every position, give the clean run at every layer: that is an identity, and
no finding. `random_positions`, `mean_shift` and `sublayers.sublayer_sweep` are interventions without it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from readout.errors import ParameterError
from readout.states.interventions import Intervention
from readout.states.stream import ResidualStream, forward

CleanTokens = tuple[Int[Tensor, "clean_text clean_token"], Bool[Tensor, "clean_text clean_token"]]
Tokens = tuple[Int[Tensor, "text token"], Bool[Tensor, "text token"]]
Join = Callable[[int, Tensor, Callable[[Tensor], Tensor] | None, Tensor | None], Tensor]


@dataclass(frozen=True)
class Sweep:
    """Final states (after the final norm) of the corrupted texts patched at each of `layers`, and of both runs."""

    layers: list[int]
    patched: Float[Tensor, "site text token dim"]
    corrupt: Float[Tensor, "text token dim"]
    clean: Float[Tensor, "text clean_token dim"]


def patch_sweep(
    model: nn.Module,
    clean: CleanTokens,
    corrupt: Tokens,
    intervention: Intervention,
    layers: Sequence[int] | None = None,
) -> Sweep:
    """The final states of the corrupted texts with `intervention` applied at site l, for every l in 0..L.

    clean, corrupt: (input_ids, mask) of as many texts each, padded on the right, in pairs; widths may differ.
    layers: some of 0..L, all by default; 0 is the input of block 1, l the output of block l.

    Runs in eval mode and without gradients; autocast is the caller's. Equal to one forward per layer that
    overwrites the site, up to rounding. Block passes: 2 L + L (L + 1) / 2 in place of (L + 3) L.
    Memory: about L + 2 states of the batch, text x token x dim each, and one block at work on one batch.

    Raises ParameterError for unequal numbers of texts, padding on the left, or a layer outside 0..L.
    Source: the residual patching of the authorship study (arXiv 2605.19908), in one pass.

    >>> from readout.states.interventions import all_positions
    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> model = BertModel(BertConfig(vocab_size=9, **sizes))
    >>> p, n = (torch.tensor([ids]) for ids in ([1, 2, 3], [4, 5, 6]))
    >>> sweep = patch_sweep(model, (p, p > 0), (n, n > 0), all_positions)
    >>> sweep.patched.shape, torch.allclose(sweep.patched[1], sweep.clean, atol=1e-6)
    (torch.Size([3, 1, 3, 4]), True)
    """
    check_pairs(clean[1], corrupt[1])
    stream = ResidualStream(model)
    wanted = [site.layer for site in stream.sites(layers=layers)]
    kept: dict[int, Tensor] = {}

    def patch(layer: int, states: Tensor, run: Any, below: Any) -> Tensor:
        return _checked(intervention(layer, kept.pop(layer), states, clean[1], corrupt[1]), states)

    with evaluating(stream.base):
        with stream.watch(lambda site, states: kept.update({site.layer: states}), layers=wanted):
            clean_final = forward(model, *clean)
        patched, corrupt_final = take_along(stream, corrupt, wanted, patch)
    return Sweep(wanted, patched, corrupt_final, clean_final)


def take_along(
    stream: ResidualStream, tokens: Tokens, layers: Sequence[int], join: Join
) -> tuple[Float[Tensor, "site text token dim"], Float[Tensor, "text token dim"]]:
    """Runs the model once and every block above site l also on what `join` gives for it, for each l of `layers`.

    join: (layer, raw states at that site, the block below as a function of its input, that input) to states of the
    same shape. At layer 0, where no block is below, the last two are None.
    Returns the final states of what joined, in order of depth, and those of the model's own run.
    """
    rows: list[Tensor] = []

    def climb(layer: int, block: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        options = {name: value for name, value in kwargs.items() if name != "hidden_states"}
        states = args[0] if args else kwargs["hidden_states"]

        # `forward`, past the hooks: this one must not call itself.
        def run(row: Tensor) -> Tensor:
            return first_of(block.forward(row, *args[1:], **options))

        if layer == 1 and 0 in layers:
            rows.append(join(0, states, None, None))
        rows[:] = [run(row) for row in rows]
        if layer in layers:
            rows.append(join(layer, first_of(output), run, states))

    with ExitStack() as hooks:
        for layer, block in enumerate(stream.blocks, start=1):
            hooks.enter_context(block.register_forward_hook(partial(climb, layer), with_kwargs=True))
        plain = forward(stream.base, *tokens)
    return torch.stack([stream.final_norm(row) for row in rows]), plain


def check_pairs(
    clean_mask: Bool[Tensor, "clean_text clean_token"], corrupt_mask: Bool[Tensor, "text token"]
) -> None:
    """Refuses, by ParameterError, batches that are not in pairs or not padded on the right."""
    if len(clean_mask) != len(corrupt_mask):
        raise ParameterError(
            f"clean, corrupt: {len(clean_mask)} and {len(corrupt_mask)} texts; they come in pairs, as many of each"
        )
    for name, mask in (("clean", clean_mask), ("corrupt", corrupt_mask)):
        if not mask[:, 0].all() or (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ParameterError(
                f"{name}: the mask should be True for a text's tokens, then False; pad on the right"
            )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside the `with`; each module's own mode comes back after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def first_of(output: Any) -> Tensor:
    """The states in what a module gave out: the output itself, or the first of a tuple."""
    return output[0] if isinstance(output, tuple) else output


def with_first(output: Any, states: Tensor) -> Any:
    """What a module gave out, with other states in it."""
    return (states, *output[1:]) if isinstance(output, tuple) else states


def _checked(patched: Tensor, states: Tensor) -> Tensor:
    if patched.shape != states.shape:
        raise ParameterError(
            f"intervention: gave states {tuple(patched.shape)}; as the corrupted ones, {tuple(states.shape)}, is right"
        )
    return patched
