"""The gradient of the whole batch, however it is cut into chunks or dealt to processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from readout.errors import ParameterError, TextError, TooFewError
from readout.scorers import Tokens, infonce_loss, scorer_of
from readout.training import Encoder, TripletBatches

from .small import backbone, contrastive, tokenizer, triplets

HERE = Path(__file__).parent
SCORERS = ("mean", "li", "pli-2")


def gradient(objective, step=1):
    objective.encoder.zero_grad()
    objective.encoder.train()
    loss = objective.backward(step)
    return loss, {name: p.grad.clone() for name, p in objective.encoder.named_parameters()}


def directly(objective, step=1):
    """The loss of the step with one graph from the token ids to the end, its candidates listed by hand."""
    batches, encoder = objective.triplets, objective.encoder
    encoder.zero_grad()
    encoder.train()
    rows = batches.rows(step, objective.batch_size)
    tokens = []
    for part in range(3):
        padded = batches.padded([(part, row) for row in rows])
        tokens.append(Tokens(encoder(padded.input_ids, padded.mask), padded.mask, padded.content))
    scores = objective.scorer.score(tokens[0], Tokens.cat(tokens[1:]))
    target = torch.arange(len(rows))
    own = [batches.sets[0, row] for row in rows]
    keys = [batches.sets[part, row] for part in (1, 2) for row in rows]
    excluded = torch.tensor(
        [[bool(a == b) and k != q for k, b in enumerate(keys)] for q, a in enumerate(own)]
    )
    loss = infonce_loss(scores, target, objective.temperature, excluded)
    loss.backward()
    return float(loss.detach()), {name: p.grad.clone() for name, p in encoder.named_parameters()}


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_chunks_change_neither_candidates_nor_gradient(scorer, chunks):
    objective = contrastive(scorer=scorer, chunks=chunks)
    loss, grads = gradient(objective)
    expected, by_hand = directly(objective)
    assert loss == pytest.approx(expected, rel=1e-5)
    scale = max(float(g.abs().max()) for g in by_hand.values())
    for name, grad in grads.items():
        torch.testing.assert_close(grad, by_hand[name], atol=1e-5 * scale, rtol=1e-4, msg=name)


def test_with_dropout_the_second_forward_of_a_chunk_drops_the_same_units():
    encoder = Encoder(backbone(dropout=0.3), head=True)
    objective = contrastive(encoder, chunks=2)
    loss, grads = gradient(objective)
    again, same = gradient(objective)
    assert loss == again
    assert all(torch.equal(grads[name], same[name]) for name in grads)
    # A step of gradient descent must lower the very loss whose gradient it is.
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter -= 1e-6 * grads[name]
    lower, _ = gradient(objective)
    slope = sum(float((g**2).sum()) for g in grads.values())
    assert (loss - lower) == pytest.approx(1e-6 * slope, rel=0.15)
    other, _ = gradient(objective, step=2)
    assert other != loss


def test_the_mix_of_layers_learns_its_weights():
    encoder = Encoder(backbone(), mixed=True)
    gradient(contrastive(encoder, scorer="layerwise", chunks=2))
    assert float(max(p.grad.abs().max() for p in encoder.mix.parameters())) > 0


WORKER = """
import sys
from accelerate import Accelerator
from tests.training.small import backbone, contrastive
from readout.training import Checkpoints, Encoder, Schedule, fit
from pathlib import Path
accelerator = Accelerator(cpu=True)
assert accelerator.num_processes == int(sys.argv[2])
encoder = Encoder(backbone(), head=False)
objective = contrastive(encoder, scorer=sys.argv[3], batch_size=6, accelerator=accelerator)
kept = Checkpoints(Path(sys.argv[1]), {})
fit(encoder, objective, Schedule(5, 1e-2, checkpoints=(0, 5)), kept, accelerator=accelerator)
"""


@pytest.mark.slow
@pytest.mark.parametrize("scorer", SCORERS)
def test_two_processes_train_what_one_does(tmp_path, scorer):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    root = HERE.parents[1]
    env = os.environ | {"PYTHONPATH": f"{root / 'lib'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    two = [*run, "--nproc-per-node=2", str(script), str(tmp_path / "two"), "2", scorer]
    one = [sys.executable, str(script), str(tmp_path / "one"), "1", scorer]
    started = [
        subprocess.Popen(c, env=env, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for c in (one, two)
    ]
    for process in started:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, printed
    start, one, two = (
        load_file(tmp_path / name / f"step-00000{step}.safetensors")
        for name, step in (("one", 0), ("one", 5), ("two", 5))
    )
    moved = max(float((one[name] - start[name]).abs().max()) for name in one)
    assert moved > 1e-2
    # A bias of the keys moves no attention: its gradient is rounding, which AdamW blows up to full steps. So all
    # other weights are compared, and then what the encoders make of texts, to which no weight may make a difference.
    for name in (name for name in one if not name.endswith("key.bias")):
        torch.testing.assert_close(two[name], one[name], atol=1e-3 * moved, rtol=0, msg=name)
    batch = contrastive().triplets.padded([(part, row) for part in range(3) for row in range(8)])
    vectors = []
    for weights in (start, one, two):
        encoder = Encoder(backbone()).eval()
        encoder.load_state_dict(weights)
        with torch.no_grad():
            vectors.append(encoder(batch.input_ids, batch.mask)[batch.mask])
    changed = float((vectors[1] - vectors[0]).abs().max())
    assert float((vectors[2] - vectors[1]).abs().max()) < 1e-3 * changed


def test_without_hard_negatives_the_other_positives_are_the_negatives():
    objective = contrastive(hard=False)
    loss, _ = gradient(objective, step=0)
    assert 0 < loss < 10


def test_bad_batches_are_refused():
    with pytest.raises(ParameterError, match="batch_size: 4 does not divide into 3 pieces"):
        contrastive(chunks=3)
    with pytest.raises(TooFewError, match="batch_size: 400 is more than the 24 triplets"):
        contrastive(batch_size=400).backward(0)
    with pytest.raises(ParameterError, match="temperature"):
        contrastive(temperature=0.0).backward(0)
    rows = triplets(4).to_list()
    rows[2]["negative"] = None
    with pytest.raises(TextError, match="negative of triplet 2"):
        TripletBatches.of(triplets(4).from_list(rows), tokenizer())


def test_a_batch_of_one_without_a_hard_negative_has_nothing_to_tell_apart():
    with pytest.raises((ParameterError, TooFewError)):
        contrastive(hard=False, batch_size=1).backward(0)


def test_long_texts_are_cut_and_counted():
    batches = TripletBatches.of(triplets(24), tokenizer(), max_tokens=5)
    lengths = [len(ids) for part in batches.ids for ids in part]
    assert max(lengths) == 5
    full = TripletBatches.of(triplets(24), tokenizer(), max_tokens=50)
    assert batches.n_truncated == sum(len(ids) > 5 for part in full.ids for ids in part) > 0
    assert full.n_truncated == 0
    assert scorer_of("li") is not None
