"""Closed forms against autograd on the scorers, and the counts by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import DegenerateError, ParameterError
from readout.lenses.gradients import late_gradients, mean_gradients, patch_gradients, structure
from readout.scorers import LateInteraction, MeanPooling, PatchLateInteraction, Tokens

CASES = {
    "mean": (MeanPooling(), lambda q, k, kept: mean_gradients(q, k)),
    "li": (LateInteraction(), late_gradients),
    "li-all": (LateInteraction(skip_punctuation=False), lambda q, k, kept: late_gradients(q, k)),
    "pli-1": (PatchLateInteraction(1), lambda q, k, kept: patch_gradients(q, k, 1)),
    "pli-2": (PatchLateInteraction(2), lambda q, k, kept: patch_gradients(q, k, 2)),
    "pli-3": (PatchLateInteraction(3), lambda q, k, kept: patch_gradients(q, k, 3)),
    "pli-99": (PatchLateInteraction(99), lambda q, k, kept: patch_gradients(q, k, 99)),
}


def pair(a, b, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, 6, generator=generator, dtype=dtype) for n in (a, b))
    kept = torch.rand(a, generator=generator) > 0.4
    kept[0] = True
    return q, k, kept


def by_autograd(scorer, q, k, kept):
    q, k = (x.clone().requires_grad_() for x in (q, k))
    every = [torch.ones(1, len(x), dtype=torch.bool) for x in (q, k)]
    score = scorer.score(Tokens(q[None], every[0], kept[None]), Tokens(k[None], every[1], every[1]))
    return torch.autograd.grad(score.sum(), [q, k])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@given(a=st.integers(1, 9), b=st.integers(1, 9), seed=st.integers(0, 99))
def test_closed_forms_are_what_autograd_gives(name, dtype, error, a, b, seed):
    q, k, kept = pair(a, b, seed, dtype)
    scorer, closed = CASES[name]
    for found, expected in zip(closed(q, k, kept), by_autograd(scorer, q, k, kept), strict=True):
        size = expected.double().norm()
        assert (found - expected.double()).norm() <= error * size + 1e-13
        assert found.dtype == torch.float64


def test_mean_pooling_is_dense_equal_and_of_rank_one():
    q, k, _ = pair(5, 7, 0, torch.float64)
    gradient = mean_gradients(q, k)[1]
    assert torch.allclose(gradient, gradient[:1].expand_as(gradient))
    found = structure(gradient)
    assert (found.share, found.rank) == (1.0, 1)
    assert found.effective == pytest.approx(7)


def test_late_interaction_reaches_only_the_tokens_that_were_chosen():
    q, k, _ = pair(3, 8, 1, torch.float64)
    gradient = late_gradients(q, k)[1]
    chosen = torch.nn.functional.cosine_similarity(q[:, None], k[None], dim=2).argmax(dim=1)
    assert gradient.any(dim=1).nonzero().flatten().tolist() == sorted(set(chosen.tolist()))
    assert structure(gradient).share == len(set(chosen.tolist())) / 8


def test_patches_share_their_gradient_and_the_short_last_one_gives_more_to_each():
    q = torch.tensor([[1.0, 0.0]])
    k = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.6, 0.8]])
    gradient = patch_gradients(q, k, 2)[1]
    assert gradient[:2].tolist() == [[0, 0], [0, 0]]
    torch.testing.assert_close(
        gradient[2], torch.tensor([0.64, -0.48], dtype=torch.float64)
    )  # over one token, not two


def test_counts_by_hand():
    found = structure(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    assert found.share == pytest.approx(2 / 3)
    assert found.effective == pytest.approx(9 / 5)
    assert found.rank == 2
    zero = structure(torch.zeros(3, 2))
    assert (zero.share, zero.effective, zero.rank) == (0, 0, 0)


@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6))
def test_counts_do_not_depend_on_the_size_of_the_gradient(seed, scale):
    gradient = pair(6, 4, seed, torch.float64)[0]
    one, other = structure(gradient), structure(scale * gradient)
    assert one.effective == pytest.approx(other.effective)
    assert (one.share, one.rank) == (other.share, other.rank)
    assert 1 <= one.effective <= 6 + 1e-9


def test_what_has_no_direction_is_refused():
    with pytest.raises(DegenerateError, match="candidate: token 1 is a zero vector"):
        late_gradients(torch.ones(2, 3), torch.tensor([[1.0] * 3, [0.0] * 3]))
    with pytest.raises(ParameterError, match="n: patches of 0 tokens"):
        patch_gradients(torch.ones(2, 3), torch.ones(2, 3), 0)
