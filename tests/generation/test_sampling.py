import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from torch.testing import assert_close
from transformers import GenerationConfig, LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper
from transformers import TopPLogitsWarper as TopP

from readout.errors import ParameterError
from readout.generation.sampling import GREEDY, Sampling, uniform, uniforms

from ..states.tiny_models import tiny_with_head


def some_logits(n=5, vocabulary=40, seed=0):
    return 3 * torch.randn(n, vocabulary, generator=torch.Generator().manual_seed(seed))


@given(
    temperature=st.floats(0.2, 3),
    top_k=st.none() | st.integers(1, 60),
    top_p=st.floats(0.05, 1),
    seed=st.integers(0, 9),
)
def test_the_filters_are_those_of_transformers_on_the_whole_vocabulary(temperature, top_k, top_p, seed):
    logits = some_logits(seed=seed)
    warpers = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopP(top_p)] if top_p < 1 else []
    expected = LogitsProcessorList(warpers)(None, logits.double()).softmax(dim=1)
    assert_close(Sampling(temperature, top_k, top_p).probabilities(logits), expected, rtol=1e-12, atol=1e-15)


def test_greedy_takes_the_likeliest_token_whatever_the_number():
    logits = some_logits()
    for number in (0.0, 0.5, 1 - 2**-53):
        assert torch.equal(GREEDY.draw(logits, torch.full((5,), number).double()), logits.argmax(dim=1))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, 8, 0.9)])
def test_draws_follow_the_distribution(sampling):
    logits, n = some_logits(1, 12) / 3, 20_000
    numbers = torch.tensor([uniform(0, "one", token) for token in range(n)]).double()
    drawn = sampling.draw(logits.expand(n, -1), numbers).bincount(minlength=12)
    expected = sampling.probabilities(logits)[0] * n
    possible = expected > 0
    assert drawn[~possible].sum() == 0
    assert chisquare(drawn[possible].numpy(), expected[possible].numpy()).pvalue > 1e-3


@given(number=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 50), masked=st.integers(0, 11))
def test_a_token_of_probability_zero_is_never_drawn(number, seed, masked):
    logits = some_logits(1, 12, seed)
    logits[:, masked:] = -torch.inf if masked else 0.0
    token = Sampling().draw(logits, torch.tensor([number]).double())
    assert Sampling().probabilities(logits)[0, token] > 0


def test_numbers_belong_to_seed_sample_and_token_and_are_uniform():
    numbers = [uniform(seed, f"s{i}", t) for seed in (0, 1) for i in range(40) for t in range(1, 51)]
    assert len(set(numbers)) == len(numbers)
    assert 0 <= min(numbers) < max(numbers) < 1
    assert kstest(numbers, "uniform").pvalue > 1e-3
    assert uniforms(3, ["a", "b"], 2).tolist() == [uniform(3, "a", 2), uniform(3, "b", 2)]
    assert uniform(1, "2", 3) != uniform(12, "", 3)


def test_a_checkpoint_is_followed_and_what_it_leaves_out_is_filled_as_transformers_does():
    model = tiny_with_head("llama")
    assert Sampling.of_checkpoint(model) == Sampling(1.0, 50, 1.0)
    model.generation_config = GenerationConfig(do_sample=True, temperature=0.6, top_k=20, top_p=0.95)
    assert Sampling.of_checkpoint(model) == Sampling(0.6, 20, 0.95)
    model.generation_config = GenerationConfig(do_sample=True, top_k=0)
    assert Sampling.of_checkpoint(model).top_k is None
    model.generation_config = GenerationConfig(repetition_penalty=1.2)
    with pytest.raises(ParameterError, match=r"generation_config: repetition_penalty = 1.2 is not followed"):
        Sampling.of_checkpoint(model)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -0.1}, "temperature: -0.1"),
        ({"temperature": float("nan")}, "temperature: nan"),
        ({"top_k": 0}, "top_k: 0"),
        ({"top_p": 0.0}, r"top_p: 0.0"),
        ({"top_p": 1.1}, r"top_p: 1.1"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        Sampling(**wrong)
