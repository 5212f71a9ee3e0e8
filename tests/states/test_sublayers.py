"""One update in one pass against one forward per layer, and what counts as an update."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from readout.errors import ArchitectureError, ParameterError
from readout.states import ResidualStream, forward
from readout.states.sublayers import FAMILIES, sublayer, sublayer_sweep

from .patch_oracles import CLEAN, CORRUPT, assert_same_states, batch, outputs_of, overwritten, run_with
from .tiny_models import ARCHITECTURES, RECURRENT_NAMES, TEXT_NAMES, tiny

WITH_SUBLAYERS = [name for name in TEXT_NAMES if name not in RECURRENT_NAMES]


@pytest.mark.parametrize("name", WITH_SUBLAYERS)
@pytest.mark.parametrize("part", ["attention", "mlp"])
def test_sublayer_in_one_pass_equals_one_forward_per_layer(name, part):
    model, clean, corrupt = tiny(name), batch(CLEAN, 1), batch(CORRUPT, 2)
    modules = [sublayer(block, part) for block in ResidualStream(model).blocks]
    lengths = list(zip(CLEAN, CORRUPT, strict=True))
    updates = outputs_of(model, clean, modules)
    expected = [
        run_with(model, corrupt, module, lambda states, update=update: overwritten(update, states, lengths))
        for module, update in zip(modules, updates, strict=True)
    ]
    sweep = sublayer_sweep(model, clean, corrupt, part)
    assert sweep.layers == [1, 2, 3]
    assert_same_states(sweep.patched, torch.stack(expected), corrupt[1])
    some = sublayer_sweep(model, clean, corrupt, part, layers=(3, 2))
    assert_same_states(some.patched, torch.stack(expected[1:]), corrupt[1])
    with torch.no_grad():
        assert_same_states(sweep.corrupt, forward(model, *corrupt), corrupt[1])


@pytest.mark.parametrize("name", WITH_SUBLAYERS)
def test_the_two_updates_are_what_a_block_adds(name):
    model, tokens = tiny(name), batch((7,), 1)
    block = ResidualStream(model).blocks[1]
    below = ResidualStream(model).blocks[0]
    parts = [sublayer(block, "attention"), sublayer(block, "mlp")]
    start, end, attention, mlp = outputs_of(model, tokens, [below, block, *parts])
    if ARCHITECTURES[name].final_norm:
        assert_close(end, start + attention + mlp)
    else:
        middle = block.attention.output.LayerNorm(start + attention)
        assert_close(end, block.output.LayerNorm(middle + mlp))


def test_blocks_without_known_sublayers_are_refused():
    with pytest.raises(ArchitectureError, match="MambaBlock: .*" + ", ".join(FAMILIES)):
        sublayer_sweep(tiny("mamba"), batch((4,), 1), batch((4,), 2), "attention")
    with pytest.raises(ArchitectureError, match="Linear: no attention and MLP"):
        sublayer(nn.Linear(2, 2), "mlp")


def test_bad_input_is_named():
    model, tokens = tiny("bert"), batch((4, 2), 1)
    left = (tokens[0], tokens[1].flip(1))
    with pytest.raises(ParameterError, match=r"clean: the mask .* pad on the right"):
        sublayer_sweep(model, left, tokens, "mlp")
    with pytest.raises(ParameterError, match=r"layers: 0 is the embedding .* 1\.\.3"):
        sublayer_sweep(model, tokens, tokens, "mlp", layers=(0, 1))
    with pytest.raises(ParameterError, match="part: 'norm' is not one of attention, mlp"):
        sublayer(model.encoder.layer[0], "norm")
