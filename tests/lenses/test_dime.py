import itertools
import math

import numpy as np
import pytest
import torch

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses import dime, dime_order_two, unit_rows

from . import lens_oracles as oracle


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pair(n, d, noise):
    g = seeded(1)
    a = torch.randn(n, d, generator=g)
    return a, a + noise * torch.randn(n, d, generator=g)


@pytest.mark.parametrize(("n", "d"), [(6, 20), (20, 6)])
def test_equals_a_loop_over_the_same_permutations(n, d):
    a, b = pair(n, d, 0.5)
    ka, kb = ((unit_rows(x) @ unit_rows(x).T).numpy() for x in (a, b))
    entropy = lambda k: oracle.renyi(oracle.eigen_shares(k), 1)  # noqa: E731
    g = seeded()
    orders = [torch.randperm(n, generator=g).numpy() for _ in range(3)]
    shuffled = np.mean([entropy(ka * kb[np.ix_(o, o)]) for o in orders])
    got = dime(a, b, generator=seeded(), n_permutations=3)
    assert float(got) == pytest.approx(shuffled - entropy(ka * kb), abs=1e-10)


def test_order_two_is_exact_over_all_permutations():
    a, b = pair(4, 3, 1.0)
    ka, kb = ((unit_rows(x) @ unit_rows(x).T).numpy() for x in (a, b))
    potential = lambda k: (k**2).sum() / np.trace(k) ** 2  # noqa: E731
    orders = list(itertools.permutations(range(4)))
    mean = np.mean([potential(ka * kb[np.ix_(o, o)]) for o in orders])
    exact = float(dime_order_two(a, b))
    assert exact == pytest.approx(math.log(potential(ka * kb)) - math.log(mean), abs=1e-12)
    entropies = np.mean([-math.log(potential(ka * kb[np.ix_(o, o)])) for o in orders])
    assert exact <= entropies + math.log(potential(ka * kb)) + 1e-12


def test_sampling_at_order_two_comes_near_the_exact_form():
    a, b = pair(40, 10, 0.5)
    sampled = dime(a, b, generator=seeded(), n_permutations=200, alpha=2.0)
    assert float(sampled) == pytest.approx(float(dime_order_two(a, b)), abs=2e-3)


def test_matched_views_score_higher_than_independent_ones():
    a, b = pair(30, 10, 0.2)
    independent = torch.randn(30, 10, generator=seeded(9))
    for measure in (dime_order_two, lambda x, y: dime(x, y, generator=seeded(), n_permutations=50)):
        assert float(measure(a, b)) > 0.05
        assert abs(float(measure(a, independent))) < 0.02


def test_a_view_that_says_nothing_gives_zero():
    a, _ = pair(6, 4, 1.0)
    assert float(dime(a, torch.ones(6, 2), generator=seeded())) == pytest.approx(0.0, abs=1e-9)
    assert float(dime_order_two(a, torch.ones(6, 2))) == pytest.approx(0.0, abs=1e-12)


def test_the_generator_decides():
    a, b = pair(12, 4, 0.5)
    assert dime(a, b, generator=seeded(3)) == dime(a, b, generator=seeded(3))
    assert dime(a, b, generator=seeded(3)) != dime(a, b, generator=seeded(4))


def test_bad_input_is_named():
    a = torch.eye(3)
    with pytest.raises(TooFewError, match="a has 1 text"):
        dime(a[:1], a[:1], generator=seeded())
    with pytest.raises(ParameterError, match="n_permutations=0"):
        dime(a, a, generator=seeded(), n_permutations=0)
    with pytest.raises(ParameterError, match="alpha"):
        dime(a, a, generator=seeded(), alpha=-1.0)
    with pytest.raises(DegenerateError, match="rows of length 0"):
        dime_order_two(a, torch.zeros(3, 2))
    with pytest.raises(ParameterError, match="a has 3 texts and b 2"):
        dime_order_two.__wrapped__(a, a[:2])
