"""The figures of style probes: what of an author's style is linearly readable at every layer, and of what."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from readout.report.figures import PALETTE, band
from readout.report.scorer_style import (
    Look,
    diverging,
    finding,
    first,
    heatmap,
    key,
    layer_axis,
    look_of,
    names,
    note,
    panels,
    sampling,
    scale,
    select,
    shape,
)

UNCLIPPED = "R² is unclipped: below 0 a probe is worse than the mean of the targets."
WIDE = 12  # layers, above which a heatmap with numbers takes the whole width
CONVENTIONS = {
    "corrected": Look("states and targets from the full text", PALETTE[0], "-", "o"),
    "as_published": Look("states from the first 200 characters", PALETTE[1], (0, (5, 1.5)), "s"),
}
READ_FROM = {"own state": "-", "text vector": (0, (4, 1.5))}


def style(table: pd.DataFrame) -> Figure:
    """R² of every group of style features at every layer, a heatmap for the pretrained and each trained model."""
    rows = select(table)
    figure = _heatmaps(rows, scale(rows["value"]), ".2f", "R²")
    means = rows.groupby("readout", sort=False)["value"].mean()
    stated = ", ".join(f"{mean:.2f} {look_of(readout).label}" for readout, mean in means.items())
    finding(figure, f"Mean R² over groups and layers: {stated}")
    note(figure, f"x: layer. {UNCLIPPED} {sampling(rows, 'texts', 'intervals in the table')}")
    return figure


def style_difference(table: pd.DataFrame) -> Figure:
    """How training changed R²: trained minus pretrained, with a dot where the interval excludes 0."""
    rows = select(table)
    sure = rows[(rows["low"] > 0) | (rows["high"] < 0)]
    figure = _heatmaps(rows, diverging(rows["value"]), "+.2f", "difference of R²", sure)
    top = rows.loc[rows["value"].abs().idxmax()]
    where = f"{top['group']}, layer {top['layer']:.0f}, {look_of(top['readout']).label}"
    cells = f"{len(sure)} of {len(rows)} cells"
    largest = f"{top['value']:+.2f} ({where})"
    finding(figure, f"Training changes R² beyond its interval in {cells}; most by {largest}")
    dots = "Dot: the interval excludes 0."
    note(figure, f"x: layer. Trained minus pretrained. {dots} {sampling(rows, 'texts', 'intervals')}")
    return figure


def _heatmaps(
    rows: pd.DataFrame, colours: ScalarMappable, form: str, unit: str, marked: pd.DataFrame | None = None
) -> Figure:
    """A heatmap for every read-out, groups from the top in the order of the rows, in one scale of colours."""
    readouts, groups = names(rows["readout"]), names(rows["group"])
    n_columns = 1 if rows["layer"].nunique() > WIDE else min(2, len(readouts))
    n_rows = -(-len(readouts) // n_columns)
    figure, axes, strip = panels(n_rows, n_columns, 0.5 + 0.17 * len(groups), sharex=True, sharey=True)
    strip.remove()
    used = first(axes, len(readouts))
    for ax, readout in zip(used, readouts, strict=True):
        cells = rows[rows["readout"] == readout].pivot(index="group", columns="layer", values="value")
        cells = cells.reindex(groups)
        heatmap(ax, cells, colours, form)
        if marked is not None:
            _mark(ax, marked[marked["readout"] == readout], cells)
        ax.set_title(look_of(readout).label)
        ax.set_yticks(range(len(groups)), groups, fontsize=7)
        ax.set_xticks(range(cells.shape[1]), [f"{layer:.0f}" for layer in cells], fontsize=6.5)
    figure.colorbar(colours, ax=used, label=unit, aspect=40, fraction=0.03)
    return figure


def _mark(ax: Axes, rows: pd.DataFrame, cells: pd.DataFrame) -> None:
    """A dot in the upper right corner of each cell that is in `rows`."""
    x = cells.columns.get_indexer(rows["layer"]) + 0.4
    y = cells.index.get_indexer(rows["group"]) - 0.34
    ax.plot(x, y, "o", color="black", markersize=2, markeredgecolor="white", markeredgewidth=0.3)


def style_cut(table: pd.DataFrame) -> Figure:
    """R² as the full text gives it, and as its first 200 characters do: a panel a model, the mean over groups."""
    rows = select(table)
    readouts = names(rows["readout"])
    figure, axes, strip = panels(*shape(len(readouts)), 1.9, sharey=True)
    losses = []
    for ax, readout in zip(first(axes, len(readouts)), readouts, strict=True):
        one = rows[rows["readout"] == readout]
        for convention, look in CONVENTIONS.items():
            band(ax, one[one["convention"] == convention], **look.line)
        layer_axis(ax, one)
        ax.set_title(look_of(readout).label)
        mean = one.groupby("convention")["value"].mean()
        losses.append(f"{mean['as_published'] - mean['corrected']:+.2f} {look_of(readout).label}")
    for ax in axes[:, 0]:
        ax.set_ylabel("R², mean of groups")
    key(strip, {look.label: look.line for look in CONVENTIONS.values()})
    finding(figure, f"Reading 200 characters only changes the mean R² by {', '.join(losses)}")
    note(figure, f"x: layer, relative depth below. {UNCLIPPED} {sampling(rows, 'texts')}")
    return figure


def style_tokens(table: pd.DataFrame) -> Figure:
    """What a token's own state tells of its target (solid), and what the vector of its text does (dashed)."""
    rows = select(table)
    features = names(rows["feature"])
    figure, axes, strip = panels(*shape(len(features)), 1.8, sharey=True)
    for ax, feature in zip(first(axes, len(features)), features, strict=True):
        one = rows[rows["feature"] == feature]
        for (readout, source), line in one.groupby(["readout", "intervention"], sort=False):
            band(ax, line, color=look_of(readout).color, linestyle=READ_FROM[source])
        layer_axis(ax, one)
        ax.set_title(feature)
    for ax in axes[:, 0]:
        ax.set_ylabel("R²")
    _key_of_tokens(strip, names(rows["readout"]))
    means = rows.pivot_table(index="feature", columns="intervention", values="value").reindex(features)
    compared = (f"{f} {m['own state']:.2f} and {m['text vector']:.2f}" for f, m in means.iterrows())
    finding(figure, f"Mean R² from a token's own state and from its text's vector: {'; '.join(compared)}")
    note(figure, f"x: layer, relative depth below. {UNCLIPPED} {sampling(rows, 'tokens')}")
    return figure


def _key_of_tokens(strip: Axes, readouts: list[str]) -> None:
    models = {look.label: {"color": look.color} for look in map(look_of, readouts)}
    key(strip, models | {source: {"color": "0.15", "linestyle": dash} for source, dash in READ_FROM.items()})


DRAWINGS = {
    "style": style,
    "style-difference": style_difference,
    "style-cut": style_cut,
    "style-tokens": style_tokens,
}
