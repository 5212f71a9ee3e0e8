"""Probes of style: pooled states by hand, and scikit-learn's ridge regression on all the rows at once."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from readout.authorship.cut import cut_to_tokens
from readout.authorship.probing import (
    ALL_GROUPS,
    StyleTexts,
    TokenProbes,
    mean_states,
    probe_style,
    probe_tokens,
    style_table,
    token_table,
)
from readout.errors import TooFewError
from readout.lenses.probe_scores import group_r2
from readout.lenses.stylometry import TOKEN_TARGETS, features, token_targets

from .authored import encoder_of, ids_and_mask, spans_of, tokenizer

MAX_TOKENS = 9
TRAIN, TEST = spans_of(), spans_of(split="test", seed=1)
TEXTS = StyleTexts.of(TRAIN, TEST, tokenizer(), max_tokens=MAX_TOKENS, n_folds=3)
MODEL = encoder_of().backbone


@pytest.fixture(scope="module")
def pooled():
    return mean_states(MODEL, tokenizer(), TEXTS.read, max_tokens=MAX_TOKENS)


def states_by_hand(text):
    """At each raw site, the states of the tokens of one text."""
    with torch.no_grad():
        found = MODEL(*ids_and_mask(text, MAX_TOKENS), output_hidden_states=True).hidden_states
    return torch.stack([site[0] for site in found])


def test_features_are_of_what_the_model_reads():
    short, n_cut = cut_to_tokens([*TRAIN["text"], *TEST["text"]], tokenizer(), MAX_TOKENS)
    assert n_cut == TEXTS.n_cut > 0
    assert TEXTS.read == short
    assert TEXTS.style.equals(features(short))
    assert TEXTS.clusters == [*TRAIN["author_set"], *TEST["author_set"]]
    published = TEXTS.first_characters(5)
    assert published.read == [text[:5] for text in short]
    assert published.style is TEXTS.style


def test_folds_are_of_whole_documents():
    fold_of = {}
    for document, fold in zip(TRAIN["document"], TEXTS.folds.tolist(), strict=True):
        assert fold_of.setdefault(document, fold) == fold
    assert sorted(fold_of.values()) == sorted([0, 1, 2] * 4)
    with pytest.raises(TooFewError, match="n_folds: 13, but the training texts come from 12 documents"):
        StyleTexts.of(TRAIN, TEST, tokenizer(), max_tokens=MAX_TOKENS, n_folds=13)


def test_mean_states_are_means_over_the_tokens_of_each_text(pooled):
    sites, states = pooled
    assert [site.layer for site in sites] == [0, 1, 2]
    by_hand = torch.stack([states_by_hand(text).mean(dim=1) for text in TEXTS.read], dim=1)
    torch.testing.assert_close(states, by_hand, rtol=1e-4, atol=1e-5)


def sklearn_r2(x, y, n, alphas):
    """Test R² of the targets that vary in training and test; of several penalties the best over held-out folds."""
    folds, found = TEXTS.folds.numpy(), {}

    def left(target, alpha):
        rest = 0.0
        for fold in range(3):
            held = folds == fold
            fitted = Ridge(alpha).fit(x[:n][~held], target[:n][~held])
            rest += ((fitted.predict(x[:n][held]) - target[:n][held]) ** 2).sum()
        return rest

    for name, target in y.items():
        if np.ptp(target[:n]) > 0 and np.ptp(target[n:]) > 0:
            best = min(alphas, key=lambda alpha: left(target, alpha)) if len(alphas) > 1 else alphas[0]
            found[name] = r2_score(target[n:], Ridge(best).fit(x[:n], target[:n]).predict(x[n:]))
    return found


@pytest.mark.parametrize("alphas", [[1.0], [0.1, 1.0, 100.0]], ids=["one", "chosen"])
def test_style_probes_against_scikit_learn(pooled, alphas):
    _, states = pooled
    probes = probe_style(states, TEXTS, alphas)
    for x, sums in zip(states.double().numpy(), probes, strict=True):
        y = {name: TEXTS.style[name].to_numpy() for name in TEXTS.style}
        want = sklearn_r2(x, y, TEXTS.n_train, alphas)
        scores = group_r2(sums, sums.names, n_resamples=10)
        got = dict(zip(scores.names, scores.interval.value, strict=True))
        assert got == pytest.approx(want, rel=1e-5, abs=1e-7)


def test_the_style_table_has_every_group_at_every_site_and_their_mean(pooled):
    sites, states = pooled
    probes = probe_style(states, TEXTS, [1.0])
    table = style_table(sites, probes, n_resamples=20)
    groups = table[table["group"] != ALL_GROUPS]
    assert table.groupby("layer")["depth"].first().tolist() == [0, 0.5, 1]
    assert set(table["metric"]) == {"R2"}
    for at, (layer, rows) in enumerate(groups.groupby("layer")):
        want = group_r2(probes[at], [name[0] for name in probes[at].names], n_resamples=20)
        assert rows["group"].tolist() == want.names
        np.testing.assert_allclose(rows["value"], want.interval.value)
        np.testing.assert_allclose(rows[["low", "high"]].T, [want.interval.low, want.interval.high])
        both = table[(table["layer"] == layer) & (table["group"] == ALL_GROUPS)]
        scores = group_r2(probes[at], probes[at].names, n_resamples=20)
        assert both["value"].tolist() == pytest.approx([scores.interval.value.mean()])


def test_the_style_table_of_a_difference(pooled):
    sites, states = pooled
    probes, control = (probe_style(states, TEXTS, [alpha]) for alpha in (1.0, 1e6))
    change = style_table(sites, probes, control, n_resamples=20)
    one, other = (style_table(sites, each, n_resamples=20) for each in (probes, control))
    np.testing.assert_allclose(change["value"], one["value"] - other["value"], atol=1e-12)
    assert change["group"].tolist() == one["group"].tolist()
    assert set(change["metric"]) == {"R2 less control's"}
    assert (style_table(sites, probes, probes, n_resamples=20)[["value", "low", "high"]] == 0).all(axis=None)


def tokens_by_hand(texts):
    """States, mean of the text's states, and targets of every token that holds text, at every site."""
    own, means, targets = [], [], []
    for text in texts:
        offsets = tokenizer()(text, return_offsets_mapping=True)["offset_mapping"]
        values, real = token_targets(text, offsets)
        states = states_by_hand(text).double()
        own.append(states[:, real])
        means.append(states.mean(dim=1, keepdim=True).expand(own[-1].shape))
        targets.append(values[real])
    return torch.cat(own, dim=1).numpy(), torch.cat(means, dim=1).numpy(), np.concatenate(targets)


def test_token_probes_against_scikit_learn():
    probes = probe_tokens(MODEL, tokenizer(), TEXTS, max_tokens=MAX_TOKENS, alpha=0.5, batch_size=5)
    *train, y_train = tokens_by_hand(TEXTS.read[: TEXTS.n_train])
    *test, y_test = tokens_by_hand(TEXTS.read[TEXTS.n_train :])
    assert {(site.layer, name) for site, name in probes.scores} == {
        (layer, name) for layer in range(3) for name in TokenProbes.READ_FROM
    }
    for (site, name), sums in probes.scores.items():
        which = TokenProbes.READ_FROM.index(name)
        fitted = Ridge(0.5).fit(train[which][site.layer], y_train)
        want = r2_score(y_test, fitted.predict(test[which][site.layer]), multioutput="raw_values")
        scores = group_r2(sums, sums.names, n_resamples=10)
        assert scores.names == list(TOKEN_TARGETS)
        assert set(scores.interval.n) == {len(y_test)}
        np.testing.assert_allclose(scores.interval.value, want, rtol=1e-4, atol=1e-5)


def test_the_token_table_has_a_row_for_each_site_source_and_target():
    probes = probe_tokens(MODEL, tokenizer(), TEXTS, max_tokens=MAX_TOKENS)
    table = token_table(probes, n_resamples=10)
    assert len(table) == 3 * 2 * len(TOKEN_TARGETS)
    assert not table[["layer", "intervention", "feature"]].duplicated().any()
    mean = table[(table["feature"] == "punctuation") & (table["intervention"] == "text vector")]
    own = table[(table["feature"] == "punctuation") & (table["intervention"] == "own state")]
    assert own["value"].min() > 0.3 + mean["value"].max()  # a token knows what it is, a text's mean does not
