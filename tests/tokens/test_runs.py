"""A study on a tiny random model: what is written is kept, what is given is read, and nothing is done twice."""

import pytest
import torch

from readout.errors import ParameterError
from readout.generation import shards
from readout.generation.sample import generate
from readout.sources.models import Reader
from readout.tokens.domains import Domain, load_domain, save_domain
from readout.tokens.runs import CONTROLS, RECALL, Plan, Study, common

from ..states.tiny_models import N_LAYERS, tiny, word_texts, word_tokenizer


@pytest.fixture
def study(tmp_path):
    study = Study(Plan(layers=(1,), max_new_tokens=6, batch_size=4, n_captions=5), tmp_path)
    # In place of the checkpoint that the plan names.
    study.__dict__["reader"] = Reader(
        "tiny", tiny("llama", "AutoModelForCausalLM"), word_tokenizer(), "digest", N_LAYERS, "random"
    )
    return study


def domain(n=5):
    targets = {"image": torch.randn(n, 3, generator=torch.Generator().manual_seed(0))}
    return Domain(
        "captions", [f"c{i}" for i in range(n)], word_texts([2, 3, 4, 5, 6][:n]), "caption", targets
    )


def test_what_is_written_is_not_written_again(study, monkeypatch):
    first = study.all_seeds(domain())
    monkeypatch.setattr(shards, "generate", None)
    again = study.all_seeds(domain())
    assert [one.tokens for one in first] == [one.tokens for one in again]
    assert first[0].tokens != first[1].tokens, "seeds differ"
    few = study.written(domain().take([3, 1]), seed=0)
    assert few.tokens == [first[0].tokens[3], first[0].tokens[1]], "in the order that was asked for"
    assert torch.equal(few.states(study.final), first[0].states(study.final)[[3, 1]])


def test_given_continuations_are_read_and_not_written(study, monkeypatch):
    monkeypatch.setattr(shards, "generate", None)
    texts = [[7, 8, 9]] * 5
    found = study.read(domain(), {"given": texts, "other": [[9]] * 5})
    read = found["given"]
    assert read.tokens == texts
    assert found["other"].tokens == [[9]] * 5
    bare = study.read(domain(), {"bare": texts}, bare=True)["bare"]
    states = bare.states(study.final)[:, :3]
    assert torch.allclose(states[0], states[4], atol=1e-5), (
        "without a prompt, the same text has the same states"
    )
    assert not torch.allclose(read.states(study.final)[0, 0], read.states(study.final)[4, 0], atol=1e-3)


def test_an_injected_phrase_begins_what_is_kept(study):
    begun = [[5, 6], [5], [6], [7], [8]]
    phrase = study.reader.tokenizer(f" {RECALL}", add_special_tokens=False)["input_ids"]
    found = study.injected(domain(), (RECALL, *CONTROLS), begun, n_after=2, seed=1)
    assert [tokens[: len(phrase)] for tokens in found[RECALL].tokens] == [phrase] * 5
    assert study.phrase_lengths[RECALL] == len(phrase)
    led = [(*p.ids, *b, *phrase) for p, b in zip(study.prompts(domain()), begun, strict=True)]
    options = {"sampling": study.sampling, "seed": 1, "max_new_tokens": 2, "batch_size": 4}
    model, tokenizer, ids = study.reader.model, study.reader.tokenizer, domain().ids
    expected = [list(one.tokens) for one in generate(model, tokenizer, led, ids=ids, **options)]
    assert [tokens[len(phrase) :] for tokens in found[RECALL].tokens] == expected


def test_the_echo_is_the_items_own_text_over_and_over_and_is_read_along(study, monkeypatch):
    written = study.all_seeds(domain())
    monkeypatch.setattr(shards, "read_generated", None)
    echo = study.echo(domain())
    own = study.reader.tokenizer(f" {domain().texts[0]}", add_special_tokens=False)["input_ids"]
    assert echo.tokens[0] == (own * 6)[:6]
    one = study.answers(domain(), written[1], "image", common(written), echo=echo)
    assert torch.equal(one.pooled["prompt echo"], echo.pooled(study.final, "generated_mean").double())


def test_answers_leave_out_what_stopped_at_once(study, monkeypatch):
    written = study.written(domain(), seed=0)
    table = written.table
    table.loc[2, "n_content_tokens"] = 0
    written.__dict__["table"] = table
    one = study.answers(domain(), written, "image")
    assert len(one) == 4
    assert one.tokens.shape[:2] == one.mask.shape
    assert common([written, study.written(domain(), seed=1)]).tolist() == [True, True, False, True, True]


def test_a_domain_is_kept_with_its_targets_in_order(tmp_path):
    kept = Domain(
        "problems", ["a"], ["t"], "math_solve", {"z": torch.ones(1, 2), "a": torch.zeros(1, 1)}, "none"
    )
    save_domain(kept, tmp_path / "d.safetensors")
    back = load_domain(tmp_path / "d.safetensors")
    assert (back.ids, back.texts, list(back.targets), back.left_out) == (["a"], ["t"], ["z", "a"], "none")
    assert back.worded("long", ["u"]).texts == ["u"]


def test_bad_input_is_named(study):
    with pytest.raises(ParameterError, match="domain 'music'"):
        study.domain("music")
    with pytest.raises(ParameterError, match=r"are of \[1, 2\] items"):
        Domain("x", ["a", "b"], ["t"], "caption", {})
    with pytest.raises(ParameterError, match="prompt 'sing'"):
        Domain("x", ["a"], ["t"], "sing", {})
    with pytest.raises(ParameterError, match=r"seeds = \[0, 0\]"):
        Plan(seeds=[0, 0])
