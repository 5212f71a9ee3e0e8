import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import unit_rows
from readout.lenses.alignment import cknna, mutual_knn, published_steps

from .alignment_oracles import correlated, independent


def nearest(x, k):
    """By cosine distance, from an independent package; the text itself is its own nearest and is dropped."""
    found = NearestNeighbors(n_neighbors=k + 1, metric="cosine", algorithm="brute").fit(x)
    return [set(row) - {i} for i, row in enumerate(found.kneighbors(x, return_distance=False))]


def cknna_by_loops(x, y, near_x, near_y):
    k, l = x @ x.T, y @ y.T
    n = len(k)

    def row(gram, i):
        return np.mean([gram[i, j] for j in range(n) if j != i])

    def align(a, b, near):
        return sum((a[i, j] - row(a, i)) * (b[i, j] - row(b, i)) for i in range(n) for j in near[i])

    both = [a & b for a, b in zip(near_x, near_y, strict=True)]
    return align(k, l, both) / np.sqrt(align(k, k, near_x) * align(l, l, near_y))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), k=st.integers(1, 10))
def test_equal_the_slow_forms(seed, k):
    x, y = (unit_rows(z) for z in correlated(n=15, seed=seed))
    near_x, near_y = nearest(x.numpy(), k), nearest(y.numpy(), k)
    share = np.mean([len(a & b) / k for a, b in zip(near_x, near_y, strict=True)])
    assert float(mutual_knn(x, y, k)) == pytest.approx(share, abs=1e-12)
    want = cknna_by_loops(x.numpy(), y.numpy(), near_x, near_y)
    assert float(cknna(x, y, k)) == pytest.approx(want, abs=1e-10)


@given(seed=st.integers(0, 999), scale=st.floats(0.01, 100))
def test_rotation_and_one_scale_change_nothing(seed, scale):
    x, y = correlated(n=15, seed=seed)
    q, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(seed), dtype=x.dtype))
    for metric in (mutual_knn, cknna):
        assert float(metric(scale * x @ q, y, 3)) == pytest.approx(float(metric(x, y, 3)), abs=1e-9)


def test_ends_of_the_scale():
    x, _ = correlated(n=60)
    assert float(mutual_knn(x, x)) == 1
    assert float(cknna(x, x)) == pytest.approx(1)
    a, b = (published_steps(z) for z in independent(400, 20, 20))
    assert float(mutual_knn(a, b)) == pytest.approx(10 / 399, abs=0.01)
    assert abs(float(cknna(a, b))) < 0.1


def test_ties_go_to_the_earlier_text():
    same = torch.ones(5, 2)
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    # by index: 0 -> 1, others -> 0; by x: 0 -> 1, 1 -> 0, 2 -> 0, 3 -> 4, 4 -> 3
    assert float(mutual_knn(same, x, k=1)) == pytest.approx(3 / 5)
    falling = torch.arange(200.0, 0, -1)[:, None]  # the largest inner products are with the earliest texts
    assert float(mutual_knn(torch.ones(200, 2), falling)) == 1


def test_bad_input_is_refused():
    x, y = correlated()
    for metric in (mutual_knn, cknna):
        with pytest.raises(ParameterError, match="k=40 is out of range; 1 <= k <= 39"):
            metric(x, y, 40)
        with pytest.raises(ParameterError, match="k=0"):
            metric(x, y, 0)
        with pytest.raises(TooFewError, match="x has 3 texts"):
            metric(x[:3], y[:3], 1)
        with pytest.raises(NonFiniteError, match="x holds NaN"):
            metric(x / 0, y)
    with pytest.raises(DegenerateError, match="y has the same similarity"):
        cknna(x, torch.ones(40, 3) / 3)
