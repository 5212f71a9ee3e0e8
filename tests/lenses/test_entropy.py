import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import effective_rank, matrix_entropy, max_entropy, renyi_entropy, spectrum

from . import lens_oracles as oracle

ALPHAS = (0.5, 1.0, 2.0, 3.0, 50.0, math.inf)


def matrix(seed, n, d):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


shapes = st.tuples(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("n", "d"), [(6, 20), (20, 6), (7, 7)])
def test_entropy_equals_a_full_eigendecomposition(n, d, alpha):
    z = matrix(1, n, d)
    want = oracle.renyi(oracle.eigen_shares((z @ z.T).numpy()), alpha)
    assert float(matrix_entropy(z, alpha)) == pytest.approx(want, abs=1e-12)


def test_shannon_order_equals_scipy():
    p = torch.tensor([0.2, 0.3, 0.5, 0.0], dtype=torch.float64)
    assert float(renyi_entropy(p, 1.0)) == pytest.approx(scipy.stats.entropy(p.numpy()), abs=1e-15)


def test_a_high_order_does_not_underflow():
    p = torch.full((1000,), 1e-3, dtype=torch.float64)
    assert float(renyi_entropy(p, 500.0)) == pytest.approx(math.log(1000), abs=1e-12)


def test_spectrum_of_both_sides_agrees_and_is_batched():
    z = torch.stack([matrix(s, 5, 9) for s in range(3)])
    torch.testing.assert_close(spectrum(z), spectrum(z.mT), atol=1e-14, rtol=0)
    torch.testing.assert_close(spectrum(z)[1], spectrum(z[1]), atol=1e-14, rtol=0)
    want = np.linalg.svd(z[0].numpy(), compute_uv=False)[::-1] ** 2
    np.testing.assert_allclose(spectrum(z)[0].numpy(), want / want.sum(), atol=1e-14)


@given(shapes)
def test_entropy_lies_between_zero_and_the_log_of_the_smaller_side(shape):
    entropy = float(matrix_entropy(matrix(*shape)))
    assert 0 <= entropy <= max_entropy(*shape[1:], centered=False) + 1e-12


@given(shapes, st.floats(1e-3, 1e3))
def test_scale_and_rotation_change_nothing(shape, scale):
    z = matrix(*shape)
    q, _ = torch.linalg.qr(matrix(0, z.shape[1], z.shape[1]))
    for measure in (matrix_entropy, effective_rank):
        assert float(measure(scale * z @ q)) == pytest.approx(float(measure(z)), abs=1e-6)


@given(shapes)
def test_entropy_falls_as_the_order_grows(shape):
    values = [float(matrix_entropy(matrix(*shape), a)) for a in ALPHAS]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))


@given(shapes)
def test_effective_rank_is_never_below_the_exponential_of_the_entropy(shape):
    z = matrix(*shape)
    assert float(effective_rank(z)) >= float(matrix_entropy(z).exp()) - 1e-9


def test_the_theorem_of_the_paper_has_the_order_reversed():
    z = torch.diag(torch.tensor([3.0, 1.0]))
    assert round(float(effective_rank(z)), 3) == 1.755
    assert round(float(matrix_entropy(z).exp()), 3) == 1.384


def test_repeated_rows_add_no_rank():
    z = matrix(3, 4, 50).repeat(30, 1)
    assert float(effective_rank(z)) == pytest.approx(float(effective_rank(matrix(3, 4, 50))), abs=1e-9)


def test_known_entropies():
    assert float(matrix_entropy(torch.eye(8))) == pytest.approx(math.log(8))
    assert float(matrix_entropy(torch.ones(8, 5))) == 0.0
    assert float(matrix_entropy(torch.ones(1, 5), alpha=2.0)) == 0.0
    assert max_entropy(5, 100, centered=True) == math.log(4)
    assert max_entropy(500, 100, centered=True) == math.log(100)


def test_bad_input_is_named():
    with pytest.raises(DegenerateError, match="matrix is zero"):
        spectrum(torch.zeros(3, 2))
    with pytest.raises(DegenerateError, match="matrix is zero"):
        matrix_entropy(torch.zeros(3, 2), alpha=2.0)
    with pytest.raises(TooFewError, match=r"z has shape \(0, 2\)"):
        matrix_entropy(torch.zeros(0, 2))
    with pytest.raises(NonFiniteError):
        matrix_entropy(torch.tensor([[math.nan, 1.0]]), alpha=2.0)
    with pytest.raises(TooFewError, match="no direction"):
        max_entropy(1, 5, centered=True)
    with pytest.raises(ParameterError, match="do not sum to 1"):
        renyi_entropy(torch.tensor([0.5, 0.4]), 1.0)
    for alpha in (0.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="alpha > 0"):
            matrix_entropy(torch.eye(2), alpha)


def test_a_matrix_that_is_no_gram_matrix_is_refused():
    from readout.lenses.entropy import gram_spectrum

    with pytest.raises(ParameterError, match="negative eigenvalues"):
        gram_spectrum(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
