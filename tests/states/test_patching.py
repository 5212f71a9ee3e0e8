"""All layers in one pass against one forward per layer."""

import pytest
import torch

from readout.errors import ParameterError
from readout.states import ResidualStream, forward
from readout.states.interventions import all_positions, mean_shift, random_positions
from readout.states.patching import patch_sweep

from .patch_oracles import CLEAN, CORRUPT, assert_same_states, batch, outputs_of, overwritten, run_with
from .tiny_models import N_LAYERS, TEXT_NAMES, tiny


def one_forward_per_layer(model, clean, corrupt, intervention):
    blocks = ResidualStream(model).blocks
    seen = []
    with blocks[0].register_forward_pre_hook(lambda m, args, kwargs: seen.append(args[0]), with_kwargs=True):
        at_blocks = outputs_of(model, clean, blocks)
    patched = []
    for layer, states in enumerate([seen[0], *at_blocks]):

        def change(other, layer=layer, states=states):
            return intervention(layer, states, other, clean[1], corrupt[1])

        patched.append(run_with(model, corrupt, blocks[max(layer - 1, 0)], change, before=layer == 0))
    return torch.stack(patched)


INTERVENTIONS = {
    "all": all_positions,
    "random": random_positions(0.4, seed=3),
    "mean": mean_shift,
    "loop": lambda layer, p, n, pm, nm: overwritten(p, n, list(zip(pm.sum(1), nm.sum(1), strict=True))),
}


@pytest.mark.parametrize("name", TEXT_NAMES)
@pytest.mark.parametrize("kind", ["all", "mean"])
def test_one_pass_equals_one_forward_per_layer(name, kind):
    model, clean, corrupt = tiny(name), batch(CLEAN, 1), batch(CORRUPT, 2)
    sweep = patch_sweep(model, clean, corrupt, INTERVENTIONS[kind])
    expected = one_forward_per_layer(model, clean, corrupt, INTERVENTIONS["loop" if kind == "all" else kind])
    assert sweep.layers == list(range(N_LAYERS + 1))
    assert_same_states(sweep.patched, expected, corrupt[1])
    with torch.no_grad():
        assert_same_states(sweep.corrupt, forward(model, *corrupt), corrupt[1])
        assert_same_states(sweep.clean, forward(model, *clean), clean[1])
    assert (sweep.patched - sweep.corrupt).abs().amax(dim=(1, 2, 3)).min() > 1e-2


def test_random_positions_in_one_pass():
    model, clean, corrupt = tiny("modernbert"), batch(CLEAN, 1), batch(CORRUPT, 2)
    sweep = patch_sweep(model, clean, corrupt, INTERVENTIONS["random"])
    assert_same_states(
        sweep.patched, one_forward_per_layer(model, clean, corrupt, INTERVENTIONS["random"]), corrupt[1]
    )


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_equal_lengths_give_the_clean_run_at_every_layer(name):
    model, clean, corrupt = tiny(name), batch((9, 5), 1), batch((9, 5), 2)
    sweep = patch_sweep(model, clean, corrupt, all_positions)
    assert_same_states(sweep.patched, sweep.clean.expand_as(sweep.patched), corrupt[1])
    assert_same_states(
        patch_sweep(model, clean, corrupt, random_positions(1.0, seed=0)).patched, sweep.patched, corrupt[1]
    )


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_a_text_patched_with_itself_does_not_change(name):
    # As many texts as tokens: an axis of tokens must not be taken for one of texts.
    tokens = batch((5, 3, 5, 4, 5), 1)
    sweep = patch_sweep(tiny(name), tokens, tokens, all_positions)
    assert_same_states(sweep.patched, sweep.corrupt.expand_as(sweep.patched), tokens[1])


def test_some_layers_in_order_of_depth():
    model, clean, corrupt = tiny("llama"), batch(CLEAN, 1), batch(CORRUPT, 2)
    every = patch_sweep(model, clean, corrupt, all_positions)
    some = patch_sweep(model, clean, corrupt, all_positions, layers=(3, 1))
    assert some.layers == [1, 3]
    assert_same_states(some.patched, every.patched[[1, 3]], corrupt[1])


def test_batching_and_padding_change_nothing():
    model, clean, corrupt = tiny("bert"), batch(CLEAN, 1), batch(CORRUPT, 2)
    together = patch_sweep(model, clean, corrupt, random_positions(0.5, seed=1))
    for row, (s_p, s_n) in enumerate(zip(CLEAN, CORRUPT, strict=True)):
        p, n = (tuple(x[row : row + 1, :s] for x in tokens) for tokens, s in ((clean, s_p), (corrupt, s_n)))
        alone = patch_sweep(model, p, n, random_positions(0.5, seed=1, rows=[row]))
        assert_same_states(alone.patched, together.patched[:, row : row + 1, :s_n], n[1], scale=2e-6)


def test_the_model_is_left_as_it_was():
    model, tokens = tiny("bert").train(), batch((4,), 1)
    model.encoder.layer[0].eval()
    modes = [module.training for module in model.modules()]
    sweep = patch_sweep(model, tokens, tokens, all_positions)
    assert not sweep.patched.requires_grad
    assert [module.training for module in model.modules()] == modes
    assert_same_states(sweep.patched, patch_sweep(model, tokens, tokens, all_positions).patched, tokens[1])
    with pytest.raises(RuntimeError, match="stop"):
        patch_sweep(model, tokens, tokens, lambda *_: (_ for _ in ()).throw(RuntimeError("stop")))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert [module.training for module in model.modules()] == modes


def test_bad_input_is_named():
    model, two, three = tiny("bert"), batch((4, 2), 1), batch((4, 2, 3), 1)
    left = (two[0], two[1].flip(1))
    with pytest.raises(ParameterError, match="clean, corrupt: 2 and 3 texts"):
        patch_sweep(model, two, three, all_positions)
    with pytest.raises(ParameterError, match=r"corrupt: the mask .* pad on the right"):
        patch_sweep(model, two, left, all_positions)
    with pytest.raises(ParameterError, match=r"layer: 4 is not in 0\.\.3"):
        patch_sweep(model, two, two, all_positions, layers=(4,))
    with pytest.raises(ParameterError, match=r"intervention: gave states \(1, 4, 32\)"):
        patch_sweep(model, two, two, lambda layer, p, n, pm, nm: n[:1])
