"""A text cut to a model's reach is exactly what the tokenizer keeps of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from readout.authorship.cut import cut_to_tokens, token_lengths
from readout.errors import ParameterError

from .authored import tokenizer

WORDS = st.sampled_from(["w1", "w22", ",", "Unknown", ".", "\n", " "])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(texts=TEXTS, max_tokens=st.integers(3, 10))
def test_the_rest_of_a_text_is_the_tokens_that_are_kept(texts, max_tokens):
    words = tokenizer()
    short, n_cut = cut_to_tokens(texts, words, max_tokens)
    kept = words(texts, truncation=True, max_length=max_tokens)["input_ids"]
    assert words(short)["input_ids"] == kept
    assert n_cut == sum(len(ids) > max_tokens for ids in words(texts)["input_ids"])
    assert all(text.startswith(cut) and cut == cut.rstrip() for text, cut in zip(texts, short, strict=True))


def test_by_hand():
    texts = ["w1  w2, w3 w4", "w1 w2 \n", "  w1"]
    assert cut_to_tokens(texts, tokenizer(), 5) == (["w1  w2,", "w1 w2", "  w1"], 1)  # [CLS] and [SEP] count
    assert token_lengths(texts, tokenizer()) == [7, 4, 3]
    assert token_lengths([], tokenizer()) == []


def test_a_tokenizer_without_offsets_is_refused():
    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    with pytest.raises(ParameterError, match="Slow gives no offsets; load its fast version"):
        cut_to_tokens(["w1"], Slow(tokenizer_object=tokenizer().backend_tokenizer), 5)
