import re

import pytest
import torch
from tokenizers import normalizers
from torch import nn
from torch.testing import assert_close

from readout.errors import NonFiniteError, ParameterError, TextError, TooFewError
from readout.states import KeepTokens, Pool, Reading, Site, first_token, last_token, masked_mean, read
from readout.states.read import resolve_precision

from .tiny_models import (
    DIM,
    N_LAYERS,
    TEXT_NAMES,
    VOCABULARY,
    WINDOW,
    tiny,
    tiny_with_head,
    word_texts,
    word_tokenizer,
)

TEXTS = word_texts((3, 1, 3 * WINDOW + 2, 7, 5, 12))
BOTH = ("raw", "final")


class Spy:
    def __init__(self):
        self.calls = []

    def update(self, site, states, mask, rows):
        product = states.reshape(-1, DIM) @ torch.ones(DIM, 1)
        self.calls.append((site, states.dtype, product.dtype, tuple(mask.shape), rows.tolist()))


def means(model, texts, tokenizer=None, **options):
    pool = Pool(masked_mean, n_texts=len(texts))
    read(model, tokenizer or word_tokenizer(), texts, [pool], norms=BOTH, **options)
    return torch.cat([pool.states(norm) for norm in BOTH])


def assert_equal_to_rounding(states, expected):
    assert (states - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_batch_size_and_order_change_nothing(name):
    model, reverse = tiny(name), TEXTS[::-1]
    one_by_one = means(model, TEXTS, batch_size=1)
    assert one_by_one.shape == (2 * (N_LAYERS + 1), len(TEXTS), DIM)
    assert_equal_to_rounding(means(model, TEXTS, batch_size=4), one_by_one)
    assert_equal_to_rounding(means(model, reverse, batch_size=6).flip(1), one_by_one)


@pytest.mark.parametrize("name", ["roberta", "gpt_neox", "mamba"])
def test_every_token_is_what_the_model_gives_for_the_text_alone(name):
    model, tokenizer = tiny(name), word_tokenizer(special=True)
    keep = KeepTokens(n_texts=len(TEXTS))
    poolings = {pooling: Pool(pooling, len(TEXTS)) for pooling in (first_token, last_token)}
    read(model, tokenizer, TEXTS, [keep, *poolings.values()], norms=("final",), batch_size=4)
    final = Site(N_LAYERS, N_LAYERS, "final")
    for row, text in enumerate(TEXTS):
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0]
        assert_close(keep.states(final)[row], alone, rtol=1e-5, atol=1e-5)
        assert_close(poolings[first_token].states("final")[-1, row], alone[0], rtol=1e-5, atol=1e-5)
        assert_close(poolings[last_token].states("final")[-1, row], alone[-1], rtol=1e-5, atol=1e-5)


def test_texts_are_read_longest_first_each_site_once_per_batch():
    spy = Spy()
    reading = read(tiny("llama"), word_tokenizer(), TEXTS, [spy], layers=(0, 3), norms=BOTH, batch_size=4)
    assert reading == Reading(n_texts=6, n_tokens=42, n_truncated=0, precision="float32")
    names = ["embedding", "embedding, normed", "block 3", "final"]
    assert [(call[0].name, *call[3:]) for call in spy.calls] == [
        (name, (4, 14), [2, 5, 3, 4]) for name in names
    ] + [(name, (2, 3), [0, 1]) for name in names]


def test_the_head_is_not_run_and_its_model_reads_the_same():
    model = tiny_with_head("gpt_neox")
    model.get_output_embeddings().register_forward_hook(lambda *_: pytest.fail("the head ran"))
    assert_close(means(model, TEXTS), means(model.base_model, TEXTS), rtol=0, atol=0)


def test_long_texts_are_cut_as_the_tokenizer_cuts_and_counted():
    model, tokenizer, texts = tiny("bert"), word_tokenizer(special=True), word_texts((3, 4, 9))
    keep = KeepTokens(n_texts=3)
    reading = read(model, tokenizer, texts, [keep], max_tokens=6, layers=(0,))
    assert reading == Reading(n_texts=3, n_tokens=5 + 6 + 6, n_truncated=1, precision="float32")
    cut = " ".join(texts[2].split()[:4])
    whole = KeepTokens(n_texts=1)
    read(model, tokenizer, [cut], [whole], layers=(0,))
    assert_close(keep.states(Site(0, N_LAYERS))[2], whole.states(Site(0, N_LAYERS))[0])


@pytest.mark.parametrize("names", [{"pad_token": "w50"}, {"eos_token": "w60"}, {"padding_side": "left"}])
def test_the_padding_token_and_side_of_the_tokenizer_do_not_matter(names):
    model = tiny("roberta")
    expected = means(model, TEXTS)
    assert_close(means(model, TEXTS, word_tokenizer(**names)), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, TooFewError, "texts: is empty"),
        ("w3 w4", {}, ParameterError, "texts: is one string"),
        (["w3", ""], {}, TextError, "texts[1]: '' is empty"),
        (["w3", "w4", " \n\t"], {}, TextError, "texts[2]: ' \\n\\t' is empty"),
        (
            ["w3", "w4 w5"],
            {"max_tokens": 2},
            TextError,
            "texts[0]: 'w3' gives no token but special ones in 2",
        ),
        (["w3"], {"max_tokens": 0}, ParameterError, "max_tokens: 0 should be at least 1"),
        (["w3"], {"batch_size": -1}, ParameterError, "batch_size: -1 should be at least 1"),
        (["w3"], {"layers": (7,)}, ParameterError, "layer: 7 is not in 0..3"),
        (["w3 " * 100], {}, ParameterError, "max_tokens: a text has 102 tokens, BertModel takes at most 64"),
    ],
)
def test_bad_input_is_refused_before_the_model_runs(texts, options, error, message):
    model = tiny("bert", max_position_embeddings=64)
    model.embeddings.register_forward_hook(lambda *_: pytest.fail("the model ran"))
    with pytest.raises(error, match=re.escape(message)) as raised:
        read(model, word_tokenizer(special=True), texts, [], **options)
    assert "\n" not in str(raised.value)


def test_another_model_s_tokenizer_is_refused():
    with pytest.raises(ParameterError, match="token id 98, but the model knows ids below 50"):
        read(tiny("bert", vocab_size=50), word_tokenizer(), [f"w{VOCABULARY - 1}"], [])


def test_a_text_without_a_token_is_named():
    tokenizer = word_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("blank", "")
    with pytest.raises(TextError, match=r"texts\[1\]: 'blank' gives no token"):
        read(tiny("bert"), tokenizer, ["w3", "blank"], [])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_states_that_are_not_finite_are_named(value):
    model = tiny("llama")
    model.layers[1].mlp.down_proj.weight.data[3, 3] = value
    with pytest.raises(NonFiniteError, match="states: block 2 holds NaN"):
        read(model, word_tokenizer(), TEXTS, [])


def test_what_stands_in_the_padding_may_be_anything():
    model = tiny("gpt_neox")
    expected = means(model, TEXTS[:2])

    def spoil(block, args, output):
        output[1, 1:] = torch.nan

    model.layers[-1].register_forward_hook(spoil)
    assert_equal_to_rounding(means(model, TEXTS[:2]), expected)


def test_the_model_s_modes_come_back_even_after_an_error():
    model = tiny("bert", hidden_dropout_prob=0.5)
    expected = means(model, TEXTS)
    model.train()
    model.encoder.layer[0].eval()
    assert_close(means(model, TEXTS), expected, rtol=0, atol=0)
    model.encoder.layer[2].output.dense.weight.data.fill_(torch.nan)
    with pytest.raises(NonFiniteError):
        means(model, TEXTS)
    assert model.training
    assert [layer.training for layer in model.encoder.layer] == [False, True, True]
    assert torch.is_grad_enabled()


def test_a_probe_can_be_trained_on_what_a_consumer_kept():
    class Keep:
        def update(self, site, states, mask, rows):
            self.states = states

    keep, probe = Keep(), nn.Linear(DIM, 1)
    read(tiny("bert"), word_tokenizer(), TEXTS, [keep])
    probe(keep.states).sum().backward()
    assert_close(probe.weight.grad[0], keep.states.sum(dim=(0, 1)))


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_bfloat16_keeps_the_residual_stream_and_the_consumers_in_float32(name):
    model, spy = tiny(name), Spy()
    assert read(model, word_tokenizer(), TEXTS, [spy], precision="bfloat16").precision == "bfloat16"
    assert {call[1:3] for call in spy.calls} == {(torch.float32, torch.float32)}
    exact, rounded = means(model, TEXTS), means(model, TEXTS, precision="bfloat16")
    assert_close(rounded[0], exact[0])
    error = (rounded - exact).norm() / exact.norm()
    assert 1e-5 < error < 0.05


def test_auto_follows_the_processor(monkeypatch):
    model = tiny("bert")
    for native, expected in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda native=native: native)
        assert resolve_precision("auto", model) == expected
    with pytest.raises(ParameterError, match="precision: 'half' is not one of"):
        resolve_precision("half", model)


def test_float32_of_a_half_precision_model_is_refused():
    model = tiny("llama").bfloat16()
    with pytest.raises(ParameterError, match=r"'float32', but the weights are torch\.bfloat16"):
        means(model, TEXTS)
    assert means(model, TEXTS, precision="bfloat16").dtype == torch.float32


def test_progress_goes_to_stderr_and_can_be_turned_off(capsys, monkeypatch):
    model = tiny("bert")
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    means(model, TEXTS, progress=True)
    shown = capsys.readouterr()
    assert "/42" in shown.err
    assert not shown.out
    means(model, TEXTS)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    means(model, TEXTS, progress=True)
    assert not capsys.readouterr().err
