"""Contrasts on curves with a known shape; a verdict flips when the numbers do."""

import numpy as np
import pytest

from readout.errors import TooFewError
from readout.report.contrasts import middle_change, valley_depth, verdict
from readout.report.intervals import cluster_bootstrap


def _texts(curve, n=60, spread=0.05):
    return np.asarray(curve)[:, None] + spread * np.random.default_rng(0).normal(size=(len(curve), n))


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.9, 0.5, 0.4, 0.8], "holds"),
        ([0.5, 0.8, 0.9, 0.6], "fails"),
        ([0.50, 0.50, 0.50, 0.50], "undecided"),
    ],
)
def test_a_valley_is_found_missed_and_left_open(curve, expected):
    texts = _texts(curve)
    if expected == "undecided":  # a dip of the size of its own error
        texts[1] -= 0.5 * 0.05 / np.sqrt(60)
        texts[2] += 0.1
    got = cluster_bootstrap(texts, list(range(60)), statistic=valley_depth)
    assert verdict(got.low[0], got.high[0], above=0.0) == expected


def test_middle_change_has_the_sign_of_the_curve():
    falling = cluster_bootstrap(
        _texts([120, 116, 114, 113, 118], spread=1.0), list(range(60)), statistic=middle_change
    )
    assert verdict(falling.low[0], falling.high[0], below=0.0) == "holds"
    assert falling.value[0] == pytest.approx(-6, abs=0.6)


def test_sites_too_few_and_a_rule_too_many():
    with pytest.raises(TooFewError, match="at least 3"):
        valley_depth(np.ones((2, 1)))
    with pytest.raises(TooFewError, match="at least 3"):
        middle_change(np.ones((2, 1)))
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0)
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0, above=0.0, below=1.0)
