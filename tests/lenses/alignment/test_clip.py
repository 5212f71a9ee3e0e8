import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses.alignment import clip_quantile, corrected_steps, published_steps

from .alignment_oracles import correlated


@given(seed=st.integers(0, 999), d=st.integers(1, 30), q=st.floats(0.01, 1))
def test_bound_is_the_mean_of_the_rows_quantiles(seed, d, q):
    x, _ = correlated(n=7, d=d, seed=seed)
    bound = np.quantile(np.abs(x.numpy()), q, axis=1).mean()
    np.testing.assert_allclose(clip_quantile(x, q), x.numpy().clip(-bound, bound), rtol=1e-12)


def test_each_set_of_a_batch_has_its_own_bound():
    x, _ = correlated()
    both = clip_quantile(torch.stack([x, 10 * x]))
    torch.testing.assert_close(both, torch.stack([clip_quantile(x), 10 * clip_quantile(x)]))


def test_more_entries_than_torch_quantile_takes():
    assert clip_quantile(torch.ones(2**12 + 1, 2**12)).shape == (2**12 + 1, 2**12)


def test_steps_give_cosines_and_then_a_zero_mean():
    x, _ = correlated()
    torch.testing.assert_close(published_steps(x).norm(dim=-1), torch.ones(len(x), dtype=torch.float64))
    torch.testing.assert_close(
        corrected_steps(x), published_steps(x) - published_steps(x).mean(0), rtol=0, atol=1e-15
    )


def test_half_precision_does_not_overflow():
    x = torch.full((4, 300), 60000.0).half()
    x[:, 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.testing.assert_close(published_steps(x), published_steps(x.double()))


def test_bad_input_is_refused():
    x, _ = correlated()
    with pytest.raises(ParameterError, match=r"q=1\.5"):
        clip_quantile(x, 1.5)
    with pytest.raises(TooFewError, match=r"\(0, 3\)"):
        clip_quantile(torch.zeros(0, 3))
    with pytest.raises(NonFiniteError, match="NaN"):
        clip_quantile(x * torch.nan)
    with pytest.raises(DegenerateError, match="1 rows of length 0"):
        published_steps(x * (torch.arange(len(x)) > 0)[:, None])
