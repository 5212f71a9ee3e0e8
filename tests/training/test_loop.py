"""Checkpoints, resuming after a kill, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from readout.errors import AssetError, NonFiniteError, ParameterError
from readout.training import Checkpoints, Encoder, Schedule, fit

from .small import backbone, contrastive

ROOT = Path(__file__).resolve().parents[2]
SCHEDULE = Schedule(6, 1e-2, checkpoints=(0, 3, 6), resume_every=2)


def trained(folder, schedule=SCHEDULE, **options):
    encoder = Encoder(backbone(dropout=0.2))
    objective = contrastive(encoder, **options)
    kept = Checkpoints(folder, {"scorer": "li", "model": "small"})
    return encoder, fit(encoder, objective, schedule, kept, accelerator=Accelerator(cpu=True))


def test_checkpoints_are_safetensors_beside_json_and_nothing_else(tmp_path):
    encoder, kept = trained(tmp_path / "run")
    assert sorted(path.name for path in kept.folder.iterdir()) == [
        "run.json",
        *(f"step-00000{step}.safetensors" for step in (0, 3, 6)),
    ]
    assert len(kept.losses) == 6
    again = Checkpoints.read(kept.folder)
    assert again == kept
    fresh = Encoder(backbone(seed=5))
    again.load_into(fresh, scorer="li")
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), encoder.parameters(), strict=True))
    start = Encoder(backbone(dropout=0.2))
    for name, tensor in load_file(kept.path(0)).items():
        assert torch.equal(tensor, start.state_dict()[name])


def test_training_lowers_the_loss_of_a_batch_seen_again_and_again(tmp_path):
    _, kept = trained(tmp_path, n=4)
    assert kept.losses[-1] < 0.8 * kept.losses[0]


def test_the_same_seed_trains_the_same_bits_and_another_does_not(tmp_path):
    digests = [trained(tmp_path / str(i), seed=seed)[1].sha256 for i, seed in enumerate((0, 0, 1))]
    assert digests[0] == digests[1]
    assert digests[0][0] == digests[2][0]
    assert digests[0][6] != digests[2][6]


class Killed(Exception):
    pass


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_run_that_died_at_any_step_goes_on_to_the_same_bits(tmp_path, at, monkeypatch):
    _, whole = trained(tmp_path / "whole")
    encoder = Encoder(backbone(dropout=0.2))
    objective = contrastive(encoder)
    backward = objective.backward

    def dying(step):
        if step == at:
            raise Killed
        return backward(step)

    monkeypatch.setattr(objective, "backward", dying)
    kept = Checkpoints(tmp_path / "part", whole.spec)
    with pytest.raises(Killed):
        fit(encoder, objective, SCHEDULE, kept)
    _, resumed = trained(tmp_path / "part") if at < 2 else _resume(tmp_path / "part")
    assert resumed.sha256 == whole.sha256
    assert resumed.losses == whole.losses


def _resume(folder):
    encoder, done = Encoder(backbone(dropout=0.2, seed=9)), []
    objective = contrastive(encoder)
    backward = objective.backward
    objective.backward = lambda step: done.append(step) or backward(step)
    kept = fit(encoder, objective, SCHEDULE, Checkpoints.read(folder))
    assert 0 < len(done) < 6, "a resumed run must not start again"
    return encoder, kept


KILLABLE = """
import sys, time
from pathlib import Path
from tests.training.test_loop import *
encoder = Encoder(backbone(dropout=0.2))
objective = contrastive(encoder)
backward = objective.backward
def slow(step):
    time.sleep(0.05)
    return backward(step)
objective.backward = slow
folder = Path(sys.argv[1])
kept = Checkpoints(folder, {"scorer": "li", "model": "small"})
if (folder / "run.json").exists():
    kept = Checkpoints.read(folder)
print("started", flush=True)
fit(encoder, objective, SCHEDULE, kept)
"""


@pytest.mark.slow
def test_sigkill_at_random_points_leaves_what_an_undisturbed_run_leaves(tmp_path):
    _, whole = trained(tmp_path / "whole")
    script = tmp_path / "killable.py"
    script.write_text(KILLABLE)
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(tmp_path / "killed")]
    for delay in (0.12, 0.21, 0.33, None):
        process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "started\n"
        if delay is not None:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    killed = Checkpoints.read(tmp_path / "killed")
    assert killed.finished
    for step in (0, 3, 6):
        for name, tensor in load_file(whole.path(step)).items():
            torch.testing.assert_close(load_file(killed.path(step))[name], tensor, atol=1e-5, rtol=1e-4)


def test_checkpoints_that_cannot_be_trusted_are_refused(tmp_path):
    encoder, kept = trained(tmp_path / "run")
    with pytest.raises(AssetError, match="has scorer 'li', not 'mean'"):
        kept.load_into(encoder, scorer="mean")
    with pytest.raises(AssetError, match="has model 'small', not 'large'"):
        kept.load_into(encoder, model="large")
    with pytest.raises(AssetError, match=r"step 4 was not kept; there are \[0, 3, 6\]"):
        kept.load_into(encoder, 4)
    with pytest.raises(AssetError, match=r"does not fit: .* missing"):
        kept.load_into(Encoder(backbone(), mixed=True))
    tensors = load_file(kept.path(6))
    next(iter(tensors.values()))[0] += 1
    save_file(tensors, kept.path(6))
    with pytest.raises(AssetError, match="is missing or was changed"):
        kept.load_into(encoder, 6)
    kept.path(6).unlink()
    with pytest.raises(AssetError, match="is missing or was changed"):
        kept.load_into(encoder, 6)
    (kept.folder / "run.json").write_text("{")
    with pytest.raises(AssetError, match="no training run in"):
        Checkpoints.read(kept.folder)


def test_the_same_weights_at_two_steps_are_refused(tmp_path):
    encoder, kept = trained(tmp_path / "run")
    record = json.loads((kept.folder / "run.json").read_text())
    record["sha256"]["3"] = record["sha256"]["0"]
    (kept.folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(AssetError, match="steps 0 and 3 in 'run' hold the same weights"):
        Checkpoints.read(kept.folder).load_into(encoder, 6)
    still = Checkpoints(tmp_path / "still", {})
    still.save(0, encoder)
    with pytest.raises(AssetError, match="steps 0 and 5"):
        still.save(5, encoder)


def test_a_finished_run_is_left_alone(tmp_path):
    _, kept = trained(tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in kept.folder.iterdir()}
    objective = contrastive()
    objective.backward = None
    fit(objective.encoder, objective, SCHEDULE, Checkpoints.read(kept.folder))
    assert {path: path.stat().st_mtime_ns for path in kept.folder.iterdir()} == before


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_point(tmp_path):
    objective = contrastive()
    objective.backward = lambda step: 1.0 if step < 3 else float("nan")
    kept = Checkpoints(tmp_path / "run", {})
    schedule = Schedule(6, 1e-2, checkpoints=(6,), resume_every=2)
    with pytest.raises(NonFiniteError, match="loss at step 3 is nan"):
        fit(objective.encoder, objective, schedule, kept)
    assert (kept.folder / "resume.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_steps": 0}, "n_steps: 0"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0"),
        ({"checkpoints": (0, 7)}, r"checkpoints: \[0, 7\] should be different steps in 0..6"),
        ({"checkpoints": (3, 3)}, r"checkpoints: \[3, 3\]"),
        ({"checkpoints": ()}, r"checkpoints: \[\]"),
    ],
)
def test_a_schedule_out_of_range_is_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        Schedule(**{"n_steps": 6, "checkpoints": (6,)} | change)
