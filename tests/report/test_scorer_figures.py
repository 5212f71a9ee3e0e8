"""Figures on scorers show the numbers of their tables: on the axes, and in the sentences above and below."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from readout.report import figures
from readout.report.scorer_style import LOOKS, diverging, look_of, scale, select

from .scorer_tables import TABLES


@cache
def _drawn(kind):
    return _draw(kind, TABLES[kind])


def _draw(kind, table):
    with figures.style():
        figure = figures.drawings()[kind](table)
    plt.close(figure)
    return figure


def _panel(figure, title):
    (found,) = (ax for ax in figure.axes if ax.get_title(loc="left") == title)
    return found


def _curve(ax, readout):
    """The y-values of the curve in a read-out's colour and dash."""
    look = look_of(readout)
    (line,) = (x for x in ax.lines if x.get_color() == look.color and len(x.get_xdata()) > 2)
    return line.get_ydata()


def _title(figure):
    return figure.get_suptitle().replace("\n", " ").replace("\u00a0", " ")


def _texts(figure):
    return [
        figure.get_suptitle(),
        figure.get_supxlabel(),
        *(t.get_text() for ax in figure.axes for t in ax.texts),
    ]


def _points(figure):
    return np.concatenate([np.empty((0, 2)), *(line.get_xydata() for ax in figure.axes for line in ax.lines)])


def _cells(figure):
    return [np.asarray(image.get_array(), float) for ax in figure.axes for image in ax.images]


@pytest.mark.parametrize("kind", TABLES)
def test_drawn_from_the_csv_as_from_the_table_with_n_seed_and_interval(tmp_path, kind):
    TABLES[kind].to_csv(tmp_path / "table.csv", index=False)
    first, again = _drawn(kind), _draw(kind, pd.read_csv(tmp_path / "table.csv"))
    again.draw_without_rendering()
    assert _texts(again) == _texts(first)
    for one, other in zip(_cells(first), _cells(again), strict=True):
        np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(_points(first), _points(again))
    caption = first.get_supxlabel().replace("\n", " ")
    assert "tiny-encoder; n = 30 " in caption
    assert "; seed" in caption
    assert ("95% over author-sets" in caption) == bool(TABLES[kind]["low"].notna().any())


def test_every_readout_is_told_apart_by_dash_and_by_marker_alone():
    looks = [look_of(r) for r in [*LOOKS, "pli-3", "pli-4", "pli-5"]]
    assert len({str(look.linestyle) for look in looks}) == len(looks)
    assert len({str(look.marker) for look in looks}) == len(looks)


def test_missing_numbers_of_any_column_type_become_floats():
    table = pd.DataFrame({"layer": pd.array([1, None], "Int64"), "value": pd.array([0.5, None], "Float64")})
    assert select(table).dtypes.tolist() == [np.float64] * 2
    np.testing.assert_equal(select(table)["value"].to_numpy(), [0.5, np.nan])


@pytest.mark.parametrize("colours", [scale, diverging])
def test_colours_clip_nothing_and_are_white_at_zero(colours):
    values = pd.Series([-3.0, 0.5])
    drawn = colours(values)
    assert drawn.norm.vmin <= -3 <= 0.5 <= drawn.norm.vmax
    np.testing.assert_allclose(drawn.to_rgba(0.0), [1, 1, 1, 1], atol=0.04)


def test_loss_has_a_line_for_every_seed_and_controls_apart():
    figure = _drawn("loss")
    main, controls = figure.axes
    assert [t.get_text() for t in main.get_legend().get_texts()] == ["mean pooling", "late interaction"]
    assert [t.get_text() for t in controls.get_legend().get_texts()] == [
        "layerwise mix",
        "mean pooling, τ = 0.05",
    ]
    assert (len(main.lines), len(controls.lines)) == (6, 2)
    assert "4.11 for mean pooling, 1.11 for late interaction" in _title(figure)


def test_retrieval_shows_the_papers_values_hollow_beside_the_readout():
    figure = _drawn("retrieval")
    ax = _panel(figure, "R@20")
    hollow = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_markerfacecolor() == "none"]
    assert hollow == [[0.121, 2], [0.485, 4], [0.497, 5]]
    assert ax.get_yticklabels()[3].get_text() == "mean pooling, τ = 0.05"
    assert _title(figure).endswith("highest for late interaction (0.50 [0.45, 0.55])")
    assert "of other data and another model" in figure.get_supxlabel().replace("\n", " ")


def test_conventions_stand_beside_each_other_and_the_title_says_what_one_adds():
    figure = _drawn("retrieval-conventions")
    lines = [line for ax in figure.axes for line in ax.lines]
    hollow = [line for line in lines if line.get_markerfacecolor() == "none"]
    assert [line.get_xdata()[0] for line in hollow] == pytest.approx([0.165, 0.22, 0.55])
    assert "by +0.015 for pretrained to +0.050 for late interaction" in _title(figure)


def test_both_late_interactions_are_one_line_over_effective_temperature():
    ax = _drawn("temperature").axes[1]
    lines = [
        line.get_xdata() for line in ax.lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 2
    ]
    assert [len(x) for x in lines] == [3, 6]
    np.testing.assert_allclose(lines[1][[0, -1]], [0.02 / 30, 0.5])


def test_heatmaps_stand_on_their_numbers_and_mark_what_excludes_zero():
    figure = _drawn("style")
    first = _panel(figure, "pretrained").images[0]
    np.testing.assert_allclose(np.asarray(first.get_array())[0, 0], -0.2)
    assert first.norm.vmin <= -0.2
    marked = _drawn("style-difference")
    table = TABLES["style-difference"].query("readout == 'li'")
    sure = ((table["low"] > 0) | (table["high"] < 0)).sum()
    assert len(_panel(marked, "late interaction").lines[0].get_xdata()) == sure > 0


def test_consolidation_is_marked_at_the_first_layer_that_reaches_it():
    figure = _drawn("rank-recovery")
    marks = {
        line.get_marker(): line.get_xydata()[0] for line in figure.axes[1].lines if len(line.get_xdata()) == 1
    }
    np.testing.assert_allclose(marks["o"], [4 / 6, 0.2 + 4 / 6])
    np.testing.assert_allclose(marks["s"], [5 / 6, 5 / 6])
    never = TABLES["rank-recovery"].assign(value=0.5)
    assert "no layer for mean pooling" in _title(_draw("rank-recovery", never))


def test_titles_are_made_from_the_numbers():
    assert "100× in score, 1× in clean-corrupt gaps" in _title(_drawn("sensitivity"))
    assert "60% of tier B, mean pooling" in _title(_drawn("tiers"))
    assert "100% with equal lengths and 82 to 94% with unequal lengths" in _title(_drawn("identity"))
    assert "40% for late interaction" in _title(_drawn("gradients"))
    assert "0.30 to 0.70 (late interaction)" in _title(_drawn("dynamics"))
    assert "patches of 2 (0.55 [0.50, 0.60])" in _title(_drawn("patch-length"))
    assert "layer 6 has the largest share, 0.250 (equal shares: 0.143)" in _title(_drawn("layer-weights"))
    assert "-0.20 late interaction" in _title(_drawn("style-cut"))
    assert "word length 0.75 and 0.25" in _title(_drawn("style-tokens"))
    assert "30 tokens on average" in _title(_drawn("lengths"))


def test_each_intervention_has_a_panel_with_a_curve_for_each_scorer():
    ax = _panel(_drawn("interventions"), "mean shift")
    np.testing.assert_allclose(_curve(ax, "li")[[0, -1]], [-10, 80], atol=1e-9)
    ax = _panel(_drawn("stitching"), "early exit")
    np.testing.assert_allclose(_curve(ax, "mean")[0], 0.2)


def test_dynamics_has_layers_upwards_and_equally_spaced_steps():
    figure = _drawn("dynamics")
    shown = _panel(figure, "mean pooling")
    assert np.asarray(shown.images[0].get_array()).shape == (7, 5)
    assert shown.get_ylim() == (-0.5, 6.5)
    np.testing.assert_allclose(np.asarray(shown.images[0].get_array())[-1, -1], 1)
