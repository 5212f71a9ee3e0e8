"""Vectors from one reading against the encoder run by hand, text by text."""

import pytest
import torch
from torch.testing import assert_close

from readout.authorship.vectors import TokenVectors, content_flags, read_exits, read_vectors
from readout.errors import ParameterError
from readout.states import Site

from ..states.tiny_models import tiny
from .authored import encoder_of, ids_and_mask, spans_of, tokenizer

TEXTS = spans_of(1, 3)["text"][:]
OPTIONS = [{}, {"head": True}, {"mixed": True}, {"mixed": True, "head": True}]


def by_hand(encoder, text, max_tokens=128):
    with torch.no_grad():
        return encoder(*ids_and_mask(text, max_tokens))[0]


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_vectors_are_those_of_the_encoder(architecture, options):
    encoder = encoder_of(tiny(architecture), **options)
    vectors = read_vectors(encoder, tokenizer(), TEXTS)
    for text, found in zip(TEXTS, vectors.texts, strict=True):
        assert_close(found, by_hand(encoder, text), rtol=1e-4, atol=1e-4)
        assert not found.requires_grad


def test_sites_of_another_norm_are_passed_over():
    vectors = TokenVectors(encoder_of(), 1)
    for norm, value in (("final", 1.0), ("raw", 2.0)):
        states, real = torch.full((1, 1, 16), value), torch.tensor([[True]])
        vectors.update(Site(2, 2, norm), states, real, torch.tensor([0]))
    assert vectors.texts()[0].unique().tolist() == [1.0]


def test_long_texts_are_cut_and_counted():
    encoder = encoder_of()
    vectors = read_vectors(encoder, tokenizer(), TEXTS, max_tokens=6)
    assert {len(text) for text in vectors.texts} == {len(flags) for flags in vectors.content} == {6}
    assert vectors.reading.n_truncated == len(TEXTS)
    assert_close(vectors.texts[3], by_hand(encoder, TEXTS[3], 6))


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_early_exit_is_the_final_norm_and_the_head_on_an_inner_layer(layer):
    encoder = encoder_of(tiny("modernbert"), head=True)
    vectors = read_exits(encoder, tokenizer(), TEXTS, [3, layer])[1]
    model, inner = encoder.backbone, []
    place = model.layers[layer - 1] if layer else model.embeddings
    hook = place.register_forward_hook(
        lambda *call: inner.append(call[-1][0] if isinstance(call[-1], tuple) else call[-1])
    )
    with torch.no_grad():
        model(ids_and_mask(TEXTS[0])[0])
        want = encoder.head(model.final_norm(inner[0]))[0]
    hook.remove()
    assert_close(vectors.texts[0], want, rtol=1e-4, atol=1e-4)


def test_early_exit_of_a_mix_is_refused():
    with pytest.raises(ParameterError, match="exit_layer: 1, but this encoder mixes"):
        read_exits(encoder_of(mixed=True), tokenizer(), TEXTS, [1])


def test_padded_tokens_hold_the_texts_in_the_order_asked_for():
    vectors = read_vectors(encoder_of(), tokenizer(), TEXTS)
    tokens = vectors.tokens([4, 0])
    for row, index in enumerate([4, 0]):
        assert_close(tokens.states[row][tokens.mask[row]], vectors.texts[index])
        assert tokens.content[row][tokens.mask[row]].tolist() == vectors.content[index].tolist()
    assert len(vectors) == len(vectors.tokens()) == len(TEXTS)


def test_punctuation_alone_is_off_the_content():
    flags = content_flags(tokenizer(), ["w1 , w2 .", "w3"], max_tokens=5)
    assert [each.tolist() for each in flags] == [[True, True, False, True, True], [True, True, True]]
