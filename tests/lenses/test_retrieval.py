"""Ranking metrics against hand numbers, a slow oracle and scikit-learn; their intervals against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_bootstrap, cluster_weights
from readout.lenses.retrieval import (
    PerQuery,
    over_seeds,
    retrieval,
    retrieval_as_published,
    retrieval_contrast,
    retrieval_table,
    triplet_accuracy,
)

CUTOFFS = (1, 3, 100)


def gallery(seed, n_queries=6, n_keys=15, values=None):
    """Scores (distinct unless drawn from a few values) and who wrote what; a query's document may hold keys too."""
    rng = np.random.default_rng(seed)
    scores = (
        rng.normal(size=(n_queries, n_keys)) if values is None else rng.choice(values, (n_queries, n_keys))
    )
    sets, documents = (
        [list(rng.choice(list(names), n)) for n in (n_queries, n_keys)] for names in ("abc", "uvwxy")
    )
    return scores.astype(float), *sets, *documents


def relevant_to(query, sets, key_sets, documents, key_documents):
    keys = zip(key_sets, key_documents, strict=True)
    return [k for k, (s, d) in enumerate(keys) if s == sets[query] and d != documents[query]]


def evaluate(scores, sets, key_sets, documents, key_documents, cutoffs=CUTOFFS):
    about = sets, key_sets, documents, key_documents
    positive = [(relevant_to(q, *about) or [-1])[0] for q in range(len(sets))]
    return retrieval(scores, *about, positive, cutoffs=cutoffs)


def slow(scores, relevant, candidates, positive, k):
    """One query in float64: candidates by score, a tie against the scorer."""
    order = sorted(candidates, key=lambda key: (-scores[key], key in relevant, key == positive))
    gains = [float(key in relevant) for key in order]
    dcg = sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains[:k], 1))
    best = sum(1 / np.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))
    rank = order.index(positive) + 1
    return {
        "R": sum(gains[:k]) / len(relevant),
        "nDCG": dcg / best,
        "MRR": 1 / rank,
        "accuracy": float(rank == 1),
    }


def same(one, two):
    assert one.values.keys() == two.values.keys()
    for name in one.values:
        np.testing.assert_allclose(one.values[name], two.values[name], rtol=1e-12, err_msg=name)


def test_a_ranking_of_six_by_hand():
    scores = np.array(
        [[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]
    )  # relevant: ranks 2, 3 and 6, the last is the positive
    found = retrieval(scores, ["a"], list("baabba"), ["q"], list("uvwxyz"), [5], cutoffs=[1, 2, 3, 6]).values
    expected = {"R@1": 0, "R@2": 1 / 3, "R@3": 2 / 3, "R@6": 1, "nDCG@1": 0, "MRR": 1 / 6, "accuracy": 0}
    expected["nDCG@2"] = 0.6309 / (1 + 0.6309)
    expected["nDCG@3"] = (0.6309 + 0.5) / (1 + 0.6309 + 0.5)
    expected["nDCG@6"] = (0.6309 + 0.5 + 0.3562) / (1 + 0.6309 + 0.5)
    assert {name: each[0] for name, each in found.items()} == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("values", [None, [0.0, 0.5, 1.0]], ids=["distinct", "tied"])
@pytest.mark.parametrize("seed", range(8))
def test_against_a_slow_float64_oracle(seed, values):
    scores, *about = gallery(seed, values=values)
    found = evaluate(scores, *about)
    for at, query in enumerate(found.queries):
        relevant = relevant_to(query, *about)
        candidates = [key for key, document in enumerate(about[3]) if document != about[2][query]]
        for k in CUTOFFS:
            want = slow(scores[query], relevant, candidates, relevant[0], k)
            got = {name: found.values[f"{name}@{k}"][at] for name in ("R", "nDCG")}
            got |= {name: found.values[name][at] for name in ("MRR", "accuracy")}
            assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 100])
def test_ndcg_against_scikit_learn(k):
    scores, sets, key_sets, _, _ = gallery(3)
    documents, key_documents = ["q"] * len(sets), ["k"] * len(key_sets)
    found = evaluate(scores, sets, key_sets, documents, key_documents, [k])
    truth = np.array(sets)[:, None] == np.array(key_sets)
    assert found.values[f"nDCG@{k}"].mean() == pytest.approx(
        ndcg_score(truth[found.queries], scores[found.queries], k=k)
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), tied=st.booleans())
def test_the_order_of_the_keys_has_no_influence_ties_included(seed, tied):
    scores, sets, key_sets, documents, key_documents = gallery(seed, values=[0.0, 1.0] if tied else None)
    order = np.random.default_rng(seed).permutation(len(key_sets))
    about = sets, key_sets, documents, key_documents
    positive = [(relevant_to(q, *about) or [0])[0] for q in range(len(sets))]
    moved = [[each[i] for i in order] for each in (key_sets, key_documents)]
    same(
        retrieval(scores, *about, positive, cutoffs=CUTOFFS),
        retrieval(
            scores[:, order],
            sets,
            moved[0],
            documents,
            moved[1],
            np.argsort(order)[positive],
            cutoffs=CUTOFFS,
        ),
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_only_the_order_of_the_scores_counts(seed, scale, shift):
    scores, *about = gallery(seed, values=np.arange(-7.0, 8.0))
    same(evaluate(scores, *about), evaluate(np.exp(scale * scores / 7) + shift, *about))


def test_scores_closer_than_single_precision_keep_their_order():
    scores = 1.0 + np.array([[1.0, 2.0, 3.0]]) * 1e-14
    about = ["a"], list("bba"), ["q"], list("xyz"), [2]
    assert retrieval(scores, *about).values["MRR"][0] == 1
    assert retrieval(-scores, *about).values["MRR"][0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_tensors_of_every_precision_are_ranked_as_given(dtype):
    scores, *about = gallery(1)
    scores = torch.from_numpy(scores).to(dtype)
    same(evaluate(scores, *about), evaluate(scores.double().numpy(), *about))


def test_a_constant_score_finds_nothing():
    found = retrieval(np.zeros((1, 4)), ["a"], list("aabb"), ["q"], list("wxyz"), [0], cutoffs=[2]).values
    assert [float(found[name][0]) for name in ("R@2", "nDCG@2", "MRR")] == [0, 0, 0.25]


def test_own_document_is_taken_out_and_kept_as_published():
    scores = np.array([[3.0, 2.0, 1.0]])  # the first is by the same author, and of the query's own document
    sets, documents = (["a"], list("aba")), (["q"], list("qxy"))
    corrected = retrieval(scores, *sets, *documents, [2], cutoffs=[1, 2]).values
    published = retrieval_as_published(scores, *sets, [2], cutoffs=[1, 2]).values
    assert [float(corrected[name][0]) for name in ("R@1", "R@2", "MRR")] == [0, 1, 0.5]
    assert [float(published[name][0]) for name in ("R@1", "R@2")] == [0.5, 0.5]
    assert published["MRR"][0] == pytest.approx(1 / 3)


def test_queries_without_a_relevant_key_are_left_out_and_counted():
    sets = list("acb"), list("ab")
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = retrieval(scores, *sets, ["q"] * 3, ["x", "y"], [0, -1, 1])
    assert (found.queries.tolist(), found.n_left_out, len(found)) == ([0, 2], 1, 2)
    assert found.author_sets == ["a", "b"]
    assert found.values["accuracy"].tolist() == [1, 0]
    with pytest.raises(TooFewError, match="no query has a relevant key"):
        retrieval(scores[:1], ["c"], ["a", "b"], ["q"], ["x", "y"], [0])


def test_blocks_of_queries_are_joined_in_order():
    rng = np.random.default_rng(0)
    scores, sets = rng.normal(size=(150, 5)), rng.integers(0, 5, 150)
    names = [str(each) for each in sets]
    found = retrieval(scores, names, list("01234"), ["q"] * 150, ["k"] * 5, sets)
    ranks = 1 + (scores > scores[np.arange(150), sets][:, None]).sum(axis=1)
    np.testing.assert_allclose(found.values["MRR"], 1 / ranks)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": np.array([[np.nan, 1.0]])}, NonFiniteError, "scores: hold NaN"),
        ({"scores": np.ones((2, 2))}, ParameterError, r"scores: \(2, 2\)"),
        ({"key_sets": ["a"]}, ParameterError, "queries and"),
        ({"cutoffs": []}, ParameterError, r"cutoffs=\[\]"),
        ({"cutoffs": [0, 5]}, ParameterError, r"cutoffs=\[0, 5\]"),
        ({"positive": [1]}, ParameterError, "positive=1 of query 0"),
        ({"positive": [2]}, ParameterError, "positive=2 of query 0"),
        ({"positive": [-2]}, ParameterError, "positive=-2 of query 0"),
    ],
)
def test_bad_input_is_named(change, error, message):
    given = {"scores": np.ones((1, 2)), "query_sets": ["a"], "key_sets": ["a", "b"], "positive": [0]}
    with pytest.raises(error, match=message):
        retrieval(**given | {"query_documents": ["q"], "key_documents": ["x", "y"]} | change)


def test_triplet_accuracy():
    assert triplet_accuracy(np.array([2.0, 0.0, 1.0, 5.0]), np.array([1.0, 1.0, 1.0, 0.0])) == 0.625
    assert triplet_accuracy(torch.tensor([2.0]), torch.tensor([1.0])) == 1
    with pytest.raises(ParameterError, match="3 and 1 scores"):
        triplet_accuracy(np.ones(3), np.zeros(1))
    with pytest.raises(TooFewError):
        triplet_accuracy(np.ones(0), np.ones(0))
    with pytest.raises(NonFiniteError):
        triplet_accuracy(np.array([np.nan]), np.ones(1))


def runs_of(n_runs, n=40, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    hard, sets = rng.uniform(0, 0.5, n), list(rng.choice(list("abcdefgh"), n))
    values = [{"R@20": hard + shift + rng.uniform(0, 0.1, n), "MRR": hard / 2} for _ in range(n_runs)]
    return [PerQuery(each, np.arange(n), sets, 0) for each in values]


def test_the_table_of_one_run_is_a_cluster_bootstrap():
    (run,) = runs_of(1)
    table = retrieval_table([run], n_resamples=200, level=0.9, seed=3)
    want = cluster_bootstrap(
        np.stack(list(run.values.values())), run.author_sets, n_resamples=200, level=0.9, seed=3
    )
    assert table.columns.tolist() == ["metric", "unit", "value", "low", "high", "level", "n"]
    for name in ("value", "low", "high", "n"):
        np.testing.assert_allclose(table[name].to_numpy(), getattr(want, name))


def test_seeds_are_resampled_beside_authors():
    same_queries = PerQuery({"R@20": np.full(10, 0.2)}, np.arange(10), list("aabbccddee"), 0)
    runs = [
        PerQuery({"R@20": np.full(10, x)}, np.arange(10), same_queries.author_sets, 0)
        for x in (0.2, 0.4, 0.9)
    ]
    found = over_seeds(runs, n_resamples=4000).iloc[
        0
    ]  # no spread over authors: all of it is that of the seeds
    means = np.random.default_rng(0).choice([0.2, 0.4, 0.9], (100_000, 3)).mean(axis=1)
    assert found["value"] == pytest.approx(0.5)
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(means, [0.025, 0.975]))
    assert (found["seed_min"], found["seed_max"], found["n"]) == (pytest.approx(0.2), pytest.approx(0.9), 10)
    alone = retrieval_table([same_queries]).iloc[0]
    assert alone["low"] == pytest.approx(alone["high"])
    with pytest.raises(TooFewError, match="at least 2"):
        over_seeds(runs[:1])


@pytest.mark.parametrize("ratio", [False, True])
def test_a_contrast_against_a_loop_over_shared_resamples(ratio):
    (one,), (two,) = runs_of(1, shift=0.2), runs_of(1, seed=0)
    found = retrieval_contrast([one], [two], ratio=ratio, n_resamples=100, seed=4)
    drawn = []
    for weights in cluster_weights(one.author_sets, 100, 4):
        a, b = (np.repeat(run.values["R@20"], weights).mean() for run in (one, two))
        drawn.append(a / b if ratio else a - b)
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    a, b = one.values["R@20"].mean(), two.values["R@20"].mean()
    assert found["value"] == pytest.approx(a / b if ratio else a - b)


def test_several_runs_against_a_loop_over_resampled_authors_and_runs():
    ones, twos = runs_of(3, shift=0.2), runs_of(3, seed=0)
    authors = cluster_weights(ones[0].author_sets, 60, 5)
    seeds = np.random.default_rng([5, 1]).multinomial(3, np.full(3, 1 / 3), 60)

    def mean_of(runs, by_author, by_run):
        drawn = [np.repeat(run.values["R@20"], by_author) for run in np.repeat(runs, by_run)]
        return np.concatenate(drawn).mean()

    means = [[mean_of(runs, *each) for each in zip(authors, seeds, strict=True)] for runs in (ones, twos)]
    table = retrieval_table(ones, n_resamples=60, seed=5).set_index("metric").loc["R@20"]
    assert [table["low"], table["high"]] == pytest.approx(np.quantile(means[0], [0.025, 0.975]))
    assert table["value"] == pytest.approx(np.mean([run.values["R@20"] for run in ones]))
    found = retrieval_contrast(ones, twos, n_resamples=60, seed=5)
    want = np.quantile(np.subtract(*means), [0.025, 0.975])
    assert [found["low"], found["high"]] == pytest.approx(want)


def test_a_contrast_is_paired():
    one, two = runs_of(1, shift=0.2), runs_of(1)
    wide = [retrieval_table(runs).iloc[0] for runs in (one, two)]
    paired = retrieval_contrast(one, two)
    assert paired["high"] - paired["low"] < 0.1 * min(row["high"] - row["low"] for row in wide)


def test_a_ratio_to_nothing():
    (run,) = runs_of(1)
    nothing = PerQuery({name: 0 * each for name, each in run.values.items()}, run.queries, run.author_sets, 0)
    with pytest.raises(DegenerateError, match="R@20 is 0"):
        retrieval_contrast([run], [nothing], ratio=True)
    rarely = nothing.values["R@20"].copy()
    rarely[0] = 1.0  # resamples without this author have no ratio
    some = PerQuery({"R@20": rarely, "MRR": rarely}, run.queries, run.author_sets, 0)
    assert np.isfinite(list(retrieval_contrast([run], [some], ratio=True).values())).all()


def test_runs_of_other_queries_are_refused():
    (run,), (other,) = runs_of(1), runs_of(1)
    moved = PerQuery(run.values, run.queries + 1, run.author_sets, 0)
    fewer = PerQuery({"R@20": run.values["R@20"]}, run.queries, run.author_sets, 0)
    assert retrieval_contrast([run], [other])["n"] == 40
    for wrong in (moved, fewer):
        with pytest.raises(ParameterError, match="not of the same queries"):
            retrieval_contrast([run], [wrong])
        with pytest.raises(ParameterError, match="not of the same queries"):
            retrieval_table([run, wrong])
    with pytest.raises(ParameterError, match="metric='R@5'"):
        retrieval_contrast([run], [other], "R@5")
    with pytest.raises(TooFewError, match="runs: is empty"):
        retrieval_table([])


@pytest.mark.parametrize(("level", "n_resamples"), [(0.0, 100), (95.0, 100), (0.95, 1)])
def test_bad_resampling_is_named(level, n_resamples):
    with pytest.raises(ParameterError, match="level="):
        retrieval_table(runs_of(1), level=level, n_resamples=n_resamples)
