import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from readout.errors import ArchitectureError, ParameterError
from readout.generation.attention import attention_pooled
from readout.generation.collect import POOLINGS, Pooled, SegmentStates, repeat_padded_mean
from readout.generation.forced import read_generated, read_predicting
from readout.generation.sample import Generated
from readout.states import Site

from ..states.tiny_models import N_LAYERS, VOCABULARY, tiny

SITE = Site(1, 1)
DIM = 3
PARTS = [(5, 2), (1, 4), (3, 1)]


def some_texts(parts=PARTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(3, VOCABULARY, (sum(part),), generator=generator).tolist() for part in parts]
    prompts = [text[:n] for text, (n, _) in zip(ids, parts, strict=True)]
    samples = [
        Generated(str(i), 0, tuple(text[n:]), "", "length")
        for i, (text, (n, _)) in enumerate(zip(ids, parts, strict=True))
    ]
    return samples, prompts


def one_by_one(model, samples, prompts):
    """The final states of each whole text, unpadded."""
    with torch.no_grad():
        for sample, prompt in zip(samples, prompts, strict=True):
            ids = torch.tensor([[*prompt, *sample.tokens]])
            yield model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "olmo3"])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(("read", "shift"), [(read_generated, 0), (read_predicting, 1)])
def test_each_generated_token_has_the_state_of_its_convention(name, batch_size, read, shift):
    model, (samples, prompts) = tiny(name, "AutoModelForCausalLM"), some_texts()
    kept = SegmentStates(len(samples), 4)
    read(model, samples, prompts, [kept], layers=[N_LAYERS], batch_size=batch_size)
    (site,) = kept.sites()
    for row, states in enumerate(one_by_one(model, samples, prompts)):
        start, n = len(prompts[row]) - shift, samples[row].n_tokens
        assert_close(kept.states(site)[row, :n], states[start : start + n], rtol=1e-4, atol=1e-5)
        assert not kept.states(site)[row, n:].any()
    assert kept.mask.sum(dim=1).tolist() == [sample.n_tokens for sample in samples]


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "olmo3", "gpt_oss", "mamba"])
@pytest.mark.parametrize("batch_size", [1, 2, 8])
@pytest.mark.parametrize(("read", "shift"), [(read_generated, 0), (read_predicting, 1)])
def test_samples_of_one_prompt_share_it_and_have_the_states_of_one_pass(name, batch_size, read, shift):
    model, (samples, prompts) = tiny(name, "AutoModelForCausalLM"), some_texts()
    prompts = [prompts[0], prompts[1], prompts[0]]
    kept, pooled = SegmentStates(3, 4), Pooled([(0, 1)] * 3)
    read(model, samples, prompts, [kept, pooled], norms=("raw",), layers=[1], batch_size=batch_size)
    (site,) = kept.sites()
    for row, (sample, prompt) in enumerate(zip(samples, prompts, strict=True)):
        alone, alone_pooled = SegmentStates(1, 4), Pooled([(0, 1)])
        read(model, [sample], [prompt], [alone, alone_pooled], norms=("raw",), layers=[1])
        assert_close(kept.states(site)[row], alone.states(site)[0], rtol=1e-4, atol=1e-5)
        for pooling in POOLINGS:
            found = pooled.states(site, pooling)[row]
            assert_close(found, alone_pooled.states(site, pooling)[0], rtol=1e-4, atol=1e-5)


def test_attention_pooling_is_the_same_where_prompts_are_shared():
    model, (samples, prompts) = tiny("llama", "AutoModelForCausalLM"), some_texts()
    prompts = [prompts[0], prompts[1], prompts[0]]
    alone = [attention_pooled(model, [s], [p])[0] for s, p in zip(samples, prompts, strict=True)]
    assert_close(attention_pooled(model, samples, prompts), torch.stack(alone), rtol=1e-4, atol=1e-5)


def test_the_state_that_predicts_gives_the_models_next_token():
    model, (samples, prompts) = tiny("llama", "AutoModelForCausalLM"), some_texts()
    kept = SegmentStates(len(samples), 4)
    read_predicting(model, samples, prompts, [kept], layers=[N_LAYERS])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompts[0]])).logits[0, -1]
        ours = model.lm_head(kept.states(kept.sites()[0])[0, 0])
    assert_close(ours, logits, rtol=1e-4, atol=1e-4)


def padded(texts, parts, side, extra):
    """States, prompt mask and generated mask; padding holds NaN, so that reading any of it shows."""
    width = max(map(len, texts)) + extra
    states = torch.full((len(texts), width, DIM), torch.nan)
    prompt, generated = torch.zeros(2, len(texts), width, dtype=torch.bool)
    for row, (text, (n, _)) in enumerate(zip(texts, parts, strict=True)):
        start = {"right": 0, "left": width - len(text), "both": (width - len(text)) // 2}[side]
        states[row, start : start + len(text)] = text
        prompt[row, start : start + n] = True
        generated[row, start + n : start + len(text)] = True
    return states, prompt, generated


@settings(deadline=None)
@given(
    parts=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4),
    side=st.sampled_from(["left", "right", "both"]),
    extra=st.integers(0, 3),
    data=st.data(),
)
def test_padding_moves_nothing(parts, side, extra, data):
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randn(sum(part), DIM, generator=generator) for part in parts]
    captions = [
        (start := data.draw(st.integers(0, n - 1)), data.draw(st.integers(start + 1, n))) for n, _ in parts
    ]
    pooled, kept = Pooled(captions), SegmentStates(len(parts), 5, torch.float64)
    order = data.draw(st.permutations(range(len(parts))))
    for rows in (order[::2], order[1::2]):
        if rows:
            batch = padded([texts[row] for row in rows], [parts[row] for row in rows], side, extra)
            for consumer in (pooled, kept):
                consumer.update(SITE, *batch, torch.tensor(rows))
    for row, (text, (n, _), (a, b)) in enumerate(zip(texts, parts, captions, strict=True)):
        expected = {
            "prompt_mean": text[:n].double().mean(dim=0).float(),
            "caption_mean": text[a:b].double().mean(dim=0).float(),
            "prompt_last": text[n - 1],
            "generated_mean": text[n:].double().mean(dim=0).float(),
            "generated_last": text[-1],
            "generated_max": text[n:].max(dim=0).values,
        }
        assert set(expected) == set(POOLINGS)
        for name, vector in expected.items():
            assert_close(pooled.states(SITE, name)[row], vector, rtol=1e-6, atol=1e-6)
        assert_close(kept.states(SITE)[row, : len(text) - n], text[n:].double())
    assert pooled.sites() == kept.sites() == [SITE]


def test_the_published_mean_repeats_the_last_state():
    text = torch.tensor([[1.0, 4.0], [3.0, 0.0]])
    published = torch.cat([text, text[-1:].expand(5, -1)]).mean(dim=0)
    ours = repeat_padded_mean(text.mean(dim=0)[None], text[-1:], torch.tensor([2]), 7)
    assert_close(ours[0], published)


def test_states_are_kept_at_the_layers_and_in_the_dtype_that_were_asked_for():
    kept = SegmentStates(1, 2, torch.bfloat16, layers=[1])
    mask = torch.tensor([[False, True, True]])
    for layer in (0, 1):
        kept.update(Site(layer, 1), torch.randn(1, 3, DIM), ~mask, mask, torch.tensor([0]))
    assert kept.sites() == [Site(1, 1)]
    assert kept.states(Site(1, 1)).dtype == torch.bfloat16
    with pytest.raises(ParameterError, match=r"site: embedding was not kept; kept were \['block 1'\]"):
        kept.states(Site(0, 1))
    with pytest.raises(ParameterError, match="n_tokens: 2, but a text has 3 generated tokens"):
        kept.update(Site(1, 1), torch.randn(1, 3, DIM), mask & ~mask, mask | ~mask, torch.tensor([0]))


def test_wrong_names_and_unpaired_samples_are_refused():
    samples, prompts = some_texts()
    with pytest.raises(ParameterError, match="samples: 3 for 2 prompts"):
        read_generated(tiny("llama"), samples, prompts[:2], [])
    with pytest.raises(ParameterError, match="pooling: 'mean' is not one of prompt_mean"):
        Pooled([(0, 1)]).states(SITE, "mean")


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gpt_oss"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_attention_pooling_is_the_last_tokens_attention_over_the_generation(name, batch_size):
    model, (samples, prompts) = tiny(name, "AutoModelForCausalLM"), some_texts()
    before = model.config._attn_implementation
    ours = attention_pooled(model, samples, prompts, batch_size=batch_size)
    assert model.config._attn_implementation == before
    model.set_attn_implementation("eager")
    for row, (sample, prompt) in enumerate(zip(samples, prompts, strict=True)):
        ids = torch.tensor([[*prompt, *sample.tokens]])
        with torch.no_grad():
            out = model.base_model(input_ids=ids, output_attentions=True, use_cache=False)
        weights = out.attentions[-1][0, :, -1, len(prompt) :].mean(dim=0)
        expected = (weights / weights.sum()) @ out.last_hidden_state[0, len(prompt) :]
        assert_close(ours[row], expected, rtol=1e-4, atol=1e-5)


def test_a_model_without_attention_in_its_last_block_is_refused():
    with pytest.raises(ArchitectureError, match="looked for one attention in the last block, found 0"):
        attention_pooled(tiny("mamba", "AutoModelForCausalLM"), *some_texts())
