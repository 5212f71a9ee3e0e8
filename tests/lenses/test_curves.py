"""Depth curves against loops over sites, texts and resamples that share nothing with the library but its metrics."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import torch

from readout.errors import ParameterError
from readout.lenses import TokenQuality
from readout.lenses.curves import pooled_curves, token_curves
from readout.lenses.intervals import cluster_weights
from readout.lenses.pooled import pooled_quality

from .padded import pad, texts

AUTHORS = ["a", "b", "a", "c", "b"]
CURVE = {
    "site",
    "layer",
    "depth",
    "norm",
    "metric",
    "unit",
    "convention",
    "value",
    "low",
    "high",
    "level",
    "n",
}


@dataclass(frozen=True, order=True)
class Site:
    layer: int
    norm: str = "raw"

    @property
    def name(self):
        return f"block {self.layer}"

    @property
    def depth(self):
        return self.layer / 2


def token_table(lengths=(5, 9, 2, 1, 7)):
    items = texts(0, lengths)
    quality = TokenQuality(len(items))
    for layer in range(3):
        states, mask = pad([(layer + 1) * z ** (layer + 1) for z in items], "right", length=12)
        quality.update(Site(layer), states, mask, torch.arange(len(items)))
    return quality.table()


def rows_of(table, row):
    keys = ["layer", "norm", "metric", "convention", "first_token"]
    return table[np.logical_and.reduce([table[key] == getattr(row, key) for key in keys])]


def test_a_token_curve_is_the_mean_over_the_texts_that_have_a_value():
    table = token_table()
    curves = token_curves(table, AUTHORS, n_resamples=50, level=0.9, seed=3)
    assert set(curves.columns) == CURVE | {"first_token"}
    weights = cluster_weights(AUTHORS, 50, seed=3)
    for row in curves.itertuples():
        found = rows_of(table, row).sort_values("text")
        factor = 180 / np.pi if row.metric == "curvature" else 1
        values = {r.text: factor * r.value for r in found.itertuples() if r.reason == ""}
        assert row.unit == {"curvature": "degrees"}.get(row.metric, found.unit.iloc[0])
        assert (row.site, row.depth, row.level, row.n) == (
            f"block {row.layer}",
            row.layer / 2,
            0.9,
            len(values),
        )
        assert row.value == pytest.approx(sum(values.values()) / len(values))
        means = []
        for drawn in weights:
            total = sum(drawn[text] for text in values)
            if total:
                means.append(sum(drawn[text] * value for text, value in values.items()) / total)
        assert (row.low, row.high) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))


def test_every_measured_metric_and_site_has_one_row_unless_no_text_has_a_value():
    keys = ["layer", "metric", "convention", "first_token"]
    table = token_table()
    every = set(table[keys].itertuples(index=False, name=None))
    drawn = token_curves(table, AUTHORS)[keys].itertuples(index=False, name=None)
    assert sorted(drawn) == sorted(every)
    # Three tokens have a curvature, and none is left of it without the first; a share needs three tokens.
    short = token_curves(token_table([3, 2, 3, 1, 3]), AUTHORS)
    missing = every - set(short[keys].itertuples(index=False, name=None))
    lost = [("curvature", "corrected"), ("prompt_entropy", "corrected"), ("undefined_angles", "corrected")]
    assert missing == {(layer, *metric, "dropped") for layer in range(3) for metric in lost}
    kept = short.query("first_token == 'kept' and convention == 'corrected' and metric != 'effective_rank'")
    assert set(kept["n"]) == {3}


def pooled_corpus(n, viewed):
    generator = torch.Generator().manual_seed(1)
    pooled = torch.randn(3, n, 4, generator=generator)
    views = pooled[:, :viewed, None] + 0.5 * torch.randn(3, viewed, 3, 4, generator=generator)
    return [Site(layer) for layer in range(3)], pooled, views, [*"abcde" * 3][:n]


def measured(pooled, views, texts, seed, conventions=("corrected", "as_published")):
    """The metrics of some texts, an even number of them, by name."""
    viewed = [text for text in texts if text < len(views)]
    texts, viewed = texts[: len(texts) // 2 * 2], viewed[: len(viewed) // 2 * 2]
    generator = torch.Generator().manual_seed(seed)
    table = pooled_quality(pooled[texts], views[viewed], generator=generator, conventions=conventions)
    return {(r.metric, r.unit, r.convention): r.value for r in table.itertuples()}


def test_a_pooled_curve_is_the_metric_of_the_corpus_with_the_spread_of_its_half_samples():
    sites, pooled, views, authors = pooled_corpus(n=13, viewed=11)
    curves = pooled_curves(sites, pooled, views, authors, n_resamples=12, level=0.9, seed=5)
    assert set(curves.columns) == CURVE
    names, rng, halves = sorted(set(authors)), np.random.default_rng(5), []
    for _ in range(12):
        drawn = {names[i] for i in rng.permutation(5)[:2]}
        halves.append([text for text, author in enumerate(authors) if author in drawn])
    whole = [measured(pooled[i], views[i], [*range(13)], seed=5) for i in range(3)]
    parts = [[measured(pooled[i], views[i], half, seed=5) for half in halves] for i in range(3)]
    for row in curves.itertuples():
        key = (row.metric, row.unit, row.convention)
        found = np.array([part[key] for part in parts[row.layer]], dtype=float)
        shares = np.array([len(half) / (13 - len(half)) for half in halves])
        error = NormalDist().inv_cdf(0.95) * np.sqrt((shares * (found - found.mean()) ** 2).sum() / 11)
        value = whole[row.layer][key]
        assert (row.value, row.low, row.high) == pytest.approx((value, value - error, value + error))
        assert (row.site, row.depth, row.norm, row.level) == (f"block {row.layer}", row.layer / 2, "raw", 0.9)
        # The published code takes texts in pairs, so of an odd number one is left out.
        assert row.n == (12 if row.metric == "dataset_entropy" else 10)
    assert len(curves) == sum(map(len, whole)) == 3 * 11


def test_a_metric_without_a_value_in_the_whole_or_in_a_half_has_no_row():
    sites, pooled, views, authors = pooled_corpus(n=8, viewed=8)
    pooled[0], views[0] = 1.0, 1.0  # a token that is the same in every text
    curves = pooled_curves(sites, pooled, views, authors, n_resamples=10)
    assert set(curves["layer"]) == {1, 2}
    # Two of five authors have views: some half holds none of their texts.
    few = pooled_curves(sites, pooled, views[:, :2], authors, n_resamples=10)
    assert set(few["metric"]) == {"dataset_entropy"}


@pytest.mark.parametrize("conventions", [("corrected",), ("as_published",), ("as_published", "corrected")])
def test_only_the_conventions_asked_for_are_measured_and_with_the_same_values(conventions):
    sites, pooled, views, authors = pooled_corpus(n=10, viewed=10)
    both = pooled_curves(sites, pooled, views, authors, n_resamples=10)
    some = pooled_curves(sites, pooled, views, authors, n_resamples=10, conventions=conventions)
    expected = both[both["convention"].isin(conventions)].reset_index(drop=True)
    assert set(some["convention"]) == set(conventions)
    alike = ["layer", "metric", "unit", "convention", "n"]
    pd.testing.assert_frame_equal(some[alike], expected[alike])
    # The permutations of DiME go to whichever convention comes first.
    same = (some["metric"] != "dime") | ("corrected" in conventions)
    pd.testing.assert_frame_equal(some[same], expected[same])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sites": slice(2)}, "2 sites and 8 authors, but pooled is (3, 8, 4)"),
        ({"authors": slice(7)}, "3 sites and 7 authors, but pooled is (3, 8, 4)"),
        (
            {"conventions": ("right",)},
            "conventions=('right',); a sequence of some of corrected, as_published",
        ),
        ({"conventions": ()}, "conventions=(); a sequence"),
        ({"n_resamples": 9}, "n_resamples=9: at least 10"),
        ({"level": 1.0}, "level=1.0: a confidence level lies between 0 and 1"),
    ],
)
def test_a_call_that_does_not_fit_together_says_why(change, named):
    call = dict(zip(["sites", "pooled", "views", "authors"], pooled_corpus(8, 8), strict=True))
    call |= {name: call[name][value] if name in call else value for name, value in change.items()}
    with pytest.raises(ParameterError) as caught:
        pooled_curves(**call)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "named"), [({"n_resamples": 9}, "n_resamples=9"), ({"level": 0.0}, "level=0.0")]
)
def test_a_token_curve_refuses_what_its_interval_cannot_use(change, named):
    with pytest.raises(ParameterError, match=named):
        token_curves(token_table(), AUTHORS, **change)
