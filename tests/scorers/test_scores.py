"""Scores against their definitions, under every padding and in every tile size."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import ParameterError, TextError
from readout.scorers import LateInteraction, MeanPooling, PatchLateInteraction, Tokens, scorer_of
from readout.scorers.published import late_interaction_as_published, patch_late_interaction_as_published

from .padded_tokens import ORACLES, SIDES, pad, texts

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=4)
every_scorer = pytest.mark.parametrize("name", ORACLES)


@every_scorer
@given(queries=LENGTHS, keys=LENGTHS, seed=st.integers(0, 99), sides=st.tuples(*2 * [st.sampled_from(SIDES)]))
def test_scores_are_those_of_the_definition_whatever_the_padding(name, queries, keys, seed, sides):
    q, k = texts(queries, seed=seed), texts(keys, seed=seed + 100)
    scores = scorer_of(name).score(pad(q, sides[0]), pad(k, sides[1], extra=1))
    expected = [[ORACLES[name](query, key) for key in k] for query in q]
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float64))


@every_scorer
def test_a_padded_query_row_scores_exactly_as_the_unpadded_one(name):
    q, k = texts([4], dtype=torch.float32), texts([7, 3], seed=1, dtype=torch.float32)
    key = pad(k)
    alone = scorer_of(name).score(pad(q, extra=0), key)
    padded = scorer_of(name).score(pad(q, extra=5), key)
    assert torch.equal(alone, padded)


@every_scorer
def test_scores_keep_their_precision_under_autocast(name):
    q, k = pad(texts([4], dtype=torch.float32)), pad(texts([7, 3], seed=1, dtype=torch.float32))
    plain = scorer_of(name).score(q, k)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scorer_of(name).score(q, k), plain)


@every_scorer
def test_negative_similarities_are_not_replaced_by_padding(name):
    # All tokens of the query point one way, all of the key's the other way.
    one = torch.ones(2, 3, dtype=torch.float64)
    mask = torch.tensor([True, True])
    score = scorer_of(name).score(pad([(one, mask)]), pad([(-one, mask)], extra=4))
    assert score.item() < -0.99


@every_scorer
def test_tiles_change_nothing(name, monkeypatch):
    q, k = pad(texts([5, 2, 9, 1])), pad(texts([6, 3, 8], seed=1))
    whole, whole_grad = _scored(name, q, k)
    for budget in (1, 200, 1000):
        monkeypatch.setattr("readout.scorers.maxsim.TILE_BYTES", budget)
        tiled, tiled_grad = _scored(name, q, k)
        torch.testing.assert_close(tiled, whole, rtol=1e-12, atol=0)
        torch.testing.assert_close(tiled_grad, whole_grad, rtol=1e-10, atol=1e-14)


def _scored(name, q, k):
    states = q.states.nan_to_num().requires_grad_()
    scores = scorer_of(name).score(Tokens(states, q.mask, q.content), k)
    (grad,) = torch.autograd.grad((scores * torch.arange(scores.numel()).view_as(scores)).sum(), states)
    return scores.detach(), grad


def test_no_tensor_of_all_pairs_of_tokens_is_made(monkeypatch):
    monkeypatch.setattr("readout.scorers.maxsim.TILE_BYTES", 4096)
    seen = []
    real = torch.Tensor.masked_fill

    def watched(tensor, *args):
        seen.append(tensor.numel())
        return real(tensor, *args)

    monkeypatch.setattr(torch.Tensor, "masked_fill", watched)
    LateInteraction().score(pad(texts([40] * 20)), pad(texts([40] * 30, seed=1)))
    assert max(seen) < 20 * 30 * 43 * 2  # best matches, and far below 20 x 30 x 43 x 43


@every_scorer
def test_gradients_are_those_of_finite_differences(name):
    q, k = pad(texts([3, 2], dim=3)), pad(texts([4, 2], dim=3, seed=1))

    def score(query_states, key_states):
        return scorer_of(name).score(
            Tokens(query_states, q.mask, q.content), Tokens(key_states, k.mask, k.content)
        )

    states = [x.states.nan_to_num().requires_grad_() for x in (q, k)]
    assert torch.autograd.gradcheck(score, states)


def test_zero_vectors_are_like_nothing_and_get_no_gradient():
    states = torch.zeros(1, 2, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True]])
    tokens = Tokens(states, mask, mask)
    for scorer in (MeanPooling(), LateInteraction(), PatchLateInteraction(2)):
        score = scorer.score(tokens, tokens)
        (grad,) = torch.autograd.grad(score.sum(), states)
        assert score.item() == 0
        assert not grad.any()


@given(lengths=st.tuples(LENGTHS, LENGTHS), seed=st.integers(0, 99))
def test_patches_of_one_are_late_interaction_and_long_patches_are_mean_pooling(lengths, seed):
    q, k = pad(texts(lengths[0], seed=seed)), pad(texts(lengths[1], seed=seed + 100), "left")
    one, late = PatchLateInteraction(1).score(q, k), LateInteraction(skip_punctuation=False).score(q, k)
    torch.testing.assert_close(one, late, rtol=1e-9, atol=1e-12)
    long = PatchLateInteraction(max(map(max, lengths)))
    torch.testing.assert_close(long.score(q, k), MeanPooling().score(q, k), rtol=1e-9, atol=1e-12)


def test_terms_are_the_cosines_in_a_score():
    made = [
        (torch.randn(5, 3), torch.tensor([True, False, True, True, False])),
        (torch.randn(2, 3), torch.tensor([True, True])),
    ]
    query = pad(made)
    terms = {
        name: scorer_of(name).terms(query).tolist()
        for name in ("mean", "li", "li-mean", "li-all", "pli-2", "pli-2-mean")
    }
    assert terms == {
        "mean": [1, 1],
        "li": [3, 2],
        "li-mean": [1, 1],
        "li-all": [5, 2],
        "pli-2": [3, 1],
        "pli-2-mean": [1, 1],
    }


def test_texts_that_cannot_be_scored_are_refused():
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(TextError, match="row 1 has no real token"):
        Tokens(torch.zeros(2, 2, 3), mask, mask)
    punctuation = Tokens(torch.ones(1, 2, 3), torch.tensor([[True, True]]), torch.tensor([[False, False]]))
    with pytest.raises(TextError, match="row 0 is punctuation alone"):
        LateInteraction().score(punctuation, punctuation)
    assert LateInteraction(skip_punctuation=False).score(punctuation, punctuation).item() == pytest.approx(2)


@pytest.mark.parametrize("name", ["pli-0", "pli-", "pli--2", "LI", "max", ""])
def test_unknown_names_are_refused_with_the_forms(name):
    with pytest.raises(ParameterError, match=r"expected mean, layerwise, li, .* pli-N"):
        scorer_of(name)
    with pytest.raises(ParameterError, match="n: patches of 0 tokens"):
        PatchLateInteraction(0)


def test_as_published_late_interaction_differs_only_where_a_query_has_one_or_two_columns():
    q, k = pad(texts([4, 3]), extra=0), pad(texts([5, 2], seed=1))
    clean = Tokens(k.states.nan_to_num(), k.mask, k.content)
    q = Tokens(q.states.nan_to_num(), q.mask, q.content)
    torch.testing.assert_close(late_interaction_as_published(q, clean), LateInteraction().score(q, clean))
    one = torch.tensor([[True]])
    short = Tokens(torch.ones(1, 1, 3), one, one)
    away = Tokens(
        torch.tensor([[[-1.0] * 3, [1.0] * 3]]), torch.tensor([[True, False]]), torch.tensor([[True, False]])
    )
    assert LateInteraction().score(short, away).item() == pytest.approx(-1)
    assert late_interaction_as_published(short, away).item() == pytest.approx(0, abs=1e-6)


def test_as_published_patches_move_with_padding_on_the_left_alone():
    q, k = texts([5, 4]), texts([6, 3], seed=1)
    ours = PatchLateInteraction(2).score(pad(q), pad(k))
    torch.testing.assert_close(patch_late_interaction_as_published(pad(q), pad(k), 2), ours)
    moved = patch_late_interaction_as_published(pad(q, "left", extra=2), pad(k, "left", extra=2), 2)
    assert not torch.allclose(moved, ours)
    torch.testing.assert_close(PatchLateInteraction(2).score(pad(q, "left"), pad(k, "left")), ours)
