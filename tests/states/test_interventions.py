"""What each intervention puts in, and what it leaves alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from readout.errors import ParameterError, TextError
from readout.states.interventions import equal_length, mean_shift, overlap, random_positions

from .patch_oracles import CLEAN, CORRUPT, batch


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1), st.integers(0, 99))
def test_random_positions_are_a_share_of_the_overlap_and_nested(s_p, s_n, fraction, seed):
    p, n = torch.zeros(1, s_p, 1), torch.ones(1, s_n, 1)
    masks = torch.ones(1, s_p, dtype=torch.bool), torch.ones(1, s_n, dtype=torch.bool)
    at = [
        random_positions(rho, seed)(layer, p, n, *masks) == 0 for rho in (fraction, 1.0) for layer in (0, 7)
    ]
    assert (at[0] == at[1]).all()
    assert int(at[0].sum()) == round(fraction * min(s_p, s_n))
    assert (at[0] <= at[2]).all()
    assert not at[2][:, min(s_p, s_n) :].any()
    assert (overlap(*masks)[..., None] == at[2]).all()


def test_random_positions_differ_between_texts_and_seeds():
    p, n, mask = torch.zeros(2, 40, 1), torch.ones(2, 40, 1), torch.ones(2, 40, dtype=torch.bool)
    first_seed, second_seed = (random_positions(0.5, seed)(0, p, n, mask, mask) for seed in (0, 1))
    assert (first_seed[0] != first_seed[1]).any()
    assert (first_seed != second_seed).any()


def test_mean_shift_moves_the_mean_to_the_clean_one_and_keeps_differences():
    p, n = torch.randn(3, 12, 8), torch.randn(3, 14, 8)
    p_mask, n_mask = batch(CLEAN, 1)[1], batch(CORRUPT, 2)[1]
    shifted = mean_shift(0, p, n, p_mask, n_mask)
    for text, (s_p, s_n) in enumerate(zip(CLEAN, CORRUPT, strict=True)):
        assert_close(shifted[text, :s_n].mean(0), p[text, :s_p].mean(0), rtol=1e-5, atol=1e-5)
        assert_close(shifted[text].diff(dim=0), n[text].diff(dim=0), rtol=1e-5, atol=1e-5)


def test_equal_length_cuts_both_and_puts_the_end_back():
    assert equal_length([1, 5, 2], [1, 8, 9, 7, 2], 2) == ([1, 5, 2], [1, 8, 2])
    assert equal_length([5, 6], [8, 9, 7], None) == ([5, 6], [8, 9])
    with pytest.raises(TextError, match="a text is empty"):
        equal_length([], [1], None)


def test_a_share_outside_0_to_1_is_refused():
    for fraction in (-0.1, 1.5):
        with pytest.raises(ParameterError, match=f"fraction={fraction}"):
            random_positions(fraction, seed=0)
