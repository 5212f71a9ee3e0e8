"""Stitched models against a loop over blocks by hand, and the originals left alone."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from readout.errors import ArchitectureError, ParameterError
from readout.states import ResidualStream, forward
from readout.states.stitching import stitched

from .tiny_models import N_LAYERS, TEXT_NAMES, inputs, tiny, tiny_with_head


def other(name):
    """The same architecture with other weights."""
    model = tiny(name)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def last(model, name):
    ids = inputs(name)["input_ids"]
    with torch.no_grad():
        return forward(model, ids, torch.ones_like(ids, dtype=torch.bool))


@torch.no_grad()
def by_hand(lower, upper, n_lower, name):
    """The lower model's embeddings, then each block called by hand with the arguments that the lower model gives."""
    calls = []
    hooks = [
        block.register_forward_pre_hook(
            lambda b, args, kwargs: calls.append((args, kwargs)), with_kwargs=True
        )
        for block in ResidualStream(lower).blocks
    ]
    last(lower, name)
    for hook in hooks:
        hook.remove()
    states = calls[0][0][0]
    for layer, (args, kwargs) in enumerate(calls):
        block = ResidualStream(lower if layer < n_lower else upper).blocks[layer]
        states = block(states, *args[1:], **kwargs)
    return ResidualStream(upper).final_norm(states)


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_equals_a_loop_over_blocks(name):
    lower, upper = tiny(name), other(name)
    before = last(lower, name), last(upper, name)
    for n_lower in range(N_LAYERS + 1):
        states = last(stitched(lower, upper, n_lower), name)
        assert_close(states, by_hand(lower, upper, n_lower, name), rtol=0, atol=0)
        assert (states - before[1]).abs().max() > 1e-3
        assert_close(last(stitched(lower, lower, n_lower), name), before[0], rtol=0, atol=0)
    assert_close((last(lower, name), last(upper, name)), before, rtol=0, atol=0)


def test_weights_are_shared_and_modules_are_not():
    lower, upper = tiny("modernbert"), other("modernbert")
    model = stitched(lower, upper, 1)
    theirs = {id(p) for m in (lower, upper) for p in m.parameters()}
    assert {id(p) for p in model.parameters()} <= theirs
    assert model.final_norm.weight is upper.final_norm.weight
    assert model.embeddings.tok_embeddings.weight is lower.embeddings.tok_embeddings.weight
    assert not set(model.modules()) & {*lower.modules(), *upper.modules()}
    model.train()
    assert not lower.training


def test_heads_are_left_aside_and_the_pooler_is_the_upper_one():
    lower, upper = tiny_with_head("bert"), other("bert")
    model = stitched(lower, upper, 2)
    assert type(model) is type(upper)
    assert model.pooler.dense.weight is upper.pooler.dense.weight


def test_what_cannot_be_stitched_is_refused():
    with pytest.raises(ArchitectureError, match="lower is a BertModel, upper a RobertaModel"):
        stitched(tiny("bert"), tiny("roberta"), 1)
    with pytest.raises(ArchitectureError, match="intermediate_size: 40 in lower, 48 in upper"):
        stitched(tiny("bert"), tiny("bert", intermediate_size=48), 1)
    for n_lower in (-1, N_LAYERS + 1):
        with pytest.raises(ParameterError, match=rf"n_lower={n_lower}: should be in 0\.\.3"):
            stitched(tiny("bert"), tiny("bert"), n_lower)
    renamed = tiny("bert")
    renamed.config._name_or_path, renamed.config.architectures = "elsewhere", ["BertForMaskedLM"]
    assert isinstance(stitched(tiny("bert"), renamed, 1), nn.Module)
