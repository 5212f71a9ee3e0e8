import numpy as np
import pytest
import torch

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.alignment import cka_difference, cka_interval, debiased_cka, permutation_test
from readout.lenses.alignment.uncertainty import _cka_of_halves, _half_samples

from .alignment_oracles import correlated, independent, near_identical


@pytest.mark.parametrize("n", [20, 21])
def test_weights_give_cka_of_each_half_sample(n):
    x, y = correlated(n=n)
    halves = _half_samples(n, 30, 0.95, seed=1)
    assert set(halves.sum(-1).tolist()) == {n // 2}
    assert len(halves.unique(dim=0)) == 30
    want = torch.stack([debiased_cka(x[w.bool()], y[w.bool()]) for w in halves])
    torch.testing.assert_close(_cka_of_halves(x, y, halves), want)


def test_near_identical_states_keep_their_digits_in_half_samples():
    x, y = near_identical(n=30), near_identical(n=30, d=20)
    halves = _half_samples(30, 10, 0.95, seed=0)
    want = torch.stack([debiased_cka(x[w.bool()], y[w.bool()]) for w in halves])
    torch.testing.assert_close(_cka_of_halves(x, y, halves), want, rtol=0, atol=1e-8)


def test_limits_reflect_the_quantiles_of_the_deviations():
    x, y = correlated(n=20, noise=2.0)
    deviations = _cka_of_halves(x, y, _half_samples(20, 50, 0.9, seed=0)).numpy() - float(debiased_cka(x, y))
    low, high = np.quantile(deviations, [0.05, 0.95])
    assert abs(low + high) > 0.01  # not symmetric, so the signs matter
    interval = cka_interval(x, y, n_resamples=50, level=0.9)
    assert (interval.value - interval.high, interval.value - interval.low) == pytest.approx((low, high))


def test_width_is_that_of_repeated_samples_and_the_interval_covers():
    population = correlated(n=80 * 150, d=4, d2=4, noise=1.5, seed=0)
    truth = float(debiased_cka(*population))
    many = [tuple(z[80 * i : 80 * (i + 1)] for z in population) for i in range(150)]
    intervals = [cka_interval(x, y, n_resamples=200) for x, y in many]
    spread = np.std([i.value for i in intervals])
    widths = [(i.high - i.low) / (2 * 1.96) for i in intervals]
    assert np.mean(widths) == pytest.approx(spread, rel=0.25)
    assert 0.87 < np.mean([i.low <= truth <= i.high for i in intervals]) <= 0.99


def test_unrelated_features_hold_zero_in_the_interval():
    holds = [
        (i := cka_interval(*independent(60, 5, 5, seed), n_resamples=100)).low <= 0 <= i.high
        for seed in range(60)
    ]
    assert np.mean(holds) >= 0.95


def test_a_bootstrap_with_replacement_would_find_alignment_where_there_is_none():
    x, y = independent(300, 400, 300)
    rng = np.random.default_rng(0)
    drawn = [debiased_cka(x[rows], y[rows]) for rows in rng.integers(0, 300, (5, 300))]
    assert 0.4 < float(torch.stack(drawn).mean()) < 0.7
    interval = cka_interval(x, y, n_resamples=50)
    assert abs(interval.value) < 0.02
    assert -0.03 < interval.low < 0 < interval.high < 0.03


def test_a_paired_difference_is_narrower_than_two_intervals_and_signed():
    x, y = correlated(n=100)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=x.dtype)
    worse = x + 2 * noise
    difference = cka_difference(x, worse, y, n_resamples=200)
    assert difference.value == pytest.approx(float(debiased_cka(x, y) - debiased_cka(worse, y)))
    assert 0 < difference.low < difference.value < difference.high
    one, other = (cka_interval(z, y, n_resamples=200) for z in (x, worse))
    assert difference.high - difference.low < 0.7 * np.hypot(one.high - one.low, other.high - other.low)
    swapped = cka_difference(worse, x, y, n_resamples=200)
    assert (swapped.low, swapped.high) == pytest.approx((-difference.high, -difference.low))


def test_level_and_seed():
    x, y = correlated()
    wide, narrow = (cka_interval(x, y, level=level, n_resamples=100) for level in (0.95, 0.5))
    assert wide.low < narrow.low < narrow.value == wide.value < narrow.high < wide.high
    assert (wide.level, wide.n) == (0.95, 40)
    assert cka_interval(x, y, n_resamples=100) == wide != cka_interval(x, y, n_resamples=100, seed=1)


def test_permutation_p_is_uniform_without_alignment_and_small_with_it():
    p = [permutation_test(*independent(30, 4, 4, seed), n_permutations=39).p for seed in range(150)]
    assert min(p) >= 1 / 40
    assert np.mean(np.array(p) <= 0.1) == pytest.approx(0.1, abs=0.07)
    assert np.mean(p) == pytest.approx(0.5, abs=0.1)
    found = permutation_test(*correlated(), n_permutations=99)
    assert (found.p, found.n_permutations) == (0.01, 99)
    assert found.value == float(debiased_cka(*correlated()))


def test_permutation_null_is_cka_of_shuffled_rows_and_its_sd_is_near_root_two_by_n():
    x, y = independent(200, 300, 300)
    found = permutation_test(x, y, n_permutations=200, seed=3)
    rng = np.random.default_rng(3)
    null = torch.stack([debiased_cka(x, y[rng.permutation(200)]) for _ in range(200)])
    assert found.null_sd == pytest.approx(float(null.std()))
    assert found.p == pytest.approx((1 + int((null >= found.value).sum())) / 201)
    assert found.null_sd == pytest.approx(2**0.5 / 200, rel=0.2)


def test_bad_input_is_refused():
    x, y = correlated()
    with pytest.raises(TooFewError, match="7 texts; half-samples need at least 8"):
        cka_interval(x[:7], y[:7])
    with pytest.raises(ParameterError, match=r"level=1\.5"):
        cka_interval(x, y, level=1.5)
    with pytest.raises(ParameterError, match="n_resamples=5"):
        cka_difference(x, x, y, n_resamples=5)
    with pytest.raises(ParameterError, match="n_permutations=5"):
        permutation_test(x, y, n_permutations=5)
    rare = torch.zeros(12, 1)
    rare[:2] = torch.tensor([[1.0], [2.0]])
    with pytest.raises(DegenerateError, match="x is constant over half"):
        cka_interval(rare, y[:12])
