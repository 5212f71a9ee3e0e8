"""R² against scikit-learn, its interval against a loop over resampled rows, and what has no R²."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_weights
from readout.lenses.probe_scores import R2Accumulator, group_r2, r2, r2_difference

NAMES = [("length", "mean"), ("length", "std"), ("marks", "comma")]
GROUPS = [group for group, _ in NAMES]


def rows(n=60, clusters=8, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, 3)) * [1, 5, 0.01] + [300, 0, 0.1]
    prediction = y + rng.normal(size=(n, 3)) * [0.5, 9, 0.004]
    authors = [f"author {i}" for i in np.r_[:clusters, rng.integers(0, clusters, n - clusters)]]
    return torch.from_numpy(y), torch.from_numpy(prediction), authors


def summed(y, prediction, authors, *, names=NAMES, batches=1, constant=None):
    sums = R2Accumulator(names, constant)
    for part in np.array_split(np.arange(len(y)), batches):
        sums.update(y[part], prediction[part], [authors[i] for i in part])
    return sums


def resampled(y, prediction, authors, n_resamples, seed):
    """Rows repeated as often as their author is drawn, and R² from the rows."""
    y, prediction = y.numpy(), prediction.numpy()
    codes = [list(dict.fromkeys(authors)).index(a) for a in authors]
    return np.array(
        [
            r2_score(np.repeat(y, w, axis=0), np.repeat(prediction, w, axis=0), multioutput="raw_values")
            for w in cluster_weights(codes, n_resamples, seed)
        ]
    ).T


def test_r2_and_interval_are_those_of_repeated_rows():
    y, prediction, authors = rows()
    got = r2(y, prediction, authors, NAMES, n_resamples=200, seed=4)
    np.testing.assert_allclose(got.interval.value, r2_score(y, prediction, multioutput="raw_values"))
    low, high = np.quantile(resampled(y, prediction, authors, 200, 4), [0.025, 0.975], axis=1)
    np.testing.assert_allclose(got.interval.low, low)
    np.testing.assert_allclose(got.interval.high, high)
    assert got.names == NAMES
    assert got.interval.n.tolist() == [60] * 3
    assert got.interval.value[1] < -1, "unclipped: worse than the mean is below 0"


def test_group_is_the_mean_of_its_targets_in_every_resample():
    y, prediction, authors = rows()
    got = group_r2(summed(y, prediction, authors, batches=4), GROUPS, n_resamples=200, seed=4)
    draws = resampled(y, prediction, authors, 200, 4)
    expected = np.array([draws[:2].mean(0), draws[2]])
    np.testing.assert_allclose(got.interval.low, np.quantile(expected, 0.025, axis=1))
    np.testing.assert_allclose(got.interval.high, np.quantile(expected, 0.975, axis=1))
    assert (got.names, got.n_targets.tolist(), got.absent) == (["length", "marks"], [2, 1], {})


def test_difference_is_paired_though_rows_come_in_another_order():
    y, prediction, authors = rows()
    other = prediction + 0.3 * y.std(0)
    first, order = summed(y, prediction, authors), np.random.default_rng(1).permutation(60)
    second = summed(y[order], other[order], [authors[i] for i in order], batches=3)
    got = r2_difference(first, second, n_resamples=200, seed=2)
    draws = resampled(y, prediction, authors, 200, 2) - resampled(y, other, authors, 200, 2)
    np.testing.assert_allclose([got.interval.low, got.interval.high], np.quantile(draws, [0.025, 0.975], 1))
    grouped = r2_difference(first, second, GROUPS)
    np.testing.assert_allclose(grouped.interval.value[0], got.interval.value[:2].mean())
    none = r2_difference(first, summed(y[order], prediction[order], [authors[i] for i in order]))
    for limit in (none.interval.value, none.interval.low, none.interval.high):
        np.testing.assert_allclose(limit, 0, atol=1e-9)


def test_difference_of_other_texts_is_refused():
    y, prediction, authors = rows()
    first = summed(y, prediction, authors)
    with pytest.raises(ParameterError, match="another y than first"):
        r2_difference(first, summed(y + 0.01, prediction, authors))
    with pytest.raises(ParameterError, match="other targets or clusters"):
        r2_difference(first, summed(y[:7], prediction[:7], authors[:7]))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), batches=st.integers(1, 12), scale=st.floats(1e-3, 1e3))
def test_batches_and_units_do_not_matter(seed, batches, scale):
    y, prediction, authors = rows(n=20, clusters=4, seed=seed)
    whole = group_r2(summed(y, prediction, authors), NAMES, n_resamples=20).interval
    shifted = summed(scale * y + 2, scale * prediction + 2, authors, batches=batches)
    parts = group_r2(shifted, NAMES, n_resamples=20).interval
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-7)


def test_constant_targets_are_left_out_with_the_reason():
    y, prediction, authors = rows()
    y[:, 2] = 0.1
    got = r2(y, prediction, authors, NAMES, constant=torch.tensor([False, True, False]))
    assert got.names == NAMES[:1]
    assert {name: why.reason for name, why in got.absent.items()} == {
        NAMES[1]: "constant in training",
        NAMES[2]: "constant in the rows to be explained",
    }
    grouped = group_r2(summed(y, prediction, authors), GROUPS)
    assert (grouped.names, grouped.n_targets.tolist()) == (["length"], [2])
    assert grouped.absent["marks"].reason == "no target of the group has an R²"
    with pytest.raises(TooFewError, match="none of 3 targets varies"):
        r2(torch.ones_like(y), prediction, authors, NAMES)


def test_a_target_of_one_author_is_left_out_of_resamples_without_them():
    y, prediction, authors = rows()
    y[:, 2] = 0.3  # an offset that cancels only up to rounding
    y[:3, 2] = torch.tensor([0.0, 0.1, 0.2])
    prediction[:, 2] = y[:, 2] + 0.001
    authors = ["rare"] * 3 + [f"author {i % 7}" for i in range(57)]
    got = group_r2(summed(y, prediction, authors), ["a", "a", "b"], n_resamples=300)
    assert np.isfinite([got.interval.low, got.interval.high]).all()
    assert got.interval.low[1] > 0.9, "resamples without the author would be enormously negative"


def test_bad_input_is_refused():
    y, prediction, authors = rows()
    for name, bad in (("y", (y * torch.nan, prediction)), ("prediction", (y, prediction / 0))):
        with pytest.raises(NonFiniteError, match=f"^{name}: "):
            r2(*bad, authors, NAMES)
    with pytest.raises(TooFewError, match="at least 2"):
        r2(y, prediction, ["one"] * 60, NAMES)
    with pytest.raises(TooFewError, match="no rows so far"):
        group_r2(R2Accumulator(NAMES), GROUPS)
    with pytest.raises(ParameterError, match="groups: 2 for 3 targets"):
        group_r2(summed(y, prediction, authors), GROUPS[:2])
    with pytest.raises(ParameterError, match="all different"):
        R2Accumulator(["a", "a"])
    with pytest.raises(ParameterError, match="constant: 1 for 3"):
        R2Accumulator(NAMES, torch.tensor([True]))
    with pytest.raises(ParameterError, match="level=95"):
        r2(y, prediction, authors, NAMES, level=95.0)
    y, prediction, sums = y.numpy(), prediction.numpy(), R2Accumulator(NAMES)
    for bad in ((y[:9], prediction, authors), (y, prediction, authors[:9]), (y[:, :2], prediction, authors)):
        with pytest.raises(ParameterError, match=r"should be \[row 3\] twice"):
            sums._check(*bad)  # the shapes in the signature of `update` are checked before, in tests alone


def test_authors_may_be_sets_without_an_order():
    y, prediction, authors = rows()
    got = r2(y, prediction, [frozenset({a}) for a in authors], NAMES, n_resamples=50)
    named = r2(y, prediction, authors, NAMES, n_resamples=50)
    np.testing.assert_array_equal(got.interval.low, named.interval.low)
