from dataclasses import dataclass

import pandas as pd
import pytest
import torch

from readout.errors import NonFiniteError, ParameterError
from readout.lenses import Absent, TokenQuality, curvature_rad, effective_rank, prompt_entropy
from readout.lenses.preprocess import center, unit_rows
from readout.lenses.published import curvature_rad_as_published, prompt_entropy_as_published
from readout.lenses.values import PerText, Why, single

from .padded import pad, texts


@dataclass(frozen=True)
class Site:
    layer: int
    n_layers: int = 2
    norm: str = "raw"

    @property
    def name(self):
        return f"block {self.layer}" if self.layer else "embedding"

    @property
    def depth(self):
        return self.layer / self.n_layers


def read(items, batches, side="right", **choice):
    quality = TokenQuality(len(items), **choice)
    for layer in range(3):
        for rows in batches:
            states, mask = pad([(layer + 1) * items[i] ** (layer + 1) for i in rows], side, length=12)
            quality.update(Site(layer), states, mask, torch.tensor(rows))
    return quality


def alone(metric, z):
    rank = lambda x: effective_rank(unit_rows(center(x)))  # noqa: E731
    measures = {
        ("prompt_entropy", "corrected"): prompt_entropy,
        ("effective_rank", "corrected"): rank,
        ("curvature", "corrected"): curvature_rad,
        ("prompt_entropy", "as_published"): prompt_entropy_as_published,
        ("curvature", "as_published"): curvature_rad_as_published,
    }
    return float(measures[metric](z))


@pytest.mark.parametrize("side", ["left", "right"])
def test_streaming_equals_one_text_and_one_metric_at_a_time(side):
    items = texts(0, [5, 9, 4, 12, 7])
    table = read(items, [[3, 1], [0, 4, 2]], side).table()
    assert len(table) == 3 * 5 * (4 * 2 + 2)
    table = table[table.metric != "undefined_angles"]
    for row in table.itertuples():
        z = (row.layer + 1) * items[row.text] ** (row.layer + 1)
        z = z[1:] if row.first_token == "dropped" else z
        assert row.value == pytest.approx(alone((row.metric, row.convention), z), abs=1e-9), row


def test_batches_and_their_order_change_nothing():
    items = texts(0, [5, 9, 4, 12, 7])
    one = read(items, [[0, 1, 2, 3, 4]]).table()
    other = read(items, [[4], [2, 0], [3, 1]], "left").table()
    pd.testing.assert_frame_equal(one, other, check_exact=False, atol=1e-10, rtol=0)


def test_a_long_first_token_is_what_dropping_removes():
    items = texts(0, [10], dim=64)
    items[0][0] *= 1000
    quality = TokenQuality(1)
    quality.update(Site(0), *pad(items, "right"), torch.tensor([0]))
    assert quality.result(Site(0), "prompt_entropy")[0] < 0.5
    assert quality.result(Site(0), "prompt_entropy", first_token="dropped")[0] > 0.95


def test_the_table_carries_its_columns_and_no_nan():
    table = read(texts(0, [5, 1, 2]), [[0, 1]]).table()
    columns = [
        "site",
        "layer",
        "depth",
        "norm",
        "text",
        "metric",
        "unit",
        "convention",
        "first_token",
        "value",
        "reason",
    ]
    assert list(table) == columns
    assert set(table.site) == {"embedding", "block 1", "block 2"}
    assert set(table.depth) == {0.0, 0.5, 1.0}
    assert (table.value.isna() == (table.reason != "")).all()
    assert (table[table.text == 2].reason == "the text has not been read").all()
    one_token = table[(table.text == 1) & (table.convention == "corrected")]
    assert one_token.value.isna().all()
    assert "nan" not in table.to_csv().lower()


def test_zero_steps_are_counted():
    z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    quality = TokenQuality(1)
    quality.update(Site(0), z[None], torch.ones(1, 5, dtype=torch.bool), torch.tensor([0]))
    assert quality.result(Site(0), "undefined_angles")[0] == 2
    assert quality.result(Site(0), "curvature", first_token="dropped")[0].reason == Why.NO_STEP.reason


def test_inference_mode_may_come_and_go():
    quality = TokenQuality(2)
    (states, mask), rows = pad(texts(0, [4, 5]), "right"), torch.tensor([0, 1])
    with torch.inference_mode():
        quality.update(Site(0), states * 1, mask, rows)
    quality.update(Site(0), states, mask, rows)
    assert len(quality.result(Site(0), "curvature").values) == 2


def test_only_what_is_asked_for_is_measured():
    quality = read(texts(0, [5]), [[0]], conventions=("corrected",), first_token=("dropped",))
    assert set(quality.table().convention) == {"corrected"}
    assert set(quality.table().first_token) == {"dropped"}
    with pytest.raises(ParameterError, match="was not measured"):
        quality.result(Site(0), "prompt_entropy")


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="conventions="):
        TokenQuality(1, conventions=("published",))
    with pytest.raises(ParameterError, match="first_token='kept'"):
        TokenQuality(1, first_token="kept")
    with pytest.raises(ParameterError, match="alpha=0"):
        TokenQuality(1, alpha=0.0)
    quality, rows = TokenQuality(1), torch.tensor([0])
    with pytest.raises(NonFiniteError, match="states holds NaN"):
        quality.update(Site(0), torch.full((1, 3, 2), torch.nan), torch.ones(1, 3, dtype=torch.bool), rows)
    with pytest.raises(ParameterError, match="padding between"):
        quality.update(Site(0), torch.ones(1, 3, 2), torch.tensor([[True, False, True]]), rows)


def test_an_absent_value_never_passes_for_a_number():
    result = PerText(torch.tensor([1.0, 0.0]), torch.tensor([0, Why.ONE_TOKEN], dtype=torch.int8))
    assert result[1] == Absent("one token: nothing is left after centring")
    assert result.values.tolist() == [1.0]
    assert float(single(result, "z")) == 1.0
    assert list(PerText.cat([result, result])) == [*result, *result]
    assert all(why.reason for why in Why if why)
