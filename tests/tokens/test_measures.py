"""Tables of alignment on answers whose alignment is known."""

import numpy as np
import pytest
import torch

from readout.errors import DegenerateError, TooFewError
from readout.lenses.alignment import corrected_steps, debiased_cka
from readout.report.generation_claims import ALIGNMENT
from readout.states import Site
from readout.tokens import comparisons, controls, depth, measures
from readout.tokens.pools import segment_means

from .answered import answers


def cka(x, y):
    return float(debiased_cka(corrected_steps(x), corrected_steps(y)))


def test_single_tokens_are_scored_on_the_texts_that_have_them():
    (one,) = answers(n=40, n_tokens=6, lengths=[6] * 20 + [4] * 20)
    rows = one.mask[:, 5]
    values = measures.single_tokens(one)
    assert one.complete == 4, "fewer than 32 texts have a fifth token"
    assert values == pytest.approx([cka(one.tokens[:, t].double(), one.target) for t in range(4)], abs=1e-9)
    assert rows.sum() == 20


def test_readouts_have_an_interval_each_and_a_row_for_every_seed():
    runs = answers(seeds=3)
    table = measures.readouts(runs, n_resamples=50)
    main = table[table["metric"] == "CKA"].set_index("readout")
    each = table[(table["metric"] == "CKA of one seed") & (table["readout"] == "generated mean")]
    expected = [cka(one.pooled["generated mean"], one.target) for one in runs]
    assert each["value"].tolist() == pytest.approx(expected)
    assert main.loc["generated mean", "value"] == pytest.approx(np.mean(expected))
    assert (main["low"] <= main["high"]).all()
    assert main.loc["generated mean", "value"] > main.loc["best token, held out", "value"]


def test_the_best_of_many_useless_tokens_flatters_itself_and_held_out_does_not():
    scores = []
    for seed in range(5):
        (one,) = answers(n=64, n_tokens=40, noise=1000.0, seed=seed)
        table = measures.readouts([one], n_resamples=20).set_index("readout")["value"]
        scores.append([table["best token"], table["best token, held out"]])
    flattered, honest = np.mean(scores, axis=0)
    assert flattered > 0.02
    # 3 standard deviations of the mean of five scores of unrelated halves.
    assert abs(honest) < 3 * np.sqrt(2) / 32 / np.sqrt(5)
    assert honest < flattered


def test_corners_of_the_simplex_are_the_thirds():
    (one,) = answers()
    table = measures.simplex(one, 0.5).set_index(["w1", "w2", "w3"])["value"]
    thirds = segment_means(one.tokens, one.mask, 3)
    for corner, third in zip(np.eye(3), thirds, strict=True):
        assert table[tuple(corner)] == pytest.approx(cka(third, one.target), abs=1e-9)


def test_independent_noise_is_all_that_the_null_needs_and_growth_is_more():
    runs = answers(n=96, seeds=3, n_tokens=12, noise=3.0)
    table = measures.trajectory(runs, null_parts=4, n_resamples=20)
    last = table[(table["token"] == 12) & table["seed"].notna()].set_index("readout")["value"]
    last["averaging null"] = table[table["readout"] == "averaging null"].set_index("token").loc[12, "value"]
    assert last["averaging null"] == pytest.approx(last["cumulative mean"].mean(), abs=0.06)
    assert {"single token", "prompt mean", "cumulative mean, as published"} <= set(table["readout"])
    flat = comparisons.noise_gain(runs, 4, 20, 0)
    assert flat["low"] < 0 < flat["high"]


def test_curves_have_the_mean_over_seeds_with_an_interval_from_texts_that_every_seed_wrote_so_far():
    (long,), (short,) = (
        answers(n=40, n_tokens=6),
        answers(n=40, n_tokens=6, lengths=[6] * 36 + [4] * 4, seed=1),
    )
    short = measures.Answers(short.tokens, short.mask, short.prompts, long.target)
    table = measures.trajectory([long, short], null_parts=2, n_resamples=20)
    mean = table[table["seed"].isna() & (table["readout"] == "single token")].set_index("token")
    both = short.mask[:, 5]
    expected = np.mean([cka(one.tokens[both, 5].double(), one.target[both]) for one in (long, short)])
    assert mean.loc[6, "value"] == pytest.approx(expected)
    assert mean.loc[6, "n"] == 36
    assert (mean["low"] < mean["value"]).all()


def test_a_phrase_that_brings_the_signal_leads_the_others():
    aligned, noise = answers(n=64, seeds=2, noise=1.0), answers(n=64, seeds=4, noise=1000.0)
    target = aligned[0].target
    noise = [measures.Answers(one.tokens, one.mask, one.prompts, target) for one in noise]
    phrases = (controls.RECALL, *controls.CONTROLS)
    found = {(p, 3, s): (aligned, noise[:2], noise[2:])[i][s] for i, p in enumerate(phrases) for s in (0, 1)}
    table = controls.injection_table(found, n_resamples=50)
    lead = table[table["readout"] == "lead over other phrases"]
    assert (lead["low"] > 0).all()
    assert len(lead) == 12
    single = table[(table["readout"] == "single token") & (table["token"] == 1)].set_index("phrase")["value"]
    expected = single[phrases[0]] - single[list(phrases[1:])].mean()
    assert lead["value"].iloc[0] == pytest.approx(expected)


def test_the_order_of_states_does_not_matter_to_their_mean():
    (one,) = answers()
    table = controls.control_table(one, {}, n_resamples=20).set_index("readout")["value"]
    assert table["states shuffled"] == pytest.approx(table["generated mean"], abs=1e-6)
    assert abs(table["pairs shuffled"]) < 0.2 < table["generated mean"]


def test_shuffled_pairs_lose_all_alignment_but_the_biased_one():
    (one,) = answers(n=64)
    table = measures.estimators(one).pivot(index="estimator", columns="readout", values="value")
    assert abs(table.loc["debiased CKA, clipped", "pairs shuffled"]) < 0.1
    assert table.loc["biased CKA", "pairs shuffled"] > 0.15
    assert table.loc["debiased CKA, clipped", "generated mean"] > 0.3


def test_layers_without_variation_are_left_out():
    (one,) = answers()
    flat = measures.Answers(torch.ones_like(one.tokens), one.mask, one.prompts, one.target)
    sites = {Site(0, 1, "final"): flat, Site(1, 1, "final"): one}
    table = depth.by_layer([sites], n_resamples=20)
    assert set(table.loc[table["layer"] == 0, "readout"]) == {"prompt mean", "prompt last", "prompt echo"}
    assert len(depth.by_layer_and_token(sites)) == 12


def test_layers_are_averaged_over_seeds():
    runs = answers(seeds=2)
    seeds = [{Site(1, 1, "final"): one} for one in runs]
    table = depth.by_layer(seeds, n_resamples=20).set_index("readout")["value"]
    expected = np.mean([cka(one.pooled["generated mean"], one.target) for one in runs])
    assert table["generated mean"] == pytest.approx(expected)


def test_claims_are_those_of_the_ledger_with_their_numbers():
    runs = answers(n=96, seeds=2)
    sites = {Site(layer, 2, "final"): answers(n=96, seed=layer)[0] for layer in (1, 2)}
    sites = {site: measures.Answers(a.tokens, a.mask, a.prompts, runs[0].target) for site, a in sites.items()}
    labels = np.where(np.arange(12) < 3, 0, 2) * np.ones((96, 1), int)
    injected = {
        (phrase, 3, 0): answers(n=96, seed=at)[0]
        for at, phrase in enumerate((comparisons.RECALL, *comparisons.CONTROLS))
    }
    main = {"captions": runs, "problems": runs, "proteins": runs}
    found = comparisons.claims(
        main,
        {"captions": labels},
        {"captions": [sites]},
        runs[0],
        {"words shuffled": runs[0].pooled["generated last"]},
        injected,
        {},
        phrases=dict.fromkeys((comparisons.RECALL, *comparisons.CONTROLS), 2),
        null_parts=3,
        n_fits=10,
        n_resamples=20,
        seed=0,
    )
    assert set(found) <= set(ALIGNMENT)
    assert {"B-mean-token", "B-mix3", "B-mix-rec", "B-noise", "B-phase", "B-recall", "B-layer-last"} <= set(
        found
    )
    assert all(set(one) == {"value", "low", "high", "level", "n"} for one in found.values())
    assert found["B-mean-token"]["low"] > 0
    assert found["B-mix3"]["low"] > 0


def test_too_few_texts_and_a_constant_target_are_named():
    (one,) = answers(n=3)
    with pytest.raises(TooFewError):
        measures.readouts([one], n_resamples=20)
    (one,) = answers()
    flat = measures.Answers(one.tokens, one.mask, one.prompts, torch.ones_like(one.target))
    with pytest.raises(DegenerateError):
        measures.readouts([flat], n_resamples=20)
