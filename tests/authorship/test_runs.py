"""Which runs a plan has, what is trained when it grows, and what a trained run gives back; on a random model."""

import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from accelerate import Accelerator
from datasets import concatenate_datasets

from readout.authorship import runs
from readout.authorship.runs import Plan, Training, last_weights, read_plan, write_plan
from readout.errors import AssetError, ParameterError
from readout.scorers import scorer_of

from .authored import backbone, spans_of, tokenizer

SPANS = spans_of()
FINGERPRINT = cache(runs.module_fingerprint)  # the code stays as it is while tests run


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A plan whose model is in a folder; checkpoints go to another."""
    backbone().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    monkeypatch.setattr(runs, "store", lambda: tmp_path / "checkpoints")
    monkeypatch.setattr(runs, "module_fingerprint", FINGERPRINT)
    return Plan(model=str(tmp_path / "model"), scorers=("mean", "li"), controls=("layerwise", "mean@0.05"))


def training(plan, spans=SPANS):
    return Training(plan, spans, Accelerator(cpu=True))


def train_all(plan):
    at = training(plan)
    return {run: at.train(*run).folder.name for run in plan.runs()}


def weights(module):
    return {name: each.clone() for name, each in module.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scorers": ("max",)}, "scorer 'max': expected mean"),
        ({"controls": ("li@warm",)}, "run 'li@warm': expected scorer@temperature"),
        ({"controls": ("li@",)}, "run 'li@': expected scorer@temperature"),
        ({"controls": ("li@0",)}, "run 'li@0': temperature 0.0 should be above 0"),
        ({"temperature": 0.0}, "temperature 0.0 should be above 0"),
        ({"scorers": ("li", "li")}, "name a run twice"),
        ({"controls": ("li@0.50",)}, "name a run twice"),
        ({"controls": ("mean@0.05", "mean@5e-2")}, "name a run twice"),
        ({"scorers": ()}, r"scorers = \[\]"),
        ({"seeds": ()}, r"seeds = \[\]"),
        ({"checkpoints": (0,)}, r"checkpoints = \[0\]: must end with n_steps = 2"),
        ({"checkpoints": (0, 2, 5)}, r"checkpoints: \[0, 2, 5\]"),
        ({"checkpoints": (2, 2)}, r"checkpoints: \[2, 2\]"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        Plan(**change)


def test_main_runs_have_every_seed_and_controls_the_first():
    plan = Plan(scorers=["li", "pli-2@0.1"], controls=["layerwise"], seeds=[3, 4])
    assert plan.runs() == [("li", 3), ("pli-2@0.1", 3), ("li", 4), ("pli-2@0.1", 4), ("layerwise", 3)]
    assert [plan.temperature_of(name) for name in plan.scorers] == [0.5, 0.1]
    assert (plan.kind("pli-2@0.1"), plan.scorer("pli-2@0.1")) == ("pli-2", scorer_of("pli-2"))
    assert plan.schedule(main=True).checkpoints == (0, 2)
    assert plan.schedule(main=False).checkpoints == (2,)


def test_a_plan_that_grows_by_a_name_trains_one_run(plan):
    before = train_all(plan)
    store = runs.store()
    written = {file: file.stat().st_mtime_ns for file in store.rglob("*.*") if file.name != ".lock"}
    after = train_all(replace(plan, controls=(*plan.controls, "pli-5")))
    assert {run: after[run] for run in before} == before
    assert {folder.name for folder in store.iterdir()} == {*before.values(), after["pli-5", 0]}
    assert len(set(after.values())) == 5
    assert {file: file.stat().st_mtime_ns for file in written} == written


def test_a_finished_run_is_not_trained_again(plan, monkeypatch):
    kept = training(plan).train("li")
    monkeypatch.setattr(runs, "fit", lambda *_, **__: pytest.fail("trains again"))
    again = training(plan).train("li")
    assert again.finished
    assert (again.sha256, again.losses) == (kept.sha256, kept.losses)


def test_encoders_are_those_of_their_step(plan):
    plan = replace(plan, seeds=(0, 1), head=True)
    at = training(plan)
    start, end = (at.encoder("li", 0, step) for step in (0, 2))
    assert equal(weights(start), weights(at.untrained("li", 0)))
    assert not equal(weights(start), weights(end))
    assert equal(weights(end), weights(at.encoder("li")))
    assert not equal(weights(end), weights(at.encoder("li", 1)))
    assert not end.training
    with pytest.raises(AssetError, match=r"step 0 was not kept; there are \[2\]"):
        at.encoder("li", 1, 0)  # only the first seed keeps all


def test_the_mixed_encoder_has_weights_of_layers(plan):
    at = training(plan)
    layerwise = at.encoder("layerwise")
    assert layerwise.mix is not None
    assert at.encoder("mean").mix is None
    assert not torch.allclose(layerwise.mix.weights, torch.full((3,), 1 / 3))


def test_training_leaves_the_pretrained_model_and_the_random_state_alone(plan):
    at = training(plan)
    before = weights(at.reader.model)
    state = torch.get_rng_state()
    at.train("mean")
    assert equal(weights(at.reader.model), before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "change", [{"temperature": 0.4}, {"learning_rate": 1e-3}, {"batch_size": 2}, {"max_tokens": 8}]
)
def test_what_decides_the_weights_decides_the_folder(plan, change):
    assert training(plan).train("li").folder != training(replace(plan, **change)).train("li").folder


def test_what_does_not_decide_the_weights_does_not(plan):
    folder = training(plan).train("li").folder
    assert training(replace(plan, resume_every=1, controls=())).train("li").folder == folder
    assert (
        training(plan, concatenate_datasets([SPANS, spans_of(config="base-4")])).train("li").folder == folder
    )
    assert training(plan, concatenate_datasets([SPANS, spans_of(split="test")])).train("li").folder == folder


@pytest.mark.parametrize(
    ("module", "decides"),
    [("readout.training.loop", True), ("readout.scorers.late", True), ("readout.sources.sotu", False)],
)
def test_code_that_trains_decides_too(plan, monkeypatch, module, decides):
    folder = training(plan).train("li").folder
    monkeypatch.setattr(runs, "module_fingerprint", lambda *of: FINGERPRINT(*of) | {module: "changed"})
    assert (training(plan).train("li").folder != folder) == decides


def test_a_run_by_its_temperature_is_the_run_of_a_plan_at_that_temperature(plan):
    named = replace(plan, scorers=("li@0.1",), controls=())
    assert training(named).train("li@0.1").folder == (
        training(replace(plan, temperature=0.1, controls=())).train("li").folder
    )


def test_weights_at_the_end_are_told_by_run(plan):
    found = last_weights(training(plan), [("li", 0), ("layerwise", 0)])
    assert found == {f"{name}, seed 0": training(plan).train(name).sha256[2] for name in ("li", "layerwise")}


def test_a_plan_is_left_for_later_stages(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "folders", lambda profile, stage: (tmp_path / profile / stage, tmp_path))
    assert read_plan("scratch") == Plan()
    with pytest.raises(ParameterError, match="run `dvc repro train_scorers@tiny` first"):
        read_plan("tiny")
    write_plan(plan, "tiny", {"li, seed 0": "abc"})
    assert read_plan("tiny") == plan
    assert json.loads((tmp_path / "tiny/train_scorers/plan.json").read_text())["runs"] == {
        "li, seed 0": "abc"
    }
