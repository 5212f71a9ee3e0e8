"""Contrasts of patch scores against hand numbers and an explicit loop over resamples."""

import numpy as np
import pytest

from readout.lenses import recovery_contrasts as contrasts
from readout.lenses.intervals import cluster_weights
from readout.lenses.recovery import PatchScores

ONES = np.ones((1, 4))
SETS = ["a", "a", "b", "b"]


def scores(curve, gap=1.0, scale=1.0):
    """Four triplets that all recover `curve` [layer] of their gap."""
    corrupt = scale * np.array([0.0, 1.0, 2.0, 3.0])
    patched = corrupt + scale * gap * np.asarray(curve, float)[:, None]
    return PatchScores(corrupt + scale * gap, corrupt, patched, layers=list(range(len(curve))))


def test_centres_by_hand():
    late, early = scores([0.0, 1.0, 0.0]), scores([1.0, 1.0, 0.0])
    assert contrasts.centre_shift(late, early, ONES) == pytest.approx(0.5 - 0.25)
    # What is lost by a patch is no recovery, and the last layer, an identity for mean pooling, takes no part.
    assert contrasts.centre_shift(scores([-1.0, 1.0, 9.0]), late, ONES) == pytest.approx(0.0)
    assert np.isnan(contrasts.centre_shift(scores([0.0, -1.0, 1.0]), late, ONES)).all()


def test_consolidation_by_hand_and_undefined():
    late, early = scores([-1.0, -1.0, 1.0]), scores([1.0, 1.0, 1.0])
    assert contrasts.consolidation_shift(late, early, ONES) == pytest.approx(1.0)
    never = scores([-1.0, -1.0, -1.0])
    assert np.isnan(contrasts.consolidation_shift(never, early, ONES)).all()
    assert contrasts.patch_contrast(contrasts.consolidation_shift, never, early, author_sets=SETS) is None


def test_sensitivity_forgets_the_scale_only_in_units_of_the_gap():
    small, large = scores([0.5, 0.5]), scores([0.5, 0.5], scale=40.0)
    assert contrasts.sensitivity_log_ratio(large, small, ONES) == pytest.approx(np.log(40))
    assert contrasts.sensitivity_log_ratio_in_gaps(large, small, ONES) == pytest.approx(0.0)


def test_other_numbers_by_hand():
    some = scores([0.5, 0.25, 1.0])
    assert contrasts.lowest_recovery(some, ONES) == pytest.approx(25.0)
    assert contrasts.first_rank_recovery_above_chance(some, ONES) == pytest.approx(0.5)
    failing = PatchScores(np.array([0.0, 2, 2, 2]), np.ones(4), np.ones((1, 4)), [0])
    assert contrasts.failure_difference(failing, scores([1.0]), ONES) == pytest.approx(0.25)


def test_intervals_are_those_of_a_loop_over_resampled_author_sets():
    rng = np.random.default_rng(0)
    sets = list("aabbccdd")
    one, two = (
        PatchScores(2 + rng.random(8), rng.random(8), rng.random((4, 8)) * 3, list(range(4)))
        for _ in range(2)
    )
    found = contrasts.patch_contrast(
        contrasts.centre_shift, one, two, author_sets=sets, n_resamples=50, seed=3
    )
    drawn = []
    for weights in cluster_weights(sets, 50, 3):
        centres = []
        for each in (one, two):
            rows = np.repeat(np.arange(8), weights)
            gained = [max(0.0, sum(each.patched[at, i] - each.corrupt[i] for i in rows)) for at in range(4)]
            centres.append(sum(d / 3 * g for d, g in enumerate(gained[:-1])) / sum(gained[:-1]))
        drawn.append(centres[0] - centres[1])
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    assert found["n"] == 8
