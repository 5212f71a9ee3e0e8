"""Patch scores of whole triplets: identities that must hold, and scores against the encoder run text by text."""

import numpy as np
import pandas as pd
import pytest
import torch

from readout.authorship.patching import (
    ALL_POSITIONS,
    INTERVENTIONS,
    SENSITIVITY_UNITS,
    ProbeTexts,
    length_table,
    patch_scores,
    patch_table,
    pooled_over_seeds,
)
from readout.errors import ArchitectureError, ParameterError
from readout.lenses.recovery import recovery
from readout.lenses.recovery_table import recovery_table
from readout.scorers import Tokens, scorer_of
from readout.sources.triplets import draw_triplets

from .authored import encoder_of, spans_of, tokenizer

SCORERS = ["mean", "li", "pli-2"]
TRIPLETS = draw_triplets(spans_of(), 12)
TEXTS = ProbeTexts.of(TRIPLETS, tokenizer(), 12)
SAME = TEXTS.equal_lengths()


@pytest.fixture(scope="module")
def encoder():
    return encoder_of(head=True)


def vectors(encoder, ids, content):
    """One text by itself."""
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        return Tokens(encoder(torch.tensor([ids]), mask), mask, mask & content[torch.tensor([ids])])


def score_by_hand(encoder, scorer, texts, anchor, part, other):
    ids = texts.anchor[anchor], getattr(texts, part)[other]
    return scorer.score(*(vectors(encoder, each, ~texts.skipped) for each in ids)).item()


@pytest.mark.parametrize("name", SCORERS)
def test_clean_and_corrupted_scores_are_the_models_own(encoder, name):
    found = patch_scores(encoder, scorer_of(name), TEXTS).scores
    for part, scores in (("clean", found.clean), ("corrupt", found.corrupt)):
        want = [score_by_hand(encoder, scorer_of(name), TEXTS, row, part, row) for row in range(len(TEXTS))]
        np.testing.assert_allclose(scores, want, rtol=1e-5, atol=1e-5)
    assert found.layers == [0, 1, 2]


@pytest.mark.parametrize("name", SCORERS)
def test_all_positions_of_equally_long_texts_are_the_clean_run_at_every_layer(encoder, name):
    found = patch_scores(encoder, scorer_of(name), SAME).scores
    np.testing.assert_allclose(recovery(found, np.ones((1, len(SAME)))), 100, atol=1e-4)
    unequal = patch_scores(encoder, scorer_of(name), TEXTS).scores
    assert np.abs(recovery(unequal, np.ones((1, len(TEXTS)))) - 100).min() > 1


def test_a_shift_of_the_means_after_the_last_layer_is_the_clean_mean():
    encoder = encoder_of()
    found = patch_scores(encoder, scorer_of("mean"), TEXTS, "mean shift").scores
    np.testing.assert_allclose(found.patched[-1], found.clean, rtol=1e-5)
    assert np.abs(found.patched[0] - found.clean).max() > 1e-3


def test_patching_one_sublayer_leaves_the_embedding_as_it_was(encoder):
    for intervention in ("attention alone", "MLP alone"):
        found = patch_scores(encoder, scorer_of("li"), SAME, intervention).scores
        assert found.layers == [1, 2]  # there is none at the embedding
        assert not np.allclose(found.patched, found.corrupt)
        assert not np.allclose(found.patched, found.clean)


@pytest.mark.parametrize("intervention", INTERVENTIONS)
def test_the_batch_size_changes_nothing(encoder, intervention):
    one, many = (
        patch_scores(encoder, scorer_of("li"), TEXTS, intervention, batch_size=size).scores for size in (1, 5)
    )
    for name in ("clean", "corrupt", "patched"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-5, atol=1e-5)


def test_random_negatives_are_by_others_than_the_anchor(encoder):
    scorer, n = scorer_of("li"), len(TEXTS)
    found = patch_scores(encoder, scorer, TEXTS, batch_size=n).random_negatives
    others = [
        (i, j) for i in range(n) for j in range(n) if i != j and TEXTS.author_sets[i] != TEXTS.corrupt_sets[j]
    ]
    want = [score_by_hand(encoder, scorer, TEXTS, i, "corrupt", j) for i, j in others]
    assert 0 < len(others) < n * (n - 1)
    np.testing.assert_allclose(np.sort(found), np.sort(want), rtol=1e-5, atol=1e-5)


def test_a_mix_of_layers_and_an_unknown_intervention_are_refused(encoder):
    with pytest.raises(ArchitectureError, match="encoder: mixes layers"):
        patch_scores(encoder_of(mixed=True), scorer_of("mean"), TEXTS)
    with pytest.raises(ParameterError, match="intervention 'noise': expected one of all positions"):
        patch_scores(encoder, scorer_of("mean"), TEXTS, "noise")


def test_a_triplet_of_twice_the_same_text_is_left_out_and_counted(encoder):
    rows = TRIPLETS.to_pandas()
    rows.loc[4, "negative"] = rows.loc[4, "positive"]
    found = patch_scores(encoder, scorer_of("li"), ProbeTexts.of(rows, tokenizer(), 12)).scores
    assert (found.tied.nonzero()[0].tolist(), bool(found.eligible[4])) == ([4], False)
    table = recovery_table(found, TEXTS.author_sets, n_resamples=20).set_index("metric")
    assert table.loc["n_tied", "value"] == 1
    assert table.loc["n_eligible", "value"] == found.eligible.sum()
    assert table.loc["n_left_out", "value"] == 12 - found.eligible.sum() >= 1
    assert set(table.loc["recovery", "n"]) == {found.eligible.sum()}


def test_texts_are_cut_counted_and_taken():
    whole = ProbeTexts.of(TRIPLETS, tokenizer(), 100)
    lengths = np.concatenate([whole.lengths(part) for part in ("anchor", "clean", "corrupt")])
    assert (whole.n_truncated, TEXTS.n_truncated) == (0, (lengths > 12).sum())
    assert TEXTS.lengths("clean").tolist() == np.minimum(whole.lengths("clean"), 12).tolist()
    assert SAME.lengths("clean").tolist() == SAME.lengths("corrupt").tolist()
    assert {text[-1] for text in SAME.clean + SAME.corrupt} == {tokenizer().sep_token_id}
    some = TEXTS.take([3, 1])
    assert (some.anchor, some.clean) == ([TEXTS.anchor[3], TEXTS.anchor[1]], [TEXTS.clean[3], TEXTS.clean[1]])
    assert some.corrupt_sets == [TEXTS.corrupt_sets[3], TEXTS.corrupt_sets[1]]


def test_the_table_names_sites_and_gives_sensitivity_in_three_units(encoder):
    table = patch_table(
        patch_scores(encoder, scorer_of("li"), TEXTS), TEXTS.author_sets, n_resamples=20, seed=1
    )
    curve = table[table["metric"] == "rank_recovery"]
    assert curve["site"].tolist() == ["embedding", "block 1", "block 2"]
    assert curve["depth"].tolist() == [0, 0.5, 1]
    sensitive = table[table["metric"] == "sensitivity"]
    assert sensitive.groupby("unit")["layer"].agg(list).to_dict() == {
        unit: [0, 1, 2] for unit in SENSITIVITY_UNITS.values()
    }
    assert table["value"].notna().all()
    assert table.loc[table["metric"] == "failure_rate", "site"].isna().all()


def test_seeds_are_pooled_triplet_by_triplet(encoder):
    runs = [patch_scores(each, scorer_of("li"), TEXTS) for each in (encoder, encoder_of())]
    both = pooled_over_seeds(runs)
    n = len(TEXTS)
    for at, run in enumerate(runs):
        part = slice(at * n, (at + 1) * n)
        assert both.scores.clean[part].tolist() == run.scores.clean.tolist()
        assert both.scores.patched[:, part].tolist() == run.scores.patched.tolist()
    assert len(both.random_negatives) == sum(len(run.random_negatives) for run in runs)
    assert ALL_POSITIONS in INTERVENTIONS


def test_lengths_are_counted_by_tier_and_side():
    table = length_table({"A": TEXTS.take(range(8)), "B": TEXTS.take(range(8, 12))})
    for (tier, side), part in table.groupby(["tier", "side"]):
        column = {"anchor": "anchor", "positive": "clean", "negative": "corrupt"}[side]
        lengths = TEXTS.lengths(column)[:8] if tier == "A" else TEXTS.lengths(column)[8:]
        want = pd.Series(lengths).value_counts().sort_index()
        assert (part["token"].tolist(), part["value"].tolist()) == (want.index.tolist(), want.tolist())
    assert len(table.groupby(["tier", "side"])) == 6
