import pytest
import torch
from torch.testing import assert_close

from readout.errors import AssetError, ParameterError, TooFewError
from readout.generation import shards
from readout.generation.attention import attention_pooled
from readout.generation.collect import POOLINGS, SegmentStates
from readout.generation.forced import read_generated
from readout.generation.prompts import ask
from readout.generation.sample import Generated, generate
from readout.generation.sampling import Sampling
from readout.generation.shards import Plan, open_shards, sample_key, sample_keys, write_shards
from readout.sources.models import Reader
from readout.states import Site

from ..states.tiny_models import N_LAYERS, tiny, word_texts, word_tokenizer

FINAL = Site(N_LAYERS, N_LAYERS, "final")
PLAN = Plan(
    Sampling(), max_new_tokens=5, token_layers=(N_LAYERS,), dtype="float32", batch_size=2, shard_size=2
)


@pytest.fixture(scope="module")
def reader():
    model = tiny("llama", "AutoModelForCausalLM")
    return Reader("tiny", model, word_tokenizer(), "digest", N_LAYERS, "random")


def some_prompts(reader, n=5):
    texts = word_texts([2, 3, 4, 5, 20, 6][:n])
    return [ask(reader.tokenizer, "caption", text) for text in texts], [f"s{i}" for i in range(n)]


@pytest.fixture
def made(monkeypatch):
    """Ids of the samples that were written, call by call."""
    calls = []

    def counting(*args, **options):
        calls.append(options["ids"])
        return generate(*args, **options)

    monkeypatch.setattr(shards, "generate", counting)
    return calls


def test_what_is_read_back_is_what_was_written(reader, tmp_path):
    prompts, ids = some_prompts(reader)
    folder = write_shards(reader, prompts, ids, PLAN, tmp_path)
    stored = open_shards(folder)
    rows = stored.rows([sample_key(i, p, 0) for i, p in zip(ids, prompts, strict=True)])
    token_ids = [p.ids for p in prompts]
    options = {"sampling": PLAN.sampling, "max_new_tokens": 5, "batch_size": 2}
    expected = generate(reader.model, reader.tokenizer, token_ids, ids=ids, **options)
    table = stored.table().take(rows).to_pylist()
    for row, sample in zip(table, expected, strict=True):
        assert (row["id"], row["seed"], row["text"]) == (sample.id, 0, sample.text)
        assert (tuple(row["tokens"]), row["stop"]) == (sample.tokens, sample.stop)
        assert (row["n_tokens"], row["n_content_tokens"]) == (sample.n_tokens, sample.n_content_tokens)
    kept = SegmentStates(len(ids), 5)
    read_generated(reader.model, expected, token_ids, [kept], layers=[N_LAYERS])
    assert_close(stored.states(FINAL)[rows], kept.states(FINAL), rtol=1e-4, atol=1e-5)
    assert torch.equal(stored.mask()[rows], kept.mask)
    mean = stored.pooled(FINAL, "generated_mean")[rows[2]]
    assert_close(mean, kept.states(FINAL)[2][kept.mask[2]].mean(dim=0), rtol=1e-4, atol=1e-5)
    assert {stored.pooled(Site(0, N_LAYERS, "final"), name).shape for name in POOLINGS} == {(5, 32)}
    assert [len(part) for part in stored.iter_states(FINAL)].count(2) == 2


def test_nothing_is_done_twice(reader, tmp_path, made):
    prompts, ids = some_prompts(reader, 6)
    folder = write_shards(reader, prompts[:5], ids[:5], PLAN, tmp_path)
    assert made == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert write_shards(reader, prompts[:5], ids[:5], PLAN, tmp_path) == folder
    write_shards(reader, prompts, ids, PLAN, tmp_path)
    assert made[3:] == [["s5"]]
    assert {name: (folder / name).read_bytes() for name in before} == before
    write_shards(reader, prompts[:1], ids[:1], PLAN, tmp_path, seed=1)
    assert made[4:] == [["s0"]]
    assert sorted(open_shards(folder).table().column("seed").to_pylist()) == [0] * 6 + [1]


def test_a_killed_run_redoes_one_shard_at_most_and_gives_the_same(reader, tmp_path, made, monkeypatch):
    prompts, ids = some_prompts(reader)
    whole = open_shards(write_shards(reader, prompts, ids, PLAN, tmp_path / "whole"))
    made.clear()
    real = shards._save_table

    def killed_in_the_second(table, path):
        if len(made) == 2:
            raise KeyboardInterrupt
        real(table, path)

    monkeypatch.setattr(shards, "_save_table", killed_in_the_second)
    with pytest.raises(KeyboardInterrupt):
        write_shards(reader, prompts, ids, PLAN, tmp_path / "killed")
    monkeypatch.setattr(shards, "_save_table", real)
    resumed = open_shards(write_shards(reader, prompts, ids, PLAN, tmp_path / "killed"))
    assert made == [["s0", "s1"], ["s2", "s3"], ["s2", "s3"], ["s4"]]
    assert resumed.table() == whole.table()
    assert torch.equal(resumed.states(FINAL), whole.states(FINAL))
    assert not list((tmp_path / "killed").rglob("*.tmp"))


def test_given_continuations_are_read_in_place_of_what_the_model_writes(reader, tmp_path, made):
    (prompts, ids), given = some_prompts(reader, 2), [[7, 8, 9], [10]]
    write_shards(reader, prompts, ids, PLAN, tmp_path)
    folder = write_shards(reader, prompts, ids, PLAN, tmp_path, seed=(), given={"other": given})
    assert len(made) == 1
    keys = sample_keys(ids, prompts, 0, given)
    stored = open_shards(folder).having(keys)
    assert len(stored.shards) == 1
    assert stored.table().take(stored.rows(keys)).column("tokens").to_pylist() == given
    samples = [Generated(i, 0, tuple(tokens), "", "length") for i, tokens in zip(ids, given, strict=True)]
    kept = SegmentStates(2, 5)
    read_generated(reader.model, samples, [p.ids for p in prompts], [kept], layers=[N_LAYERS])
    assert_close(stored.states(FINAL)[stored.rows(keys)], kept.states(FINAL), rtol=1e-4, atol=1e-5)


def test_seeds_and_what_is_given_share_a_shard_and_are_those_of_separate_runs(reader, tmp_path, made):
    (prompts, ids), given = some_prompts(reader, 3), [[7, 8, 9], [10], [11, 12]]
    together = write_shards(reader, prompts, ids, PLAN, tmp_path / "a", seed=(0, 1), given={"x": given})
    assert made == [["s0", "s1"], ["s2"]]
    for seed in (0, 1):
        apart = write_shards(reader, prompts, ids, PLAN, tmp_path / "b", seed=seed)
    write_shards(reader, prompts, ids, PLAN, tmp_path / "b", seed=(), given={"x": given})
    one, other = open_shards(together), open_shards(apart)
    keys = [
        *sample_keys(ids, prompts, 0),
        *sample_keys(ids, prompts, 1),
        *sample_keys(ids, prompts, 0, given),
    ]
    rows, rows_apart = one.rows(keys), other.rows(keys)
    assert one.table().take(rows) == other.table().take(rows_apart)
    assert_close(one.states(FINAL)[rows], other.states(FINAL)[rows_apart], rtol=1e-4, atol=1e-5)
    for name in POOLINGS:
        pairs = (shards.pooled(FINAL, name)[at] for shards, at in ((one, rows), (other, rows_apart)))
        assert_close(*pairs, rtol=1e-4, atol=1e-5)


def test_the_attention_pooling_is_kept_where_the_plan_asks_for_it(reader, tmp_path):
    prompts, ids = some_prompts(reader, 3)
    stored = open_shards(
        write_shards(reader, prompts, ids, Plan(**(vars(PLAN) | {"attention": True})), tmp_path)
    )
    table = stored.table().to_pylist()
    of_id = dict(zip(ids, prompts, strict=True))
    samples = [Generated(row["id"], 0, tuple(row["tokens"]), "", "length") for row in table]
    expected = attention_pooled(reader.model, samples, [of_id[row["id"]].ids for row in table])
    assert_close(stored.pooled(FINAL, shards.ATTENTION), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ParameterError, match=f"generated_attention/{N_LAYERS}/final was not kept"):
        open_shards(write_shards(reader, prompts, ids, PLAN, tmp_path)).pooled(FINAL, shards.ATTENTION)


def test_only_the_seeds_that_lack_are_written(reader, tmp_path, made):
    prompts, ids = some_prompts(reader, 3)
    write_shards(reader, prompts[:1], ids[:1], PLAN, tmp_path, seed=1)
    folder = write_shards(reader, prompts, ids, PLAN, tmp_path, seed=(0, 1))
    assert sorted(made[1:]) == [["s0"], ["s1", "s2"]]
    assert open_shards(folder).table().num_rows == 6


def test_what_decides_the_samples_names_the_folder(reader, tmp_path):
    one = some_prompts(reader, 1)
    changes = [
        {},
        {"sampling": Sampling(0.5)},
        {"max_new_tokens": 4},
        {"token_layers": ()},
        {"batch_size": 1},
    ]
    plans = [Plan(**(vars(PLAN) | change)) for change in changes]
    assert len({write_shards(reader, *one, plan, tmp_path) for plan in plans}) == len(plans)
    same = Plan(**(vars(PLAN) | {"shard_size": 1, "precision": "float32"}))
    assert write_shards(reader, *one, same, tmp_path) == write_shards(reader, *one, PLAN, tmp_path)


def test_each_prompt_needs_an_id_of_its_own(reader, tmp_path):
    prompts, _ = some_prompts(reader, 2)
    with pytest.raises(ParameterError, match="ids: 2 ids, 1 of them different"):
        write_shards(reader, prompts, ["a", "a"], PLAN, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": ()}, "seed: is empty"),
        ({"seed": (1, 1)}, "seed: .1, 1. names one twice"),
        ({"given": {"x": [[5]]}}, "given: 'x' has 1 texts for 2 prompts"),
        ({"given": {"x": [[5], [5] * 6]}}, "given: a text of 'x' has 6 tokens; max_new_tokens = 5"),
    ],
)
def test_wrong_seeds_and_continuations_are_refused_before_the_model_runs(reader, tmp_path, options, message):
    with pytest.raises((ParameterError, TooFewError), match=message):
        write_shards(reader, *some_prompts(reader, 2), PLAN, tmp_path, **options)
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_is_not_there_is_said(reader, tmp_path):
    with pytest.raises(AssetError, match="holds no shard; run write_shards first"):
        open_shards(tmp_path)
    folder = write_shards(reader, *some_prompts(reader, 1), PLAN, tmp_path)
    stored = open_shards(folder)
    with pytest.raises(ParameterError, match="site: tokens/1/final was not kept"):
        stored.states(Site(1, N_LAYERS, "final"))
    with pytest.raises(ParameterError, match=r"keys: k \(1 in all\) is not in the folder"):
        stored.rows(["k"])
    next(folder.glob("*.safetensors")).write_bytes(b"cut")
    with pytest.raises(AssetError, match="cannot be read"):
        stored.mask()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "int8"}, "dtype: 'int8'"),
        ({"shard_size": 0}, "shard_size: 0"),
        ({"layers": (1,), "token_layers": (2,)}, r"token_layers: \(2,\) should be among"),
    ],
)
def test_wrong_plans_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        Plan(Sampling(), **wrong)
