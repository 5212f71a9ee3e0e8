"""Ranking metrics against hand numbers, a slow oracle and scikit-learn; their intervals against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.retrieval import retrieval, retrieval_as_published

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
