import pytest
import torch
from transformers import GenerationConfig

from readout import paths
from readout.errors import ParameterError, TextError, TooFewError
from readout.generation.prompts import ask
from readout.generation.sample import generate
from readout.generation.sampling import GREEDY, Sampling, uniform
from readout.sources.models import load_causal

from ..states.tiny_models import VOCABULARY, tiny, word_tokenizer

PRECISIONS = ["float32", "bfloat16"]
CAUSAL = ["llama", "qwen3", "gpt_neox", "olmo3", "gpt_oss"]
CAPTIONS = ["a red bicycle", "a station after being closed down in the snow", "a cat"]


def causal(name="llama", **changes):
    return tiny(name, "AutoModelForCausalLM", **changes)


def some_prompts(lengths=(5, 15, 16, 20, 3), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def names(prompts):
    return [f"s{i}" for i in range(len(prompts))]


def written(model, prompts, ids=None, tokenizer=None, **options):
    options = {"sampling": Sampling(top_k=50), "max_new_tokens": 12, "batch_size": 3} | options
    return generate(model, tokenizer or word_tokenizer(), prompts, ids=ids or names(prompts), **options)


def in_other_company(run, prompts):
    """Each sample alone, and all of them in reversed order, in halves, and among strangers."""
    ids = names(prompts)
    yield [run([prompt], [i])[0] for prompt, i in zip(prompts, ids, strict=True)]
    yield run(prompts[::-1], ids[::-1])[::-1]
    yield run(prompts[::2], ids[::2])[:1] + run(prompts[1:], ids[1:])
    strangers = [prompt[::-1] for prompt in prompts]
    yield run(strangers + prompts, [f"x{i}" for i in ids] + ids)[len(prompts) :]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["llama", "gpt_neox", "olmo3"])
def test_company_changes_no_token(name, precision):
    model, prompts = causal(name), some_prompts()
    expected = written(model, prompts, precision=precision)
    for again in in_other_company(lambda p, i: written(model, p, i, precision=precision), prompts):
        assert again == expected


@pytest.mark.parametrize("name", CAUSAL)
def test_seeds_share_the_prompt_and_change_nothing(name):
    model, prompts = causal(name), some_prompts()
    expected = [written(model, prompts, seed=seed) for seed in (3, 1, 2)]
    assert written(model, prompts, seed=(3, 1, 2)) == [sample for one in expected for sample in one]


@pytest.mark.assets
@pytest.mark.parametrize("precision", PRECISIONS)
def test_company_changes_no_token_of_the_real_model(precision):
    paths.root.cache_clear()
    reader = load_causal("smollm2-135m-instruct")
    prompts = [ask(reader.tokenizer, "imagine_see", caption).ids for caption in CAPTIONS]
    options = {"tokenizer": reader.tokenizer, "max_new_tokens": 5, "batch_size": 2, "precision": precision}
    expected = written(reader.model, prompts, **options)
    for again in in_other_company(lambda p, i: written(reader.model, p, i, **options), prompts):
        assert again == expected


def test_no_product_is_split_over_threads():
    """Where the split falls would show in a row's rounding; in a token only now and then."""
    model, before, seen = causal(), torch.get_num_threads(), set()
    model.register_forward_pre_hook(lambda module, args: seen.add(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        written(model, some_prompts())
        assert (seen, torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", CAUSAL)
def test_greedy_writes_what_transformers_writes(name):
    model = causal(name)
    for prompt, ours in zip(some_prompts(), written(model, some_prompts(), sampling=GREEDY), strict=True):
        given = torch.tensor([prompt])
        config = GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=2, pad_token_id=0)
        theirs = model.generate(given, attention_mask=torch.ones_like(given), generation_config=config)
        assert list(ours.tokens) == theirs[0, len(prompt) :].tolist()


def test_sampling_is_the_inverse_of_the_distribution_token_by_token():
    model, prompt, tokens = causal(), some_prompts()[0], []
    sampling = Sampling(0.8, 20, 0.9)
    for t in range(1, 9):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + tokens])).logits[:, -1]
        tokens += sampling.draw(logits, torch.tensor([uniform(5, "s0", t)]).double()).tolist()
    ours = written(model, [prompt], sampling=sampling, seed=5, max_new_tokens=8)[0]
    assert list(ours.tokens) == tokens[: ours.n_tokens]


def test_seed_and_id_decide_the_text_and_more_tokens_only_continue_it():
    model, prompts = causal(eos_token_id=None), some_prompts([5, 5])
    first, other = written(model, [prompts[0]] * 2)
    assert first.tokens != other.tokens
    assert written(model, [prompts[0]], seed=1)[0].tokens != first.tokens
    longer = written(model, [prompts[0]], max_new_tokens=20)[0]
    assert longer.tokens[:12] == first.tokens
    assert (first.n_tokens, first.n_content_tokens, first.stop) == (12, 12, "length")


def test_prompts_under_one_id_meet_the_same_random_numbers():
    model, (prompt, *_) = causal(), some_prompts()
    both = written(model, [prompt, prompt, prompt], ids=["a", "a", "b"])
    assert both[0] == both[1]
    assert both[0].tokens != both[2].tokens


def test_the_end_token_is_kept_and_ends_the_text():
    model, prompt = causal(), some_prompts()[0]
    free = written(causal(eos_token_id=None), [prompt], sampling=GREEDY)[0].tokens
    for place in (0, 4):
        model.generation_config.eos_token_id = [free[place], 98]
        sample = written(model, [prompt], sampling=GREEDY)[0]
        end = free.index(free[place])
        assert (sample.tokens, sample.stop, sample.n_content_tokens) == (free[: end + 1], "eos", end)
        assert sample.text == word_tokenizer().decode(list(free[:end]))


def test_what_cannot_be_written_is_refused_before_the_model_runs():
    model = causal(max_position_embeddings=30)
    model.forward = None
    cases = [
        (TooFewError, "prompts: is empty", [], {}),
        (TextError, "prompts: that of 's0' has no token", [[]], {}),
        (ParameterError, "prompts: that of 's1' has 19 tokens; .* at most 18", [[3], [3] * 19], {}),
        (ParameterError, "ids: 1 for 2 prompts", [[3], [3]], {"ids": ["a"]}),
        (ParameterError, "max_new_tokens: 0 should be at least 1", [[3]], {"max_new_tokens": 0}),
        (ParameterError, "token id 99", [[99]], {}),
    ]
    for error, message, prompts, options in cases:
        with pytest.raises(error, match=message):
            written(model, prompts, **options)
