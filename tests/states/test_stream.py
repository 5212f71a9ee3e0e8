from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import T5Config, T5Model

from readout.errors import ArchitectureError, ParameterError
from readout.states import ResidualStream, Site, forward, masked_mean

from .tiny_models import (
    ARCHITECTURES,
    N_LAYERS,
    RECURRENT_NAMES,
    TEXT_NAMES,
    VOCABULARY,
    WINDOW,
    inputs,
    tiny,
    tiny_with_head,
)

BOTH = ("raw", "final")
NAMES = list(ARCHITECTURES)


@torch.no_grad()
def record(model, run, **which):
    """Every site's states in one forward, in the order in which they came."""
    seen = []
    with ResidualStream(model).watch(lambda site, states: seen.append((site, states.clone())), **which):
        output = run()
    return dict(seen), output


def n_hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("name", NAMES)
def test_finds_blocks_and_final_norm(name):
    model, expected = tiny(name), ARCHITECTURES[name]
    stream = ResidualStream(model)
    assert stream.blocks is model.get_submodule(expected.blocks)
    states = torch.randn(2, 5, 32)
    norm = nn.Identity() if expected.final_norm is None else model.get_submodule(expected.final_norm)
    assert_close(stream.final_norm(states), norm(states), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_raw_sites_are_the_hidden_states_of_transformers_below_the_last_block(name):
    model = tiny(name)
    states, output = record(model, lambda: model(**inputs(name), output_hidden_states=True))
    assert list(states) == [Site(layer, N_LAYERS) for layer in range(N_LAYERS + 1)]
    if name in RECURRENT_NAMES:
        # Mamba's hidden_states start at block 1 and leave the embedding out.
        expected = [model.get_input_embeddings()(inputs(name)["input_ids"]), *output.hidden_states[:-2]]
    else:
        expected = output.hidden_states[:-1]
    assert len(expected) == N_LAYERS
    for site, hidden in zip(states, expected, strict=False):
        assert_close(states[site], hidden, rtol=0, atol=0, msg=site.name)


@pytest.mark.parametrize("name", NAMES)
def test_normed_site_is_the_output_of_the_model_cut_there(name):
    model = tiny(name)
    states, output = record(model, lambda: model(**inputs(name)), norms=("final",))
    assert_close(states[Site(N_LAYERS, N_LAYERS, "final")], output.last_hidden_state, rtol=0, atol=0)
    blocks = model.get_submodule(ARCHITECTURES[name].blocks)
    for layer in reversed(range(N_LAYERS)):
        del blocks[layer]
        model.config.num_hidden_layers = layer
        with torch.no_grad():
            cut = model(**inputs(name)).last_hidden_state
        assert_close(states[Site(layer, N_LAYERS, "final")], cut)


@pytest.mark.parametrize("name", [name for name in NAMES if ARCHITECTURES[name].final_norm])
def test_last_block_is_taken_before_the_final_norm(name):
    model = tiny(name)
    states, output = record(model, lambda: model(**inputs(name)))
    last = states[Site(N_LAYERS, N_LAYERS)]
    assert (last - output.last_hidden_state).abs().max() > 0.1
    assert_close(
        model.get_submodule(ARCHITECTURES[name].final_norm)(last), output.last_hidden_state, rtol=0, atol=0
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_head_changes_no_site(name):
    model = tiny_with_head(name)
    bare, _ = record(model.base_model, lambda: model.base_model(**inputs(name)), norms=BOTH)
    headed, _ = record(model, lambda: model(**inputs(name)), norms=BOTH)
    assert len(headed) == 2 * (N_LAYERS + 1)
    for site in bare:
        assert_close(headed[site], bare[site], rtol=0, atol=0)


def test_sites_come_in_order_of_depth_and_only_those_asked_for():
    model = tiny("llama")
    states, _ = record(model, lambda: model(**inputs("llama")), norms=("final", "raw"), layers=(3, 0, 3))
    assert [site.name for site in states] == ["embedding", "embedding, normed", "block 3", "final"]


def test_hooks_go_with_the_block_and_with_an_error():
    model = tiny("bert")
    before = n_hooks(model)
    with ResidualStream(model).watch(lambda site, states: None, norms=BOTH):
        assert n_hooks(model) == before + 2 * (N_LAYERS + 1)
    assert n_hooks(model) == before

    def fail(site, states):
        raise RuntimeError(site.name)

    with pytest.raises(RuntimeError, match="block 2"), ResidualStream(model).watch(fail, layers=(2,)):
        model(**inputs("bert"))
    assert n_hooks(model) == before


def test_wrong_sites_are_refused_and_leave_no_hook():
    model = tiny("bert")
    stream, before = ResidualStream(model), n_hooks(model)
    with (
        pytest.raises(ParameterError, match=r"layer: 4 is not in 0\.\.3"),
        stream.watch(print, layers=(0, 4)),
    ):
        pass
    with pytest.raises(ParameterError, match=r"norms: .* raw, final"):
        stream.sites(norms=())
    with pytest.raises(ParameterError, match="layers: is empty"):
        stream.sites(layers=())
    assert n_hooks(model) == before


def pad(texts, side, pad_id):
    width = max(map(len, texts))
    ids, mask = torch.full((len(texts), width), pad_id), torch.zeros(len(texts), width, dtype=torch.bool)
    for row, text in enumerate(texts):
        span = slice(0, len(text)) if side == "right" else slice(width - len(text), width)
        ids[row, span], mask[row, span] = text, True
    return ids, mask


def pooled(model, texts, side, pad_id=7):
    ids, mask = pad(texts, side, pad_id)
    states, last = record(model, lambda: forward(model, ids, mask), norms=BOTH)
    assert_close(states[Site(N_LAYERS, N_LAYERS, "final")], last, rtol=0, atol=0)
    return torch.stack([masked_mean(states[site], mask).float() for site in states])


def random_texts(lengths):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator) for length in lengths]


# What may differ is rounding: sums of another width may be taken in another order.
def assert_equal_to_rounding(states, expected):
    assert (states - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize(
    ("name", "side"),
    [(name, "right") for name in TEXT_NAMES]
    + [(name, "left") for name in TEXT_NAMES if name not in RECURRENT_NAMES],
)
def test_padding_changes_no_state(name, side):
    # Longer than the local window of ModernBERT, OLMo-3 and gpt-oss, which is 4.
    model, texts = tiny(name), random_texts((1, 5, 12, 3 * WINDOW + 5))
    alone = torch.cat([pooled(model, [text], side) for text in texts], dim=1)
    assert_equal_to_rounding(pooled(model, texts, side), alone)
    assert_equal_to_rounding(pooled(model, texts[::-1], side).flip(1), alone)


@pytest.mark.parametrize(
    ("name", "option"), [("modernbert", "local_attention"), ("gpt_oss", "sliding_window")]
)
def test_the_local_window_is_in_force(name, option):
    texts = random_texts((3 * WINDOW,))
    narrow, wide = (pooled(tiny(name, **{option: window}), texts, "right") for window in (WINDOW, 64))
    assert (narrow[-1] - wide[-1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", sorted(RECURRENT_NAMES))
def test_left_padding_of_a_recurrent_model_is_refused(name):
    model, texts = tiny(name, use_bias=True), random_texts((5, 12))
    with pytest.raises(ParameterError, match="pad its texts on the right"):
        pooled(model, texts, "left")
    ids, mask = pad(texts, "left", 7)
    with torch.no_grad():
        leaky = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state[0, -5:]
        right = forward(model, *pad(texts, "right", 7))[0, :5]
    # The reason for the refusal: the model's own masking lets its input bias through.
    assert (leaky - right).abs().max() > 1e-2


@pytest.mark.parametrize(("name", "room"), [("bert", 20), ("roberta", 19)])
def test_a_text_longer_than_the_position_table_is_refused(name, room):
    model = tiny(name, max_position_embeddings=20)
    pooled(model, random_texts((room,)), "right")
    with pytest.raises(ParameterError, match=f"max_tokens: a text has {room + 1} tokens, .* at most {room}"):
        pooled(model, random_texts((room + 1,)), "right")


class Blocks(nn.Module):
    def __init__(self, n_blocks, **norms):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=2)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]) for _ in range(n_blocks)
        )
        for name, norm in norms.items():
            self.add_module(name, norm)


def test_lists_inside_blocks_are_not_taken_for_the_blocks():
    stream = ResidualStream(Blocks(2, ln_f=nn.LayerNorm(2), embedding_norm=nn.LayerNorm(2)))
    assert stream.n_layers == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            nn.Linear(2, 2),
            r"Linear: looked for one ModuleList of num_hidden_layers = None blocks, found 0 \(no list",
        ),
        (Blocks(3), r"Blocks: .* = 2 blocks, found 0 \(layers of 3\)"),
        (Blocks(2, strange=nn.LayerNorm(2)), "Blocks: looked for one final norm named .*, found strange"),
        (Blocks(2, norm=nn.LayerNorm(2), ln_f=nn.LayerNorm(2)), "Blocks: .* found norm, ln_f"),
        (
            T5Model(T5Config(vocab_size=9, d_model=4, d_kv=2, d_ff=4, num_layers=2, num_heads=2)),
            r"T5Model: .* found 2 \(encoder.block of 2, decoder.block of 2\)",
        ),
    ],
)
def test_an_unknown_architecture_is_refused(model, message):
    with pytest.raises(ArchitectureError, match=message):
        ResidualStream(model)
