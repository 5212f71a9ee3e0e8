import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.association import (
    CONSTANT,
    TIED,
    association,
    bias_corrected_correlation,
    distance_correlation,
    smooth_surrogates,
)


def centred(x):
    """Doubly centred distances, straight from the definition."""
    d = squareform(pdist(x[:, None]))
    return d - d.mean(0) - d.mean(1)[:, None] + d.mean()


def u_centred(x):
    d, n = squareform(pdist(x[:, None])), len(x)
    a = d - d.sum(0) / (n - 2) - d.sum(1)[:, None] / (n - 2) + d.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(a, 0)
    return a


def ratio(a, b):
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


@given(st.integers(4, 40), st.integers(0, 10**6), st.sampled_from([1.0, 1e-6, 1e6]), st.booleans())
def test_both_forms_equal_their_definitions_with_ties_too(n, seed, scale, tied):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n)
    if tied:
        x, y = np.round(x), np.round(y)
        x[0], x[1], y[0], y[1] = 0, 5, 0, 5
    y = scale * y + 3 * scale
    assert distance_correlation(x, y) == pytest.approx(
        np.sqrt(max(ratio(centred(x), centred(y)), 0)), abs=1e-6
    )
    a, b = u_centred(x), u_centred(y / scale)
    if min((a * a).sum(), (b * b).sum()) < 1e-9:
        assert bias_corrected_correlation(x, y) is TIED
    else:
        assert bias_corrected_correlation(x, y) == pytest.approx(ratio(a, b), abs=1e-8)


@given(st.integers(0, 10**6))
def test_scale_sign_and_order_of_layers_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    x, y, order = rng.normal(size=13), rng.normal(size=13), rng.permutation(13)
    expected = distance_correlation(x, y)
    assert distance_correlation(y, -7 * x + 2) == pytest.approx(expected, abs=1e-9)
    assert distance_correlation(x[order], y[order]) == pytest.approx(expected, abs=1e-9)


def test_only_the_biased_form_finds_dependence_where_there_is_none():
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(400, 2, 25))
    biased = np.array([distance_correlation(x, y) for x, y in pairs])
    corrected = np.array([bias_corrected_correlation(x, y) for x, y in pairs])
    assert 0.30 < biased.mean() < 0.40  # 0.34 in a simulation of the published set-up
    assert abs(corrected.mean()) < 3 * corrected.std() / 20


def test_surrogates_are_as_smooth_as_their_curve():
    curve = np.cumsum(np.random.default_rng(1).normal(size=25))
    drawn = smooth_surrogates(curve, 400, seed=0)
    assert np.allclose(drawn.var(axis=1), curve.var())
    steps = np.square(np.diff(drawn)).mean()
    assert steps == pytest.approx(np.square(np.diff(curve)).mean(), rel=0.25)
    shuffled = np.square(np.diff(np.random.default_rng(0).permuted(np.tile(curve, (400, 1)), axis=1))).mean()
    assert shuffled > 1.5 * steps


def test_unrelated_walks_fool_a_shuffle_of_layers_but_not_the_smooth_null():
    walks = np.cumsum(np.random.default_rng(2).normal(size=(120, 2, 25)), axis=-1)
    found = [association(x, y, n_null=39, seed=0) for x, y in walks]
    assert np.mean([a.p_iid <= 0.05 for a in found]) > 0.3
    assert np.mean([a.p_smooth <= 0.05 for a in found]) < 0.12


def test_a_shared_rough_pattern_is_found():
    x = np.random.default_rng(3).normal(size=25)
    found = association(x, x**3, n_null=199, seed=0)
    assert found.p_smooth <= 0.02
    assert found.dcor > found.null_high
    assert found.n == 25


def test_ranks_agree_with_a_hand_count():
    found = association(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4]), n_null=19)
    assert found.kendall == pytest.approx(4 / 6)  # 5 pairs in order, 1 not
    assert found.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_a_constant_curve_has_no_association():
    rising = np.arange(5.0)
    for flat in (np.zeros(5), np.full(5, 0.1 + 0.2)):
        assert distance_correlation(rising, flat) is CONSTANT
        assert bias_corrected_correlation(flat, rising) is CONSTANT
        assert association(flat, rising) is CONSTANT


def test_a_curve_tied_but_for_one_layer_has_no_bias_corrected_value():
    tied, rising = np.array([0.0, 0, 0, 1]), np.arange(4.0)
    assert bias_corrected_correlation(tied, rising) is TIED
    found = association(tied, rising, n_null=19)
    assert found.dcor_bias_corrected is TIED
    assert 0 < found.dcor < 1


def test_bad_curves_are_named():
    with pytest.raises(ParameterError, match=r"shape \(4,\) and \(5,\)"):
        association(np.arange(4.0), np.arange(5.0))
    with pytest.raises(TooFewError, match="3 layers; an association needs at least 4"):
        association(np.arange(3.0), np.arange(3.0))
    with pytest.raises(NonFiniteError, match="no number"):
        association(np.arange(4.0), np.array([1, 2, np.nan, 4]))
    with pytest.raises(ParameterError, match="n_null=5"):
        association(np.arange(4.0), np.arange(4.0), n_null=5)
