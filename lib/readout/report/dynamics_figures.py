"""The figures of training: where gradients go under each scorer, and where signal arises as training goes on."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from readout.report.scorer_style import (
    dot,
    finding,
    heatmap,
    key,
    layer_axis,
    look_of,
    names,
    note,
    panels,
    readout_axis,
    sampling,
    scale,
    select,
)

STRUCTURE = ("share of tokens", "effective tokens", "rank")
NORM = "gradient norm"
SIDES = {"query": "o", "candidate": "s", "candidate, union": "D"}
MAPS = {"rank_recovery": "rank recovery", "recovery_ratio": "recovery ratio, %", "R2": "R², mean of groups"}


def gradients(table: pd.DataFrame) -> Figure:
    """How many tokens a scorer's gradient reaches, in how many directions, and how far down its norm goes."""
    rows = select(table)
    figure, axes, strip = panels(2, len(STRUCTURE), 2.0)
    for ax, metric in zip(axes[0], STRUCTURE, strict=True):
        _structure(ax, rows[rows["metric"] == metric])
        ax.set_title(metric)
    wide = figure.add_subplot(axes[1, 0].get_subplotspec().get_gridspec()[1, :])
    for ax in axes[1]:
        ax.remove()
    _norms(wide, rows[rows["metric"] == NORM])
    grey = {"color": "0.3", "linestyle": "none"}
    sides = {side: grey | {"marker": SIDES[side]} for side in names(rows["side"])}
    key(strip, sides | {look.label: {"color": look.color} for look in map(look_of, names(rows["readout"]))})
    finding(figure, f"Share of a candidate's tokens with gradient: {_reached(rows)}")
    what = "Hollow and dotted: step 0; filled and solid: the last step. Below: x is layer, relative depth below it."
    note(figure, f"{what} Union: over the queries of a batch. {sampling(rows, 'pairs', 'bars')}")
    return figure


def _structure(ax: Axes, rows: pd.DataFrame) -> None:
    """A metric of the gradient of every scorer: sides beside each other, step 0 left of the last."""
    readouts, places = names(rows["readout"]), _places(rows)
    for _, row in rows.iterrows():
        at = readouts.index(row["readout"]) + places[row["side"], row["step"]]
        point = look_of(row["readout"]).point | {"marker": SIDES[row["side"]], "markersize": 4}
        dot(ax, at, row, **point | ({} if row["step"] else {"markerfacecolor": "white"}))
    readout_axis(ax, readouts)
    ax.set_ylabel(rows["unit"].iloc[0])
    ax.set_ylim(0, 1.1 * rows["high"].max())


def _places(rows: pd.DataFrame) -> dict[tuple[str, float], float]:
    """How far from its scorer's middle each side and step stands."""
    points = [(side, step) for side in names(rows["side"]) for step in sorted(set(rows["step"]))]
    return dict(zip(points, np.linspace(-0.3, 0.3, len(points)), strict=True))


def _norms(ax: Axes, rows: pd.DataFrame) -> None:
    """The norm of the gradient at every layer, before training and after."""
    for (readout, step), line in rows.sort_values("depth").groupby(["readout", "step"], sort=False):
        dash = "-" if step else ":"
        ax.plot(line["depth"], line["value"], color=look_of(readout).color, linestyle=dash)
    layer_axis(ax, rows)
    ax.set(title=NORM, ylabel=rows["unit"].iloc[0])


def _reached(rows: pd.DataFrame) -> str:
    """The title's numbers: the share per pair at the last step."""
    found = rows[(rows["metric"] == STRUCTURE[0]) & (rows["side"] == "candidate")]
    found = found[found["step"] == found["step"].max()]
    return ", ".join(f"{row['value']:.0%} for {look_of(row['readout']).label}" for _, row in found.iterrows())


def dynamics(table: pd.DataFrame) -> Figure:
    """What each scorer's training does at every layer and step, a column a scorer, and R@20 below it."""
    rows = select(table)
    readouts, steps = names(rows["readout"]), sorted(set(rows["step"]))
    figure, axes, strip = panels(len(MAPS) + 1, len(readouts), 1.75, sharex=True, sharey="row")
    strip.remove()
    for line, metric in zip(axes, MAPS, strict=False):
        _maps(line, rows[rows["metric"] == metric], readouts, steps)
    recall = rows[rows["metric"] == "R@20"]
    for top, bottom, readout in zip(axes[0], axes[-1], readouts, strict=True):
        top.set_title(look_of(readout).label)
        _recall(bottom, recall[recall["readout"] == readout], steps)
    axes[-1, 0].set_ylabel("R@20")
    finding(figure, f"From step {steps[0]:.0f} to {steps[-1]:.0f}, R@20 goes from {_gains(recall)}")
    what = names(rows.loc[rows["metric"] == "recovery_ratio", "intervention"])
    sample = sampling(rows, "triplets, texts or queries")
    note(figure, f"x: step, equally spaced. Recovery ratio: {', '.join(what)}. {sample}")
    return figure


def _maps(axes: np.ndarray, rows: pd.DataFrame, readouts: list[str], steps: list[float]) -> None:
    """One metric of every scorer in one scale of colours: layers upwards, steps to the right."""
    colours = scale(rows["value"])
    for ax, readout in zip(axes, readouts, strict=True):
        cells = rows[rows["readout"] == readout].pivot(index="layer", columns="step", values="value")
        heatmap(ax, cells.reindex(columns=steps), colours)
        ax.set_ylim(-0.5, len(cells) - 0.5)
    axes[0].set_ylabel("layer")
    name = MAPS[rows["metric"].iloc[0]]
    axes[0].figure.colorbar(colours, ax=axes.tolist(), label=name, aspect=14, fraction=0.05, pad=0.01)


def _recall(ax: Axes, rows: pd.DataFrame, steps: list[float]) -> None:
    rows = rows.sort_values("step")
    x = [steps.index(step) for step in rows["step"]]
    look = look_of(rows["readout"].iloc[0])
    ax.plot(x, rows["value"], **look.line)
    ax.fill_between(x, rows["low"], rows["high"], color=look.color, alpha=0.18, linewidth=0)
    ax.set_xticks(range(len(steps)), [f"{step:.0f}" for step in steps], rotation=90, fontsize=6.5)


def _gains(rows: pd.DataFrame) -> str:
    """The title's numbers: R@20 at the first and the last step."""
    parts = []
    for readout, line in rows.sort_values("step").groupby("readout", sort=False):
        ends = " to ".join(f"{value:.2f}" for value in line["value"].iloc[[0, -1]])
        parts.append(f"{ends} ({look_of(readout).label})")
    return ", ".join(parts)


DRAWINGS = {"gradients": gradients, "dynamics": dynamics}
