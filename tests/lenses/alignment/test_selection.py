"""Held-out selection, and half-sample intervals of any statistic, against loops and closed forms."""

import numpy as np
import pytest
import torch

from readout.errors import ParameterError, TooFewError
from readout.lenses.alignment import (
    cka_interval,
    debiased_cka,
    half_sample_interval,
    held_out_best,
)
from readout.lenses.preprocess import center


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_held_out_is_the_winner_of_one_half_scored_on_the_other():
    sets, target = normal(5, 20, 6), normal(20, 3, seed=1)
    found = held_out_best(sets, target, prepare=center, n_splits=7, seed=2)
    rng, values = np.random.default_rng(2), []
    for _ in range(7):
        order = rng.permutation(20)
        halves = order[:10], order[10:]
        scores = [
            [float(debiased_cka(center(x[half]), center(target[half]))) for x in sets] for half in halves
        ]
        values.append((scores[1][np.argmax(scores[0])] + scores[0][np.argmax(scores[1])]) / 2)
    assert found["value"] == pytest.approx(np.mean(values))
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(values, [0.025, 0.975]))
    assert found["n"] == 20


def test_a_list_of_sets_of_other_widths_is_scored_as_a_stack_is():
    sets, target = normal(3, 16, 4), normal(16, 2, seed=1)
    stacked, listed = (held_out_best(x, target, prepare=center, seed=1) for x in (sets, list(sets)))
    assert stacked["value"] == pytest.approx(listed["value"])


def test_a_real_signal_survives_and_noise_does_not():
    signal = normal(64, 6)
    sets = torch.cat([normal(30, 64, 6, seed=1), (signal + 0.3 * normal(64, 6, seed=2))[None]])
    assert held_out_best(sets, signal, prepare=center)["value"] > 0.8
    assert abs(held_out_best(sets[:30], signal, prepare=center)["value"]) < 0.05


def test_any_statistic_has_the_interval_that_cka_has():
    x, y = normal(30, 5), normal(30, 4, seed=1) + normal(30, 5)[:, :4]
    closed = cka_interval(x, y, n_resamples=40, seed=3)
    looped = half_sample_interval(
        lambda rows: float(debiased_cka(x[rows], y[rows])), 30, n_resamples=40, seed=3
    )
    for name in ("value", "low", "high", "level", "n"):
        assert getattr(looped, name) == pytest.approx(getattr(closed, name), abs=1e-9)


def test_bad_input_is_named():
    with pytest.raises(TooFewError, match="7 texts; two halves need at least 8"):
        held_out_best(normal(2, 7, 2), normal(7, 2), prepare=center)
    with pytest.raises(ParameterError, match="n_splits=1"):
        held_out_best(normal(2, 8, 2), normal(8, 2), prepare=center, n_splits=1)
    with pytest.raises(TooFewError, match="half-samples need at least 8"):
        half_sample_interval(lambda rows: 0.0, 6)
