import pytest
import torch

from readout.errors import NonFiniteError, ParameterError
from readout.lenses import center, dataset_entropy, dime, infonce, lidar, pooled_quality, unit_rows
from readout.lenses.published import lidar_as_published


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def corpus(n=10, q=4, d=6):
    g = seeded(1)
    views = 2 * torch.randn(n, 1, d, generator=g) + torch.randn(n, q, d, generator=g)
    return views.mean(1), views


def value(table, metric, unit, convention):
    rows = table[(table.metric == metric) & (table.unit == unit) & (table.convention == convention)]
    return rows.value.item()


def test_each_number_is_the_metric_on_shared_preprocessing():
    pooled, views = corpus()
    table = pooled_quality(pooled, views, generator=seeded())
    unit = unit_rows(center(views.reshape(40, 6))).reshape(10, 4, 6)
    assert value(table, "dataset_entropy", "share", "corrected") == float(dataset_entropy(pooled))
    assert value(table, "infonce", "nats", "corrected") == float(infonce(unit[:, 0], unit[:, 1]))
    assert value(table, "lidar", "nats", "corrected") == float(lidar(unit))
    assert value(table, "dime", "nats", "corrected") == float(
        dime(unit[:, 0], unit[:, 1], generator=seeded())
    )
    assert value(table, "lidar", "share", "as_published") == float(lidar_as_published(views))
    assert (table.reason == "").all()
    assert 0 < value(table, "lidar", "share", "corrected") <= 1


def test_a_site_where_all_texts_are_alike_has_no_value_and_says_so():
    table = pooled_quality(torch.ones(4, 3), torch.ones(4, 2, 3), generator=seeded())
    assert table.value.isna().all()
    assert (table.reason != "").all()


def test_a_corpus_too_small_loses_only_what_needs_more():
    pooled, views = corpus(n=3)
    table = pooled_quality(pooled, views, generator=seeded())
    assert table[table.convention == "corrected"].value.notna().all()
    assert table[table.convention == "as_published"].reason.str.contains("must not leave one alone").all()
    single_view = pooled_quality(pooled, views[:, :1], generator=seeded())
    assert value(single_view, "dataset_entropy", "share", "corrected") == float(dataset_entropy(pooled))
    assert single_view[single_view.metric == "infonce"].value.isna().all()


def test_mistakes_are_not_turned_into_missing_values():
    pooled, views = corpus()
    with pytest.raises(NonFiniteError):
        pooled_quality(pooled * torch.nan, views, generator=seeded())
    with pytest.raises(ParameterError, match="temperature"):
        pooled_quality(pooled, views, generator=seeded(), temperature=-1.0)
