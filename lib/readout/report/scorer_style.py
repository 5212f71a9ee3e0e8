"""How every read-out looks in every figure on scorers, and the parts that those figures share.

A read-out has one colour, one dash and one marker wherever it is drawn, so that a reader learns them once; dash and
marker alone tell them apart in print.
"""

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from readout.report.figures import PALETTE, WIDTH, band, caption, depth_axis

NUMBERS = ("layer", "depth", "token", "step", "temperature", "effective_temperature")
NUMBERS += ("value", "low", "high", "level", "n", "seed")


@dataclass(frozen=True)
class Look:
    """How one read-out is drawn: its label, and what tells it apart."""

    label: str
    color: str
    linestyle: str | tuple
    marker: str | tuple

    @property
    def line(self) -> dict:
        """What `Axes.plot` takes for a curve."""
        return {"color": self.color, "linestyle": self.linestyle}

    @property
    def point(self) -> dict:
        """What `Axes.plot` takes for a single value."""
        return {"color": self.color, "marker": self.marker, "linestyle": "none", "markersize": 4.5}


LOOKS = {
    "control": Look("pretrained", "0.45", (0, (1, 1.2)), "x"),
    "mean": Look("mean pooling", PALETTE[0], "-", "o"),
    "li": Look("late interaction", PALETTE[3], (0, (5, 1.5)), "s"),
    "li-mean": Look("late interaction, mean", PALETTE[4], (0, (7, 1.5, 1, 1.5, 1, 1.5)), "D"),
    "pli-2": Look("patches of 2", PALETTE[2], (0, (4, 1.5, 1, 1.5)), "^"),
    "layerwise": Look("layerwise mix", PALETTE[9], (0, (2.5, 1)), "v"),
    "char n-grams": Look("character n-grams", "0.15", (0, (1, 3)), "P"),
}


def look_of(readout: str) -> Look:
    """The look of a read-out, or of a run named `scorer@temperature`; one that has no look keeps its own name.

    >>> look_of("pli-3").label, look_of("mean@0.05").label, look_of("e5").label
    ('patches of 3', 'mean pooling, τ = 0.05', 'e5')
    """
    kind, at, temperature = readout.partition("@")
    if patch := re.fullmatch(r"pli-(\d+)", kind):
        length = int(patch[1])
        dash, star = (0, (1 + length / 2, 1.5, 1, 1.5)), (length, 1)
        other = Look(f"patches of {length}", PALETTE[5], dash, star)
    else:
        other = Look(kind, "0.3", "-", "h")
    look = LOOKS.get(kind, other)
    return Look(f"{look.label}, τ = {temperature}", look.color, look.linestyle, look.marker) if at else look


def select(table: pd.DataFrame, **wanted) -> pd.DataFrame:
    """The rows where every column in `wanted` has its value, with plain floats (NaN where missing) for numbers."""
    rows = table
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    return rows.assign(**{c: rows[c].to_numpy(float, na_value=np.nan) for c in NUMBERS if c in rows})


def names(column: pd.Series) -> list[str]:
    """The different names in a column, in the order of its rows."""
    return list(dict.fromkeys(column.dropna()))


def shape(count: int) -> tuple[int, int]:
    """Rows and columns for so many panels.

    >>> shape(1), shape(3), shape(4), shape(5)
    ((1, 1), (1, 3), (2, 2), (2, 3))
    """
    columns = 2 if count in (2, 4) else min(3, count)
    return -(-count // columns), columns


def panels(rows: int, columns: int, height: float, **share) -> tuple[Figure, np.ndarray, Axes]:
    """A figure of `rows` x `columns` axes, each `height` inches high, under one strip for `key`."""
    figure = plt.figure(figsize=(WIDTH, rows * height + 0.95), layout="constrained")
    outer = figure.add_gridspec(2, 1, height_ratios=[0.16, rows * height])
    strip = figure.add_subplot(outer[0])
    strip.set_axis_off()
    return figure, outer[1].subgridspec(rows, columns).subplots(squeeze=False, **share), strip


def first(axes: np.ndarray, count: int) -> list[Axes]:
    """The first `count` axes of a grid; the others are taken away."""
    for ax in axes.flat[count:]:
        ax.remove()
    return list(axes.flat[:count])


def lines(readouts: Iterable[str]) -> dict[str, dict]:
    """What `key` takes for curves of read-outs."""
    return {look.label: look.line for look in map(look_of, readouts)}


def key(ax: Axes, styles: dict[str, dict], **place) -> None:
    """A legend of what each label stands for, in rows of four; without `place` it fills the strip of `panels`."""
    handles = [Line2D([], [], label=label, **style) for label, style in styles.items()]
    strip = {"loc": "center left", "bbox_to_anchor": (0, 0.5), "borderpad": 0, "ncols": 4}
    ax.legend(handles=handles, handlelength=2.6, **strip | place)


def finding(figure: Figure, text: str) -> None:
    """What the figure shows, above it, in as many lines as it takes."""
    figure.suptitle(textwrap.fill(text, 95, break_on_hyphens=False), x=0.01, ha="left", fontsize=10)


def note(figure: Figure, text: str) -> None:
    """What a reader must know to judge the figure, below it, in as many lines as it takes."""
    caption(figure, textwrap.fill(text, 132, break_on_hyphens=False))


def sampling(table: pd.DataFrame, of: str, drawn: str = "bands") -> str:
    """Model, n, interval and seeds, for a caption; values that the paper gives are not ours and count for nothing.

    >>> rows = {"model": "m", "data": "d", "n": [9, 7], "low": 0.1, "level": 0.95, "seed": [0.0, 1.0]}
    >>> sampling(pd.DataFrame(rows), "texts")
    'm; n = 7 to 9 texts of d; bands: 95% over author-sets; seeds 0, 1.'
    """
    own = select(table[table["data"] != "paper"])
    ns = sorted({int(n) for n in own["n"].dropna()})
    count = f"{ns[0]} to {ns[-1]}" if len(ns) > 1 else f"{ns[0]}"
    parts = [", ".join(names(own["model"])), f"n = {count} {of} of {', '.join(names(own['data']))}"]
    if "low" in own and own["low"].notna().any():
        parts.append(f"{drawn}: {own['level'].dropna().iloc[0]:.0%} over author-sets")
    if seeds := sorted({int(s) for s in own["seed"].dropna()}):
        parts.append(f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}")
    return "; ".join(parts) + "."


def layer_axis(ax: Axes, rows: pd.DataFrame) -> None:
    """`depth_axis` with labels that fit a small panel."""
    depth_axis(ax, int(rows["layer"].max()))
    ax.tick_params(axis="x", labelsize=6.5)


def readout_axis(ax: Axes, readouts: list[str]) -> None:
    """Read-outs by name on the x-axis, each around a whole number from 0."""
    labels = [look_of(readout).label.replace(" ", "\n", 1) for readout in readouts]
    ax.set_xticks(range(len(readouts)), labels, fontsize=7)
    ax.set_xlim(-0.5, len(readouts) - 0.5)


def curves(ax: Axes, rows: pd.DataFrame) -> None:
    """One curve over depth for every read-out, each with its band."""
    for readout in names(rows["readout"]):
        band(ax, rows[rows["readout"] == readout], **look_of(readout).line)
    layer_axis(ax, rows)


def dot(ax: Axes, at: float | int, row: pd.Series, *, across: bool = False, **point) -> None:
    """One estimate at `at` with its interval: upright, or `across` from left to right.

    The interval is drawn from its limits, not from distances: an estimate may lie outside of a percentile interval.
    """
    ends, place = ([row["low"], row["high"]], [at, at])
    line = {"color": point["color"], "linewidth": 1.2, "zorder": 2}
    ax.plot(*((ends, place) if across else (place, ends)), **line)
    ax.plot(*((row["value"], at) if across else (at, row["value"])), **point)


def diverging(values: pd.Series) -> ScalarMappable:
    """Colours for all `values`, none clipped: blue above 0 and red below, with equal steps on both sides."""
    return ScalarMappable(CenteredNorm(0, max(values.abs().max(), 1e-9)), mpl.colormaps["RdBu"])


def scale(values: pd.Series) -> ScalarMappable:
    """Colours from 0 to the largest of `values`; `diverging` where some are below 0."""
    if values.min() < 0:
        return diverging(values)
    return ScalarMappable(Normalize(0, max(values.max(), 1e-9)), mpl.colormaps["Blues"])


def heatmap(ax: Axes, cells: pd.DataFrame, colours: ScalarMappable, form: str | None = None) -> None:
    """`cells` (rows from the top) in colours, each with its number in the format `form`."""
    values = cells.to_numpy(float)
    ax.imshow(values, cmap=colours.cmap, norm=colours.norm, aspect="auto", interpolation="nearest")
    ax.grid(visible=False)
    if form is None:
        return
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = colours.to_rgba(value)
            ink = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "0.15"
            ax.text(x, y, _short(value, form), ha="center", va="center", fontsize=5.5, color=ink)


def _short(value: float, form: str) -> str:
    """A number without its leading zero: cells are narrow."""
    return format(value, form).replace("0.", ".", 1) if abs(value) < 1 else format(value, form)
