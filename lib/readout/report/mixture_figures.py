"""The figures of mixtures: a generation cut into parts, and the parts averaged again with equal or other weights."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from readout.report.alignment_figures import curve_keys, grid, parts, rows_of, sampled, stepped
from readout.report.scorer_style import finding, key, names, note, panels

CORNERS = np.array([[0, 0], [0.5, np.sqrt(0.75)], [1, 0]])
THIRDS = {"w1": "first", "w2": "middle", "w3": "last"}
CUT = ("uniform mixture", "best segment", "mean of segments")


def segments(table: pd.DataFrame) -> Figure:
    """Mixing k segments of a generation against its single ones; and, of as many tokens, other seeds instead."""
    rows = rows_of(table)
    shown = parts(rows)
    figure, axes, strip = panels(len(shown), 2, 2.1)
    said = []
    for (left, right), (name, part) in zip(axes, shown.items(), strict=True):
        cut = part["readout"].isin(CUT)
        stepped(left, part[cut], "segments")
        left.set(title=f"{name}: segments", ylabel="CKA", xlabel="segments of a generation")
        _seeds(right, part[~cut], name)
        said.append(f"{_mixed(part[cut])} ({name})")
    key(strip, curve_keys(names(rows["readout"])), ncols=3)
    finding(figure, f"The uniform mixture has CKA {', '.join(said)}")
    note(figure, f"Right: as many tokens in every curve. {sampled(rows)}")
    return figure


def _seeds(ax: Axes, rows: pd.DataFrame, name: str) -> None:
    """Averages over seeds beside those over segments; no panel where there is one seed alone."""
    if rows.empty:
        ax.remove()
        return
    stepped(ax, rows, "segments")
    ax.set(title=f"{name}: seeds", xlabel="parts averaged")


def _mixed(rows: pd.DataFrame) -> str:
    """The title's numbers: the finest cut's mixture, and its best segment."""
    finest = rows["segments"].max()
    last = rows[rows["segments"] == finest].set_index("readout")["value"]
    mixture, best = last["uniform mixture"], last["best segment"]
    return f"{mixture:.2f} against {best:.2f} for the best of {finest:.0f} segments"


def simplex(table: pd.DataFrame) -> Figure:
    """CKA of every mixture of the thirds of a generation: a corner is one third alone, the middle their mean."""
    rows = rows_of(table)
    figure, shown, strip = grid(rows, 2.5)
    strip.remove()
    said = []
    for ax, name, part in shown:
        corners = _triangle(ax, part)
        top = part.loc[part["value"].idxmax()]
        weights = " : ".join(f"{top[w]:.2g}" for w in THIRDS)
        said.append(f"{top['value']:.3f} at {weights}, best third {max(corners):.3f} ({name})")
    finding(figure, f"The best mixture of thirds has CKA {'; '.join(said)}")
    note(figure, f"Star: the best mixture. Weights of first : middle : last third. {sampled(rows)}")
    return figure


def _triangle(ax: Axes, rows: pd.DataFrame) -> list[float]:
    """The mixtures of one domain in colours; returns the values at the corners."""
    weights, values = rows[[*THIRDS]].to_numpy(float), rows["value"].to_numpy()
    colours = ScalarMappable(Normalize(values.min(), values.max()), "cividis")
    points = weights @ CORNERS
    ax.tripcolor(*points.T, values, cmap=colours.cmap, norm=colours.norm, edgecolors="face")
    ax.plot(*points[values.argmax()], marker="*", color="white", markeredgecolor="black", markersize=9)
    corners = [float(values[weights[:, k].argmax()]) for k in range(3)]
    for name, value, (x, y) in zip(THIRDS.values(), corners, CORNERS, strict=True):
        place = {"ha": "center", "va": "bottom" if y else "top", "textcoords": "offset points"}
        ax.annotate(f"{name}\n{value:.3f}", (x, y), xytext=(0, 3 if y else -3), fontsize=7, **place)
    ax.set_axis_off()
    ax.set(aspect="equal", xlim=(-0.12, 1.12), ylim=(-0.22, 1.08))
    bar = ax.figure.colorbar(colours, ax=ax, location="bottom", label="CKA", aspect=25, shrink=0.8, pad=0.02)
    bar.ax.xaxis.set_major_locator(MaxNLocator(4))
    return corners


DRAWINGS = {"segments": segments, "simplex": simplex}
