"""Numbers by hand, a loop over resamples as oracle, and what is left out counted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import Absent
from readout.lenses.intervals import cluster_weights
from readout.lenses.recovery import (
    PatchScores,
    rank_recovery,
    recovery,
    recovery_ratio,
    sensitivity,
)
from readout.lenses.recovery_table import onset, recovery_table

CLEAN = np.array([3.0, 5.0, 1.0, 2.0])  # eligible, eligible, failed, tied
CORRUPT = np.array([1.0, 1.0, 2.0, 2.0])
PATCHED = np.array([[0.0, 2.0, 2.0, 6.0], [2.0, 2.0, 1.0, 2.0], [3.0, 6.0, 1.0, 1.0]])
BY_HAND = {
    "recovery": [(-50 + 25) / 2, (50 + 25) / 2, (100 + 125) / 2],
    "recovery_ratio": [0.0, 100 * 2 / 6, 100 * 7 / 6],
    "rank_recovery": [0.5, 1.0, 1.0],
    "sensitivity": [6 / 4, 3 / 4, 9 / 4],
    "sensitivity_per_gap": [6 / 7, 3 / 7, 9 / 7],
    "sensitivity_per_sd": [6 / 8, 3 / 8, 9 / 8],
}
SINGLE = {
    "failure_rate": 0.25,
    "consolidation_layer": 6,
    "inflection_layer": 8,
    "n_eligible": 2,
    "n_left_out": 2,
    "n_tied": 1,
}
SETS = [frozenset("ab"), frozenset("b"), frozenset("a"), frozenset("ab")]


def by_hand_scores():
    return PatchScores(CLEAN, CORRUPT, PATCHED, layers=[4, 6, 8])


def random_scores(n=40, n_layers=5, seed=0):
    rng = np.random.default_rng(seed)
    clean, corrupt = rng.normal(0.5, 1, n), rng.normal(0, 1, n)
    clean[:3] = corrupt[:3]
    patched = corrupt + np.linspace(0.1, 0.9, n_layers)[:, None] * (clean - corrupt)
    patched += 0.5 * rng.normal(size=(n_layers, n))
    return PatchScores(clean, corrupt, patched, list(range(n_layers))), rng.integers(0, 9, n).tolist()


def test_every_metric_by_hand():
    # Standard deviation of 1 and 3, with n - 1: sqrt 2; of 2 apart around 2 scaled to 2.
    negatives = np.array([1.0, 1.0 + 2 * np.sqrt(2)])
    table = recovery_table(by_hand_scores(), SETS, random_negatives=negatives, n_resamples=50)
    assert list(table) == ["layer", "metric", "unit", "value", "low", "high", "level", "n"]
    for metric, expected in BY_HAND.items():
        rows = table[table["metric"] == metric]
        assert rows["layer"].tolist() == [4, 6, 8]
        np.testing.assert_allclose(rows["value"].to_numpy(float), expected, atol=1e-12)
        assert set(rows["n"]) == {4 if metric.startswith("sensitivity") else 2}
    for metric, expected in SINGLE.items():
        row = table[table["metric"] == metric]
        assert row["value"].item() == expected
        assert row["layer"].isna().item()


def one_by_one(scores, weights):
    """Triplet by triplet, each as often as it was drawn."""
    drawn = np.repeat(np.arange(len(weights)), weights)
    out = {name: [] for name in BY_HAND}
    for patched in scores.patched:
        ratios, gains, gaps, ranks, moves, all_gaps = [], [], [], [], [], []
        for i in drawn:
            p, n, x = scores.clean[i], scores.corrupt[i], patched[i]
            moves.append(abs(x - n))
            all_gaps.append(abs(p - n))
            if p > n + 1e-8:
                ratios.append(100 * (x - n) / (p - n))
                gains.append(x - n)
                gaps.append(p - n)
                ranks.append(x > n)
        out["recovery"].append(np.mean(ratios))
        out["recovery_ratio"].append(100 * np.mean(gains) / np.mean(gaps))
        out["rank_recovery"].append(np.mean(ranks))
        out["sensitivity"].append(np.mean(moves))
        out["sensitivity_per_gap"].append(np.mean(moves) / np.mean(all_gaps))
        out["sensitivity_per_sd"].append(np.mean(moves) / 2)
    first = {}
    for name, curve, threshold in (
        ("consolidation_layer", out["rank_recovery"], 0.75),
        ("inflection_layer", out["recovery"], 50),
    ):
        first[name] = next(
            (layer for layer, y in zip(scores.layers, curve, strict=True) if y >= threshold), None
        )
    return out, first


def test_values_and_intervals_against_a_loop():
    scores, authors = random_scores()
    table = recovery_table(
        scores, authors, random_negatives=np.array([0, 2 * np.sqrt(2)]), n_resamples=60, level=0.9, seed=4
    )
    sample, first = one_by_one(scores, np.ones(40, int))
    # Codes are given in the order of appearance.
    codes = [list(dict.fromkeys(authors)).index(a) for a in authors]
    resamples = [one_by_one(scores, w) for w in cluster_weights(codes, 60, 4)]
    for metric, expected in sample.items():
        rows = table[table["metric"] == metric]
        limits = np.quantile([r[0][metric] for r in resamples], [0.05, 0.95], axis=0)
        np.testing.assert_allclose(rows[["value", "low", "high"]].to_numpy(float).T, [expected, *limits])
    for metric, expected in first.items():
        found = sorted(r[1][metric] for r in resamples if r[1][metric] is not None)
        row = table[table["metric"] == metric].iloc[0]
        assert row["value"] == expected
        assert (row["low"], row["high"]) == tuple(np.quantile(found, [0.05, 0.95], method="inverted_cdf"))
        exists = table.loc[table["metric"] == metric.replace("layer", "exists"), "value"].item()
        assert exists == pytest.approx(len(found) / 60)


def test_a_threshold_that_is_never_reached_is_absent():
    scores = PatchScores(np.full(4, 2.0), np.ones(4), np.zeros((2, 4)), [0, 1])
    table = recovery_table(scores, list("abcd"), n_resamples=20).set_index("metric")
    assert (
        table.loc[["consolidation_layer", "inflection_layer"], ["value", "low", "high"]].isna().all(axis=None)
    )
    assert table.loc["consolidation_exists", "value"] == 0
    never, sometimes = np.array([[0.5], [0.7]]), np.array([[0.5, 0.5, 0.5, 0.8], [0.7, 0.9, 0.7, 0.8]])
    found = onset(never, sometimes, [3, 5], 0.75)
    assert found.value == Absent("no layer reaches 0.75")
    assert (found.low, found.high, found.share) == (3, 5, 0.5)


def test_one_tiny_gap_ruins_the_mean_of_ratios_and_not_the_ratio_of_means():
    clean, corrupt = np.array([2.0, 2.0, 1.0 + 1e-6]), np.ones(3)
    scores = PatchScores(clean, corrupt, np.array([[1.5, 1.5, 1.5]]), [0])
    assert recovery(scores, np.ones((1, 3))).item() > 1e6
    assert recovery_ratio(scores, np.ones((1, 3))).item() == pytest.approx(75, rel=1e-5)


def test_author_sets_are_compared_as_sets_and_drawn_whole():
    scores, _ = random_scores(12)
    # By the order of inclusion {a} and {b} are neither less nor greater: sorting would tear an author-set apart.
    sets = [frozenset(s) for s in ("ab", "c", "ba", "b", "c", "b") * 2]
    names = ["".join(sorted(s)) for s in sets]
    pd.testing.assert_frame_equal(
        recovery_table(scores, sets, n_resamples=30), recovery_table(scores, names, n_resamples=30)
    )


def test_intervals_hold_whatever_a_resample_misses():
    # One eligible triplet alone in its author-set: some resamples have none.
    scores = PatchScores(np.array([2.0, 0.0, 1.0]), np.ones(3), np.full((1, 3), 1.5), [0])
    table = recovery_table(scores, list("abc"), n_resamples=200).set_index("metric")
    assert table.loc["recovery", ["value", "low", "high"]].tolist() == [50, 50, 50]
    assert 0 < table.loc["consolidation_exists", "value"] < 1


@given(st.integers(0, 999), st.floats(0.1, 50), st.floats(-5, 5))
def test_scale_and_shift_of_the_score_change_no_recovery(seed, scale, shift):
    scores, _ = random_scores(seed=seed)
    moved = PatchScores(
        *(scale * x + shift for x in (scores.clean, scores.corrupt, scores.patched)), scores.layers
    )
    ones = np.ones((1, 40))
    usable = (scores.eligible == moved.eligible).all() and (scores.clean - scores.corrupt)[
        scores.eligible
    ].min()
    if usable and usable > 1e-3:
        for statistic in (recovery, recovery_ratio, rank_recovery):
            np.testing.assert_allclose(statistic(scores, ones), statistic(moved, ones), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scale * sensitivity(scores, ones), sensitivity(moved, ones), rtol=1e-6)


def test_without_an_eligible_triplet_recovery_is_a_gap():
    scores = PatchScores(CORRUPT, CORRUPT, PATCHED, [4, 6, 8])
    assert np.isnan(recovery_ratio(scores, np.ones((1, 4)))).all()
    table = recovery_table(scores, SETS).set_index("metric")["value"]
    assert (table["n_eligible"], table["n_left_out"], table["n_tied"]) == (0, 4, 4)
    assert "sensitivity" in table.index
    assert not {"recovery", "recovery_ratio", "rank_recovery", "consolidation_layer"} & set(table.index)


def test_bad_input_is_named():
    good = by_hand_scores()
    with pytest.raises(ParameterError, match=r"2 layers, but patched is \(3, 4\)"):
        PatchScores(CLEAN, CORRUPT, PATCHED, [0, 1])
    with pytest.raises(NonFiniteError, match="corrupt: holds NaN"):
        PatchScores(CLEAN, np.array([1.0, np.nan, 1, 1]), PATCHED, [4, 6, 8])
    with pytest.raises(ParameterError, match="author_sets: 3 for 4 triplets"):
        recovery_table(good, SETS[:3])
    with pytest.raises(ParameterError, match=r"level=95"):
        recovery_table(good, SETS, level=95.0)
    with pytest.raises(ParameterError, match="n_resamples=3"):
        recovery_table(good, SETS, n_resamples=3)
    for layers in ([4, 8, 6], []):
        with pytest.raises(ParameterError, match=r"layers: .* in order of depth"):
            PatchScores(CLEAN, CORRUPT, PATCHED[: len(layers)], layers)
    with pytest.raises(TooFewError, match="at least 2"):
        recovery_table(good, SETS[:1] * 4)
    for negatives in (np.array([1.0]), np.array([2.0, 2.0])):
        with pytest.raises(DegenerateError, match="random_negatives: have no spread"):
            recovery_table(good, SETS, random_negatives=negatives)
