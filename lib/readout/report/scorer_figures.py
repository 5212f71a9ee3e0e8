"""The figures of training and retrieval: how scorers learn, what they find, and what temperature and patches do."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from readout.report.scorer_style import (
    Look,
    dot,
    finding,
    first,
    key,
    layer_axis,
    look_of,
    names,
    note,
    panels,
    sampling,
    select,
    shape,
)

SMOOTHED = 20  # a point of a smoothed curve is the mean of 1 / 20 of the steps
FAMILY = {"li-mean": "li"}
PAPER = {"color": "0.15", "marker": "D", "linestyle": "none", "markersize": 6, "markerfacecolor": "none"}
CONVENTIONS = {"corrected": {}, "as_published": {"markerfacecolor": "none"}}
WITHOUT_OWN = {"corrected": "own document left out", "as_published": "left in, as published"}
OURS = {"color": "0.15", "marker": "o", "linestyle": "none", "markersize": 4.5}


def loss(table: pd.DataFrame) -> Figure:
    """Training loss against step, a thin line for every seed: the main runs, and beside them the controls.

    Controls are runs with fewer seeds or another temperature than the first run, and the layerwise mix.
    """
    rows = select(table)
    runs = list(_runs(rows))
    groups = {"main runs": [r for r in runs if not _is_control(r[1], runs[0][1])]}
    groups["controls"] = [r for r in runs if _is_control(r[1], runs[0][1])]
    groups = {title: group for title, group in groups.items() if group}
    figure, axes, strip = panels(1, len(groups), 2.5, sharey=True)
    strip.remove()
    for ax, (title, group) in zip(axes.flat, groups.items(), strict=True):
        for look, run in group:
            for _, one in run.groupby("seed"):
                ax.plot(one["step"], _smooth(one["value"]), **look.line, linewidth=0.9)
        styles = {look.label: look.line for look, _ in group}
        key(ax, styles, loc="lower left", bbox_to_anchor=(0, 1), ncols=1, title=title, alignment="left")
        ax.set_xlabel("step")
    axes.flat[0].set_ylabel("InfoNCE, nats")
    ends = ", ".join(f"{_end(run):.2f} for {look.label}" for look, run in groups["main runs"])
    finding(figure, f"The training loss ends at {ends}")
    smoothed = f"Each value is the mean of 1/{SMOOTHED} of the steps; one line a seed."
    note(figure, f"{smoothed} {sampling(rows, 'texts')}")
    return figure


def _runs(rows: pd.DataFrame) -> Iterator[tuple[Look, pd.DataFrame]]:
    """Every run, with its temperature in the label where that is not the first run's."""
    usual = rows["temperature"].iloc[0]
    for (readout, temperature), run in rows.groupby(["readout", "temperature"], sort=False):
        kind = _kind(readout)
        yield look_of(kind if temperature == usual else f"{kind}@{temperature:g}"), run.sort_values("step")


def _is_control(run: pd.DataFrame, first: pd.DataFrame) -> bool:
    fewer = run["seed"].nunique() < first["seed"].nunique()
    other = run["temperature"].iloc[0] != first["temperature"].iloc[0]
    return bool(fewer or other or run["readout"].iloc[0] == "layerwise")


def _smooth(values: pd.Series) -> pd.Series:
    return values.rolling(max(1, len(values) // SMOOTHED), center=True, min_periods=1).mean()


def _end(run: pd.DataFrame) -> float:
    """The smoothed loss at the last step, as a mean over seeds."""
    return float(np.mean([_smooth(one["value"]).iloc[-1] for _, one in run.groupby("seed")]))


def retrieval(table: pd.DataFrame) -> Figure:
    """Every retrieval metric of every read-out with its interval, and the paper's values where it has them."""
    rows = select(table)
    readouts, metrics = names(rows["readout"]), names(rows["metric"])
    figure, axes, strip = panels(*shape(len(metrics)), 0.6 + 0.2 * len(readouts), sharey=True)
    for ax, metric in zip(first(axes, len(metrics)), metrics, strict=True):
        _dots(ax, rows[rows["metric"] == metric], readouts)
        ax.set_title(metric)
    own = rows[rows["data"] != "paper"]
    key(strip, {"measured here": OURS} | ({"the paper's value": PAPER} if len(own) < len(rows) else {}))
    main = own[own["metric"] == metrics[0]].sort_values("value")
    finding(figure, f"{metrics[0]}: lowest for {_stated(main.iloc[0])}, highest for {_stated(main.iloc[-1])}")
    paper = " Hollow diamonds: the paper's values, of other data and another model."
    note(figure, sampling(own, "queries", "bars") + (paper if len(own) < len(rows) else ""))
    return figure


def _dots(ax: Axes, rows: pd.DataFrame, readouts: list[str]) -> None:
    for y, readout in enumerate(readouts):
        for _, row in rows[rows["readout"] == readout].iterrows():
            if row["data"] == "paper":
                ax.plot(row["value"], y, **PAPER, zorder=1)
            else:
                dot(ax, y, row, across=True, **look_of(readout).point)
    ax.set_yticks(range(len(readouts)), [look_of(readout).label for readout in readouts])
    ax.set_ylim(len(readouts) - 0.5, -0.5)
    ax.set_xlim(left=0)


def retrieval_conventions(table: pd.DataFrame) -> Figure:
    """What leaving texts of the query's own document in its ranking, as the public code does, adds to R@20."""
    rows = select(table, metric="R@20")
    readouts = names(rows["readout"])
    figure, axes, strip = panels(1, 1, 0.6 + 0.3 * len(readouts))
    ax = axes.flat[0]
    for shift, (convention, filled) in zip((-0.12, 0.12), CONVENTIONS.items(), strict=True):
        for y, readout in enumerate(readouts):
            one = rows[(rows["readout"] == readout) & (rows["convention"] == convention)].iloc[0]
            dot(ax, y + shift, one, across=True, **look_of(readout).point, **filled)
    ax.set_yticks(range(len(readouts)), [look_of(readout).label for readout in readouts])
    ax.set_ylim(len(readouts) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_xlabel("R@20")
    key(strip, {label: OURS | CONVENTIONS[name] for name, label in WITHOUT_OWN.items()})
    means = rows.pivot(index="readout", columns="convention", values="value")
    added = (means["as_published"] - means["corrected"]).sort_values()
    ends = (f"{value:+.3f} for {look_of(name).label}" for name, value in (added.iloc[[0, -1]]).items())
    finding(figure, f"Texts of the query's own document in its ranking change R@20 by {' to '.join(ends)}")
    note(figure, sampling(rows, "queries", "bars"))
    return figure


def _stated(row: pd.Series) -> str:
    """A value with its interval, for a title."""
    interval = f" [{row['low']:.2f},\u00a0{row['high']:.2f}]" if np.isfinite(row["low"]) else ""
    return f"{look_of(row['readout']).label} ({row['value']:.2f}{interval})"


def temperature(table: pd.DataFrame) -> Figure:
    """R@20 against effective temperature: whether late interaction finds more, or is only trained colder."""
    rows = select(table, metric="R@20")
    rows = rows.assign(kind=rows["readout"].map(_kind))
    figure, axes, strip = panels(1, 1, 2.6)
    best = []
    for family, line in rows.groupby(rows["kind"].replace(FAMILY), sort=False):
        line = line.sort_values("effective_temperature")
        axes.flat[0].plot(line["effective_temperature"], line["value"], **look_of(family).line, linewidth=1)
        for _, row in line.iterrows():
            style = look_of(row["kind"]).point | {"color": look_of(family).color}
            dot(axes.flat[0], row["effective_temperature"], row, **style)
        top = line.loc[line["value"].idxmax()]
        best.append(f"{top['value']:.2f} at {top['effective_temperature']:.2g} for {look_of(family).label}")
    axes.flat[0].set(xscale="log", xlabel="effective temperature", ylabel="R@20")
    _ticks_at(axes.flat[0], sorted({round(x, 3) for x in rows["effective_temperature"]}))
    key(strip, {look.label: look.point for look in map(_of_family, names(rows["kind"]))})
    finding(figure, f"R@20 over all temperatures is at most {', '.join(best)}")
    meaning = "Effective temperature: what scores are divided by, over the number of cosines that they sum."
    note(figure, f"{meaning} {sampling(rows, 'queries', 'bars')}")
    return figure


def _kind(readout: str) -> str:
    return readout.partition("@")[0]


def _of_family(kind: str) -> Look:
    """The look of a scorer in the colour of its family."""
    look, family = look_of(kind), look_of(FAMILY.get(kind, kind))
    label = f"{look.label}, sum" if kind in FAMILY.values() else look.label
    return Look(label, family.color, family.linestyle, look.marker)


def patch_length(table: pd.DataFrame) -> Figure:
    """R@20 against the length of a patch, from late interaction (single tokens) to mean pooling (whole texts)."""
    rows = select(table, metric="R@20").sort_values("token")
    figure, axes, strip = panels(1, 1, 2.6)
    strip.remove()
    ax = axes.flat[0]
    ax.plot(rows["token"], rows["value"], color="0.7", linewidth=0.8, zorder=1)
    for _, row in rows.iterrows():
        dot(ax, row["token"], row, **look_of(row["readout"]).point)
    _length_axis(ax, rows)
    top = rows.loc[rows["value"].idxmax()]
    finding(figure, f"R@20 is highest for {_stated(top)}")
    note(figure, f"Mean pooling stands at the mean length of a text. {sampling(rows, 'queries', 'bars')}")
    return figure


def _length_axis(ax: Axes, rows: pd.DataFrame) -> None:
    """Lengths on a log axis, its two ends named above."""
    for _, row in rows[rows["readout"].isin(["li", "mean"])].iterrows():
        place = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        ax.annotate(look_of(row["readout"]).label, (row["token"], 1.01), **place)
    ax.set(xscale="log", xlabel="tokens in a patch", ylabel="R@20")
    ax.set_xlim(0.75 * rows["token"].min(), 1.5 * rows["token"].max())
    _ticks_at(ax, sorted({round(token, 1) for token in rows["token"]}))


def _ticks_at(ax: Axes, values: list[float]) -> None:
    """Ticks where something was measured, instead of the log axis's own, which would run into each other."""
    ax.xaxis.set_major_locator(FixedLocator(values))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{value:.3g}" for value in values])


def layer_weights(table: pd.DataFrame) -> Figure:
    """What share of the layerwise mix every layer has, a line for every seed, beside equal shares."""
    rows = select(table)
    figure, axes, strip = panels(1, 1, 2.4)
    look, equal = look_of("layerwise"), 1 / (rows["layer"].max() + 1)
    for _, one in rows.sort_values("depth").groupby("seed", dropna=False):
        axes.flat[0].plot(one["depth"], one["value"], **look.line, marker=look.marker, markersize=3)
    axes.flat[0].axhline(equal, color="0.3", linestyle=":", linewidth=1)
    layer_axis(axes.flat[0], rows)
    axes.flat[0].set_ylabel("share of the mix")
    key(strip, {look.label: look.line, "equal shares": {"color": "0.3", "linestyle": ":"}})
    shares = rows.groupby("layer")["value"].mean()
    top = f"layer {shares.idxmax():.0f} has the largest share, {shares.max():.3f}"
    finding(figure, f"Layerwise mix: {top} (equal shares: {equal:.3f})")
    note(figure, f"x: layer, relative depth below. {sampling(rows, 'texts')}")
    return figure


DRAWINGS = {
    "loss": loss,
    "retrieval": retrieval,
    "retrieval-conventions": retrieval_conventions,
    "temperature": temperature,
    "patch-length": patch_length,
    "layer-weights": layer_weights,
}
