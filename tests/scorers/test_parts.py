"""The skip list, head, mix and loss."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from readout.errors import ParameterError, TooFewError
from readout.scorers import Head, ScalarMix, infonce_loss, skip_list


def test_skip_list_of_word_pieces():
    words = ["[PAD]", "[CLS]", "***", "[UNK]", ",", "##-", "...", "a", "##b", "1", "“", "!?"]
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", cls_token="[CLS]", sep_token="***", unk_token="[UNK]"
    )
    skipped = {word for word, skip in zip(words, skip_list(tokenizer).tolist(), strict=True) if skip}
    assert skipped == {",", "##-", "...", "!?"}  # “ is no ASCII, *** is special


def test_skip_list_of_bytes():
    from tokenizers import decoders

    words = ["<s>", "Ġ", "Ġ,", ".", "Ġthe", "Ċ", "it", "Ġ!"]
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>")
    skipped = {word for word, skip in zip(words, skip_list(tokenizer).tolist(), strict=True) if skip}
    assert skipped == {"Ġ", "Ġ,", ".", "Ċ", "Ġ!"}


@pytest.mark.assets
def test_skip_list_of_the_real_encoder():
    from readout.sources.models import load_model

    tokenizer = load_model("all-minilm-l6-v2").tokenizer
    ids = tokenizer("Well, it is - so!")["input_ids"]
    skipped = [tokenizer.convert_ids_to_tokens(i) for i in ids if skip_list(tokenizer)[i]]
    assert skipped == [",", "-", "!"]


def test_head_is_two_linear_layers_with_a_relu_between():
    head = Head(3, hidden=5).eval()
    first, second = head.layers[1], head.layers[3]
    x = torch.randn(2, 4, 3)
    by_hand = (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias
    torch.testing.assert_close(head(x), by_hand)
    assert Head(3).layers[1].out_features == 12
    assert head.layers[0].p == 0.1


def test_mix_starts_as_the_mean_and_follows_its_weights():
    mix = ScalarMix(3)
    states = torch.randn(3, 2, 4, 5)
    torch.testing.assert_close(mix(list(states)), states.mean(0))
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.0, math.log(2), math.log(3)]))
        mix.scale.fill_(2.0)
    shares = torch.tensor([1, 2, 3]) / 6
    torch.testing.assert_close(mix.weights, shares)
    torch.testing.assert_close(mix(list(states)), 2 * torch.einsum("l,ltsd->tsd", shares, states))
    with pytest.raises(ParameterError, match="states: of 2 sites; this mix has 3"):
        mix(list(states[:2]))


def test_loss_by_hand():
    scores = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
    target = torch.tensor([0, 1])
    first = -math.log(math.exp(2) / (math.exp(2) + 1 + math.exp(6)))
    second = -math.log(math.exp(4) / (1 + math.exp(4) + math.exp(2)))
    assert infonce_loss(scores, target, 0.5).item() == pytest.approx((first + second) / 2)
    excluded = torch.tensor([[False, False, True], [False, False, False]])
    without = -math.log(math.exp(2) / (math.exp(2) + 1))
    assert infonce_loss(scores, target, 0.5, excluded).item() == pytest.approx((without + second) / 2)


@given(st.integers(2, 6), st.floats(0.01, 5))
def test_equal_scores_cost_the_log_of_the_candidates(n, temperature):
    assert infonce_loss(torch.zeros(1, n), torch.tensor([1]), temperature).item() == pytest.approx(
        math.log(n)
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_cannot_divide_is_refused(temperature):
    with pytest.raises(ParameterError, match="temperature: "):
        infonce_loss(torch.zeros(1, 2), torch.tensor([0]), temperature)


def test_a_query_without_a_negative_is_refused():
    with pytest.raises(TooFewError, match="query 1 has no negative"):
        infonce_loss(
            torch.zeros(2, 2), torch.tensor([0, 0]), 1.0, torch.tensor([[False, False], [False, True]])
        )
