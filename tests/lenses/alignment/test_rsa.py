import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from readout.errors import DegenerateError, NonFiniteError, TooFewError
from readout.lenses.alignment import rsa

from .alignment_oracles import correlated, independent


def average_ranks(v):
    return np.array([(v < a).sum() + ((v == a).sum() + 1) / 2 for a in v])


def test_equals_pearson_of_the_ranks_of_scipy_distances():
    x, y = correlated(n=20)
    ranks = [average_ranks(pdist(z.numpy(), "cosine")) for z in (x, y)]
    assert float(rsa(x, y)) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)


@settings(deadline=None)
@given(seed=st.integers(0, 999), low=st.floats(0.01, 1))
def test_rotation_and_any_scale_per_row_change_nothing(seed, low):
    x, y = correlated(n=12, seed=seed)
    q, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(seed), dtype=x.dtype))
    scales = torch.linspace(low, 7, len(x), dtype=x.dtype)[:, None]
    assert float(rsa(scales * x @ q, y)) == pytest.approx(float(rsa(x, y)), abs=1e-6)


def test_ends_of_the_scale():
    x, y = independent(150, 30, 30)
    assert float(rsa(x, x)) == pytest.approx(1)
    assert abs(float(rsa(x, y))) < 0.05


def test_bad_input_is_refused():
    x, y = correlated()
    with pytest.raises(DegenerateError, match="y has equal distances"):
        rsa(torch.eye(6) + torch.arange(6.0)[:, None], torch.eye(6))
    turned, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double())
    with pytest.raises(DegenerateError, match="x has equal distances"):
        rsa(turned, torch.randn(6, 2, generator=torch.Generator().manual_seed(1)))
    with pytest.raises(DegenerateError, match="1 rows of length 0"):
        rsa(x, y * (torch.arange(len(y)) > 0)[:, None])
    with pytest.raises(TooFewError, match="3 texts"):
        rsa(x[:3], y[:3])
    with pytest.raises(NonFiniteError, match="x holds NaN"):
        rsa(x / 0, y)
