"""Figures on generated tokens show the numbers of their tables: on the axes, and in the sentences around them."""

from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from readout.report import figures
from readout.report.alignment_figures import LOOKS, ONE_SEED, look_of
from readout.report.figures import WIDTH

from .alignment_tables import CONTROLS, POOLED, TABLES

DRAWN_TOGETHER = {
    kind: [r for r in dict.fromkeys(TABLES[kind]["readout"]) if r in LOOKS]
    for kind in ("depth", "trajectory", "segments", "length", "metrics")
}


def _draw(kind, table):
    with figures.style():
        figure = figures.drawings()[kind](table)
    plt.close(figure)
    return figure


@cache
def _drawn(kind):
    return _draw(kind, TABLES[kind])


def _title(figure):
    return figure.get_suptitle().replace("\n", " ").replace("\u00a0", " ")


def _note(figure):
    return figure.get_supxlabel().replace("\n", " ")


def _panel(figure, title):
    return next(ax for ax in figure.axes if ax.get_title(loc="left") == title)


def _line(ax, readout):
    """The curve in a read-out's colour and dash; the bold one where its seeds are there too."""
    look = look_of(readout)
    found = [x for x in ax.lines if x.get_color() == look.color and len(set(x.get_xdata())) > 2]
    return max(found, key=lambda line: line.get_linewidth())


def _points(figure):
    return np.concatenate([line.get_xydata() for ax in figure.axes for line in ax.lines])


def _bars(ax):
    """The horizontal intervals of a panel of dots, as (y, low, high)."""
    found = (line.get_xydata() for line in ax.lines if len(line.get_xdata()) == 2)
    level = (one for one in found if one[0, 1] == one[1, 1] and np.isfinite(one).all())
    return sorted((one[0, 1], *one[:, 0]) for one in level)


def _shown_texts(figure):
    """Every text with its box; labels of ticks outside of an axis are not drawn."""
    hidden = set()
    for axis, (low, high) in ((a, a.get_view_interval()) for ax in figure.axes for a in (ax.xaxis, ax.yaxis)):
        off = not axis.axes.axison
        for tick, at in zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=True):
            if off or not min(low, high) <= at <= max(low, high):
                hidden |= {tick.label1, tick.label2}
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and text not in hidden:
            yield text, text.get_window_extent()


@pytest.mark.parametrize("kind", TABLES)
def test_drawn_from_the_csv_as_from_the_table(tmp_path, kind):
    TABLES[kind].to_csv(tmp_path / "table.csv", index=False)
    first, again = _drawn(kind), _draw(kind, pd.read_csv(tmp_path / "table.csv"))
    assert [(_title(first), _note(first))] == [(_title(again), _note(again))]
    if kind != "generations":  # it has bars alone
        np.testing.assert_allclose(_points(first), _points(again))
    assert "tiny-llm; n = 117 " in _note(first)
    assert ("95%, percentile limits of half-samples" in _note(first)) == ("low" in TABLES[kind])
    assert ("; seeds 0, 1" in _note(first)) == ("seed" in TABLES[kind])


@pytest.mark.parametrize("kind", TABLES)
def test_no_text_overlaps_another_or_leaves_the_page(kind):
    figure = _drawn(kind)
    assert figure.get_figwidth() == WIDTH
    figure.set_dpi(figures.STYLE["savefig.dpi"])  # the width of text depends on it
    with figures.style():
        figure.draw_without_rendering()
    texts = list(_shown_texts(figure))
    page = figure.bbox.padded(1)
    assert [t.get_text() for t, box in texts if not (page.x0 <= box.x0 and box.x1 <= page.x1)] == []
    pairs = combinations(texts, 2)
    clashes = [
        (a.get_text(), b.get_text()) for (a, x), (b, y) in pairs if x.padded(-1).overlaps(y.padded(-1))
    ]
    assert clashes == []


@pytest.mark.parametrize("kind", DRAWN_TOGETHER)
def test_dash_and_marker_alone_tell_readouts_apart(kind):
    looks = [look_of(readout) for readout in DRAWN_TOGETHER[kind]]
    assert len({(str(look.linestyle), look.marker) for look in looks}) == len(looks)


def test_each_readout_has_a_dot_with_its_interval_and_hollow_marks_for_its_seeds():
    figure = _drawn("readouts")
    assert len([ax for ax in figure.axes if ax.get_xlabel() == "CKA"]) == 5
    ax = _panel(figure, "captions\nimage, efficientnet-lite0")
    assert [t.get_text() for t in ax.get_yticklabels()] == list(POOLED)
    bars = _bars(ax)
    assert len(bars) == len(POOLED)
    np.testing.assert_allclose(bars[0], [0, 0.37, 0.45])
    hollow = [line.get_xdata()[0] for line in ax.lines if line.get_markerfacecolor() == "none"]
    np.testing.assert_allclose(sorted(hollow)[-3:], [0.395, 0.41, 0.425])
    assert _title(figure) == "CKA is highest for generated mean in 5 of 5 panels (0.31 to 0.51)"


def test_no_bar_is_drawn_without_limits():
    table = TABLES["readouts"].drop(columns=["low", "high", "level"])
    figure = _draw("readouts", table[table["metric"] != ONE_SEED])
    assert _bars(figure.axes[1]) == []
    assert "half-samples" not in _note(figure)


def test_the_highest_control_is_named_and_the_generated_mean_marked():
    figure = _drawn("controls")
    ax = _panel(figure, "captions")
    dotted = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert dotted == [CONTROLS["generated mean"]]
    assert "0.41 [0.38, 0.44], highest control: caption read by all-minilm, 0.48" in _title(figure)


def test_trajectory_has_seeds_thin_their_mean_bold_the_null_and_where_phases_end():
    ax = _panel(_drawn("trajectory"), "captions")
    thin = [line for line in ax.lines if line.get_linewidth() == 0.5]
    assert len(thin) == 4
    np.testing.assert_allclose(_line(ax, "cumulative mean").get_ydata()[[0, -1]], [0.1, 0.4])
    np.testing.assert_allclose(_line(ax, "averaging null").get_ydata()[-1], 0.3)
    upright = sorted(x[0] for line in ax.lines if len(x := line.get_xdata()) == 2 and x[0] == x[1])
    assert upright == [4.5, 6]
    assert [t.get_text() for t in ax.texts] == ["preamble ends", "repetition ends"]
    assert "0.40 and 0.31 at token 12 (captions)" in _title(_drawn("trajectory"))


def test_trajectory_is_drawn_without_phases_null_and_second_seed():
    table = TABLES["trajectory"]
    table = table[table["readout"].isin(["single token", "cumulative mean"]) & (table["seed"] == 0)]
    ax = _panel(_draw("trajectory", table.drop(columns="phase")), "captions")
    assert len(ax.lines) == 2
    assert list(ax.texts) == []


def test_depth_has_a_curve_a_readout_and_layers_averaged_across():
    figure = _drawn("depth")
    ax = _panel(figure, "captions")
    np.testing.assert_allclose(_line(ax, "prompt mean").get_ydata().argmax(), 4)
    flat = [y[0] for line in ax.lines if len(y := line.get_ydata()) == 2]
    np.testing.assert_allclose(flat, [0.33, 0.31])
    assert len(ax.collections) == 4
    assert "generated mean at layer 6, 0.41, prompt mean at layer 4, 0.32 (captions)" in _title(figure)


def test_token_depth_has_layers_upwards_one_scale_and_a_cross_at_the_highest():
    figure = _drawn("token-depth")
    images = [ax.images[0] for ax in figure.axes if ax.images]
    assert len({(image.norm.vmin, image.norm.vmax) for image in images}) == 1
    ax = _panel(figure, "captions")
    cells = np.asarray(ax.images[0].get_array())
    assert cells.shape == (7, 24)
    assert ax.get_ylim() == (-0.5, 6.5)
    x, y = ax.lines[0].get_xydata()[0]
    assert cells[int(y), int(x)] == cells.max()
    assert "layer 6, token 12: 0.29 (captions)" in _title(figure)


def test_simplex_marks_the_best_mixture_and_values_its_corners():
    figure = _drawn("simplex")
    ax = _panel(figure, "captions")
    np.testing.assert_allclose(ax.lines[0].get_xydata()[0], [0.3 / 2 + 0.5, 0.3 * np.sqrt(0.75)])
    said = [t.get_text() for t in ax.texts]
    assert said == ["first\n0.204", "middle\n0.244", "last\n0.324"]
    assert "0.400 at 0.2 : 0.3 : 0.5, best third 0.324 (captions)" in _title(figure)


def test_segments_stand_at_equal_steps_and_seeds_have_their_own_panel():
    figure = _drawn("segments")
    left, right = _panel(figure, "captions: segments"), _panel(figure, "captions: seeds")
    assert [t.get_text() for t in left.get_xticklabels()] == ["1", "2", "4", "8", "16"]
    np.testing.assert_allclose(np.diff(_line(left, "best segment").get_xdata()), 1)
    np.testing.assert_allclose(_line(right, "same segment, other seeds").get_ydata(), [0.28, 0.31, 0.34])
    assert "0.41 against 0.33 for the best of 16 segments (captions)" in _title(figure)
    cut = TABLES["segments"]["readout"].isin(["uniform mixture", "best segment", "mean of segments"])
    alone = _draw("segments", TABLES["segments"][cut])
    assert not [ax for ax in alone.axes if ax.get_title(loc="left").endswith("seeds")]


def test_injection_shows_the_lead_over_the_mean_of_the_other_phrases():
    figure = _drawn("injection")
    leads = [ax for ax in figure.axes if ax.get_title(loc="left") == "less the mean of the other phrases"]
    assert len(leads) == 2
    np.testing.assert_allclose(leads[0].lines[0].get_ydata().max(), 0.1 - 0.03)
    band = leads[0].collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(band.max(), 0.07 + 0.02)
    first, *others = _panel(figure, "captions, after token 8").lines
    assert all(first.get_linewidth() > other.get_linewidth() for other in others)
    assert "+0.07 [0.05, 0.09] at token 6 (captions, after token 8)" in _title(figure)


def test_length_shows_the_difference_apart_with_a_line_at_zero():
    figure = _drawn("length")
    ax = _panel(figure, "generated mean less prompt mean")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.2, 0.06, -0.1])
    assert [0, 0] in [list(line.get_ydata()) for line in ax.lines]
    assert ax.get_xticklabels()[0].get_text() == "short\n2.4 words"
    assert "-0.10 [-0.15, -0.05] at 42.7 words" in _title(figure)


def test_metrics_count_comparisons_and_name_what_shuffled_pairs_reach():
    assert _title(_drawn("metrics")) == (
        "The generated mean is above the prompt mean in 21 of 21 comparisons; "
        "shuffled pairs reach 0.53 (biased CKA)"
    )
    worse = TABLES["metrics"].copy()
    worse.loc[(worse["readout"] == "prompt mean") & (worse["estimator"] == "RSA"), "value"] = 1.0
    assert "in 18 of 21 comparisons" in _title(_draw("metrics", worse))


def test_generations_are_counted_by_length_and_by_how_they_ended():
    figure = _drawn("generations")
    ax = _panel(figure, "captions")
    table = TABLES["generations"].query("domain == 'captions'")
    assert sum(bar.get_height() for bar in ax.patches) == table["value"].sum()
    hatched = [bar for bar in ax.patches if bar.get_hatch() and bar.get_height()]
    assert [bar.get_height() for bar in hatched] == [40]
    assert "66% of 117 (captions)" in _title(figure)
