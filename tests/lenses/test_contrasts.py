"""Contrasts on curves with a known shape; a verdict flips when the numbers do."""

import numpy as np
import pandas as pd
import pytest

from readout.errors import ParameterError, TooFewError
from readout.lenses.contrasts import (
    contrast,
    curve_of,
    last_difference,
    middle_change,
    valley_depth,
    valley_difference,
)
from readout.report.verdicts import verdict

AUTHORS = [str(i) for i in range(60)]


def _texts(curve, spread=0.05, seed=0):
    return np.asarray(curve)[:, None] + spread * np.random.default_rng(seed).normal(size=(len(curve), 60))


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.9, 0.5, 0.4, 0.8], "holds"),
        ([0.5, 0.8, 0.9, 0.6], "fails"),
    ],
)
def test_a_valley_is_found_or_missed(curve, expected):
    got = contrast(valley_depth, _texts(curve), authors=AUTHORS)
    assert verdict(got["low"], got["high"], above=0.0) == expected
    assert got["low"] < got["value"] < got["high"]


def test_a_dip_of_the_size_of_its_error_is_left_open():
    texts = _texts([0.5, 0.5, 0.7, 0.5])
    texts[1] += 0.5 - texts[1].mean() - 0.2 * 0.05 / np.sqrt(60)
    texts[[0, 3]] += 0.5 - texts[[0, 3]].mean(1, keepdims=True)
    got = contrast(valley_depth, texts, authors=AUTHORS)
    assert verdict(got["low"], got["high"], above=0.0) == "undecided"


def test_middle_change_has_the_sign_of_the_curve():
    falling = contrast(middle_change, _texts([120, 116, 114, 113, 118], spread=1.0), authors=AUTHORS)
    assert verdict(falling["low"], falling["high"], below=0.0) == "holds"
    assert falling["value"] == pytest.approx(-6, abs=0.6)


def test_curves_of_one_contrast_are_resampled_together():
    texts = _texts([0.9, 0.5, 0.8], spread=0.3)
    got = contrast(last_difference, texts + 0.1, texts, authors=AUTHORS)
    np.testing.assert_allclose([got["value"], got["low"], got["high"]], 0.1)


def test_curves_of_two_models_may_differ_in_length():
    got = contrast(
        valley_difference, _texts([0.9, 0.9, 0.9]), _texts([0.9, 0.4, 0.5, 0.8], seed=1), authors=AUTHORS
    )
    assert got["value"] == pytest.approx(-0.4, abs=0.03)


def test_curve_of_selects_and_orders():
    rows = [
        {
            "layer": layer,
            "text": t,
            "metric": "m",
            "norm": "raw",
            "convention": c,
            "first_token": "kept",
            "value": v,
        }
        for c, sign in (("corrected", 1.0), ("as_published", -1.0))
        for t in (1, 0)
        for layer, v in ((1, sign * (10 + t)), (0, None if t else sign * t))
    ]
    got = curve_of(pd.DataFrame(rows).astype({"value": "Float64"}), "m")
    np.testing.assert_array_equal(got, [[0.0, np.nan], [10.0, 11.0]])
    with pytest.raises(ParameterError, match="no rows with"):
        curve_of(pd.DataFrame(rows), "m", norm="final")


def test_sites_too_few_and_a_rule_too_many():
    for statistic in (valley_depth, middle_change):
        with pytest.raises(TooFewError, match="at least 3"):
            statistic(np.ones((2, 1)))
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0)
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0, above=0.0, below=1.0)
