"""Figures are drawn from a table alone, the same bytes each time, and refuse rows of two runs."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from readout.errors import ReadoutError
from readout.report import figures
from readout.report.quality_figures import METRICS

from .alignment_tables import TABLES as ALIGNMENT_TABLES
from .scorer_tables import TABLES as SCORER_TABLES


def _curves(**constant):
    layers = np.arange(7)
    value = 0.8 - 0.3 * np.sin(np.pi * layers / 6)
    return pd.DataFrame(
        {
            "data": "toy",
            "site": ["embedding", *(f"block {i}" for i in range(1, 7))],
            "layer": layers,
            "depth": layers / 6,
            "value": value,
            "low": value - 0.02,
            "high": value + 0.02,
            "level": 0.95,
            "n": 30,
            "seed": 0.0,
            "provenance": "abc",
            **constant,
        }
    )


TABLES = {
    "quality--toy": pd.concat(
        _curves(model="toy", metric=m, weights=w, norm=n, convention="corrected", first_token="kept")
        for m in METRICS
        for w, n in (("pretrained", "raw"), ("pretrained", "final"), ("random", "raw"))
    ),
    "first-token": pd.concat(
        _curves(model=m, metric="prompt_entropy", weights=w, norm="raw", first_token=f)
        for m in ("toy", "joy")
        for w, f in (("pretrained", "kept"), ("pretrained", "dropped"), ("random", "kept"))
    ),
    "conventions": pd.concat(
        _curves(model=m, metric=k, weights="pretrained", norm="raw", convention=c)
        for m in ("toy", "joy")
        for k in ("prompt_entropy", "curvature")
        for c in ("corrected", "as_published")
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_redrawn_from_the_csv_alone_with_the_same_bytes(tmp_path, name):
    kind = name.split("--")[0]
    figures.save(figures.drawings()[kind], TABLES[name], tmp_path, name)
    first = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert set(first) == {f"{name}.{e}" for e in ("csv", "svg", "pdf", "png")}
    for ending in ("svg", "pdf", "png"):
        (tmp_path / f"{name}.{ending}").unlink()
    csv = tmp_path / f"{name}.csv"
    subprocess.run([sys.executable, "-m", "readout.report.figures", csv], check=True, capture_output=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == first


def test_every_kind_has_a_toy_table():
    assert {n.split("--")[0] for n in [*TABLES, *SCORER_TABLES, *ALIGNMENT_TABLES]} == set(figures.drawings())


def test_each_curve_of_the_quality_figure_is_on_its_panel():
    figure = figures.drawings()["quality"](TABLES["quality--toy"])
    panels = [ax for ax in figure.axes if ax.lines]
    assert [ax.get_title(loc="left") or ax.get_title() for ax in panels] == [m[0] for m in METRICS.values()]
    for ax in panels:
        assert len(ax.lines) == 3
        np.testing.assert_allclose(ax.lines[0].get_ydata().min(), 0.5)
        assert [t.get_text() for t in ax.get_xticklabels()][-1] == "6\n1"


def test_mixed_runs_and_unknown_kinds_are_refused(tmp_path):
    table = TABLES["conventions"].copy()
    table.loc[table["model"] == "joy", "provenance"] = "xyz"
    with pytest.raises(ReadoutError, match="2 different runs"):
        figures.save(figures.drawings()["conventions"], table, tmp_path, "conventions")
    with pytest.raises(ReadoutError, match="'pie' is none of"):
        figures.save(figures.drawings()["quality"], TABLES["quality--toy"], tmp_path, "pie")
    assert not list(tmp_path.iterdir())
