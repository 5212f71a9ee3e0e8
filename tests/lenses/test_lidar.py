import math

import pytest
import scipy.linalg
import torch

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import lidar, lidar_effective_rank

from . import lens_oracles as oracle


def views(n=10, q=6, d=5, spread=2.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    return spread * torch.randn(n, 1, d, generator=g) + torch.randn(n, q, d, generator=g)


@pytest.mark.parametrize(("n", "q", "d"), [(10, 6, 5), (4, 3, 30), (30, 2, 8), (4, 3, 60)])
def test_equals_the_double_loop(n, q, d):
    x = views(n, q, d)
    assert float(lidar(x)) == pytest.approx(oracle.lidar(x.double().numpy(), 1e-4), abs=1e-8)


def test_equals_the_generalised_eigenproblem_of_scipy():
    x = views().double().numpy()
    means = x.mean(1)
    between = (means - means.mean(0)).T @ (means - means.mean(0)) / len(x)
    within = (x - means[:, None]).reshape(-1, 5)
    values = scipy.linalg.eigh(
        between, within.T @ within / len(within) + 1e-4 * torch.eye(5).numpy(), eigvals_only=True
    )
    assert float(lidar(torch.from_numpy(x))) == pytest.approx(
        oracle.renyi(values / values.sum(), 1), abs=1e-10
    )


def test_an_invertible_map_changes_nothing_without_delta():
    x = views().double()
    a = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert float(lidar(x @ a + 1.0, delta=0.0)) == pytest.approx(float(lidar(x, delta=0.0)), abs=1e-9)
    assert float(lidar(10 * x @ a)) != pytest.approx(float(lidar(x)), abs=1e-9)


def test_bounds_and_order_of_texts():
    x = views(4, 3, 30)
    assert 0 <= float(lidar(x)) <= math.log(3)
    assert float(lidar(x.flip(0).flip(1))) == pytest.approx(float(lidar(x)), abs=1e-12)
    assert float(lidar_effective_rank(x)) == pytest.approx(math.exp(float(lidar(x))))


def test_views_that_are_all_one_text_leave_only_delta():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(5, 1, 4, generator=g).repeat(1, 3, 1)
    means = x[:, 0].double()
    want = oracle.renyi(oracle.eigen_shares(((means - means.mean(0)).T @ (means - means.mean(0))).numpy()), 1)
    assert float(lidar(x)) == pytest.approx(want, abs=1e-9)


def test_bad_input_is_named():
    with pytest.raises(TooFewError, match="1 texts with 6 views"):
        lidar(views(n=1))
    with pytest.raises(TooFewError, match="10 texts with 1 views"):
        lidar(views(q=1))
    with pytest.raises(TooFewError, match="delta=0 needs"):
        lidar(views(2, 2, 30), delta=0.0)
    with pytest.raises(ParameterError, match="delta=-1"):
        lidar(views(), delta=-1.0)
    with pytest.raises(DegenerateError, match="same mean"):
        lidar(views(1).repeat(4, 1, 1))
    with pytest.raises(NonFiniteError):
        lidar(views() * math.nan)
    flat = views()
    flat[..., 0] = 0
    with pytest.raises(DegenerateError, match="singular"):
        lidar(flat, delta=0.0)
    assert float(lidar(flat)) > 0
