import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.alignment import HsicStream, biased_hsic, debiased_hsic, debiased_hsic_of_grams, u_center

from .alignment_oracles import (
    correlated,
    hsic_over_distinct_indices,
    hsic_three_terms,
    independent,
    near_identical,
)


def streamed(x, y, size):
    stream = HsicStream()
    for start in range(0, len(x), size):
        stream.update(x[start : start + size], y[start : start + size])
    return stream.value()


@pytest.mark.parametrize(("d", "d2"), [(2, 3), (30, 40)], ids=["features", "grams"])
def test_is_the_mean_over_distinct_quadruples(d, d2):
    x, y = correlated(n=8, d=d, d2=d2)
    want = hsic_over_distinct_indices((x @ x.T).numpy(), (y @ y.T).numpy())
    assert float(debiased_hsic(x, y)) == pytest.approx(want, rel=1e-11)
    assert float(debiased_hsic_of_grams(x @ x.T, y @ y.T)) == pytest.approx(want, rel=1e-11)


@settings(deadline=None)
@given(
    seed=st.integers(0, 999),
    n=st.integers(4, 30),
    d=st.integers(1, 40),
    d2=st.integers(1, 40),
    size=st.integers(1, 31),
    shift=st.floats(-50, 50),
)
def test_features_grams_stream_and_the_formula_agree(seed, n, d, d2, size, shift):
    x, y = correlated(n=n, d=d, d2=d2, seed=seed)
    x = x + shift
    want = float(hsic_three_terms(x, y))
    scale = float((debiased_hsic(x, x) * debiased_hsic(y, y)).sqrt()) + 1e-9
    for got in (debiased_hsic(x, y), debiased_hsic_of_grams(x @ x.T, y @ y.T), streamed(x, y, size)):
        assert float(got) == pytest.approx(want, rel=1e-9, abs=1e-9 * scale)


def test_u_centred_rows_sum_to_zero_and_only_one_side_needs_it():
    x, y = correlated()
    k, l = x @ x.T, y @ y.T
    torch.testing.assert_close(u_center(k).sum(-1), torch.zeros(len(x), dtype=torch.float64))
    n = len(x)
    torch.testing.assert_close((u_center(k) * l).sum() / (n * (n - 3)), debiased_hsic(x, y))


@given(seed=st.integers(0, 99), c=st.floats(-100, 100))
def test_adding_to_rows_and_columns_of_a_gram_matrix_changes_nothing(seed, c):
    x, y = correlated(n=12, seed=seed)
    k, a = x @ x.T, y[:, 0]
    torch.testing.assert_close(
        debiased_hsic_of_grams(k + a[:, None] + a + c, y @ y.T), debiased_hsic(x, y), rtol=1e-8, atol=1e-10
    )


def test_the_diagonal_is_left_out():
    x, y = correlated()
    k = x @ x.T
    torch.testing.assert_close(
        debiased_hsic_of_grams(k + torch.diag(y[:, 0]), y @ y.T), debiased_hsic(x, y), rtol=1e-12, atol=0
    )


def test_a_stream_of_near_identical_states_keeps_its_digits():
    x = near_identical(cosine=0.9999999)
    centred = x.numpy().astype(np.longdouble) - x.numpy().astype(np.longdouble).mean(0)
    want = float(hsic_three_terms(centred, centred))
    assert float(streamed(x, x, 7)) == pytest.approx(want, rel=1e-7, abs=0)
    assert float(debiased_hsic(x, x)) == pytest.approx(want, rel=1e-7, abs=0)


def test_mean_over_samples_is_the_squared_cross_covariance_and_the_biased_form_is_above_it():
    draws = [independent(10, 3, 4, seed) for seed in range(400)]
    unbiased = np.array([float(debiased_hsic(x, x)) for x, _ in draws])
    assert abs(unbiased.mean() - 3) < 3 * unbiased.std() / 20  # ||I_3||_F² = 3
    assert np.mean([float(biased_hsic(x, x)) for x, _ in draws]) > 3 + 6 * unbiased.std() / 20
    none = np.array([float(debiased_hsic(x, y)) for x, y in draws])
    assert abs(none.mean()) < 3 * none.std() / 20


def test_biased_form_is_the_trace():
    x, y = correlated()
    n = len(x)
    h = np.eye(n) - 1 / n
    want = np.trace(x.numpy() @ x.numpy().T @ h @ y.numpy() @ y.numpy().T @ h) / (n - 1) ** 2
    assert float(biased_hsic(x, y)) == pytest.approx(want, rel=1e-12)


def test_bad_input_is_refused():
    x, y = correlated()
    for few in (lambda: debiased_hsic(x[:3], y[:3]), lambda: streamed(x[:3], y[:3], 2), HsicStream().value):
        with pytest.raises(TooFewError, match=r"(3|0) texts; at least 4"):
            few()
    with pytest.raises(TooFewError, match="gram has 3"):
        u_center(torch.ones(3, 3))
    with pytest.raises(ParameterError, match="x has 40 rows and y 39"):
        debiased_hsic.__wrapped__(x, y[1:])
    with pytest.raises(NonFiniteError, match="y holds NaN"):
        debiased_hsic(x, y / 0)
    with pytest.raises(ParameterError, match="one shape"):
        debiased_hsic_of_grams.__wrapped__(x @ x.T, torch.eye(4))
    stream = HsicStream()
    stream.update(x, y)
    with pytest.raises(ParameterError, match=r"5 and 6 dimensions; \(6, 5\)"):
        stream.update(y, x)
    with pytest.raises(ParameterError, match="x has 0 rows"):
        stream.update(x[:0], y[:0])
