"""The figures that compare read-outs of generated tokens: poolings, controls, measures and wordings.

A read-out has one colour, one dash and one marker here, in `trajectory_figures` and in `mixture_figures`.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from readout.report.figures import PALETTE
from readout.report.scorer_style import (
    Look,
    dot,
    finding,
    first,
    key,
    names,
    note,
    panels,
    sampling,
    select,
    shape,
)

ONE_SEED = "CKA of one seed"
GAIN = "generated less prompt"
Shown = list[tuple[Axes, str, pd.DataFrame]]
OPTIONAL = ("low", "high", "level", "seed")
BLUE, ORANGE, GREEN, RED, PINK = PALETTE[:5]
LOOKS = {
    "generated mean": Look("generated mean", BLUE, "-", "o"),
    "generated last": Look("generated last", GREEN, (0, (5, 1.5)), "s"),
    "prompt mean": Look("prompt mean", RED, (0, (1.5, 1)), "^"),
    "prompt last": Look("prompt last", PINK, (0, (4, 1.5, 1, 1.5)), "v"),
    "prompt echo": Look("prompt echo", ORANGE, (0, (3, 1, 1, 1)), "P"),
    "generated mean, layers averaged": Look("generated mean, layers averaged", BLUE, (0, (8, 2)), ""),
    "prompt mean, layers averaged": Look("prompt mean, layers averaged", RED, (0, (8, 2, 1, 2)), ""),
    "single token": Look("single token", ORANGE, (0, (2.5, 1)), "D"),
    "cumulative mean": Look("cumulative mean", BLUE, "-", "o"),
    "cumulative mean, as published": Look("cumulative mean, as published", PINK, (0, (4, 1.5, 1, 1.5)), "P"),
    "averaging null": Look("averaging null", "0.3", (0, (6, 2)), "x"),
    "uniform mixture": Look("uniform mixture", BLUE, "-", "o"),
    "best segment": Look("best segment", ORANGE, (0, (5, 1.5)), "s"),
    "mean of segments": Look("mean of segments", GREEN, (0, (1.5, 1)), "^"),
    "same segment, other seeds": Look("same segment, other seeds", PINK, (0, (5, 1.5)), "D"),
    "other segments, same seed": Look("other segments, same seed", BLUE, (0, (4, 1.5, 1, 1.5)), "v"),
    GAIN: Look(GAIN, "0.3", (0, (7, 1.5)), "s"),
    "pairs shuffled": Look("pairs shuffled", "0.3", (0, (6, 2)), "x"),
}


def look_of(readout: str) -> Look:
    """The look of a read-out; one that has none of its own has the colour of what it reads, and keeps its name.

    >>> look_of("prompt mean").marker, look_of("prompt text mean").color == look_of("prompt mean").color
    ('^', True)
    """
    kinds = {"generated": BLUE, "best": ORANGE, "prompt": RED}
    return LOOKS.get(readout, Look(readout, kinds.get(readout.split()[0], "0.3"), "-", "h"))


def rows_of(table: pd.DataFrame, **wanted) -> pd.DataFrame:
    """`select`, with NaN in the columns that a table without intervals or seeds leaves out."""
    absent = [column for column in OPTIONAL if column not in table]
    return select(table.assign(**dict.fromkeys(absent, np.nan)), **wanted)


def parts(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What each panel shows, by title: a domain, or one of its targets.

    >>> list(parts(pd.DataFrame({"domain": ["a", "a"], "target": ["x", "y"]})))
    ['a, x', 'a, y']
    """
    columns = [column for column in ("domain", "target") if column in rows]
    return {", ".join(one): part for one, part in rows.groupby(columns, sort=False)}


def grid(rows: pd.DataFrame, height: float, ylabel: str = "", **share) -> tuple[Figure, Shown, Axes]:
    """A figure with a panel for each of `parts`; the panels with what they show, by name; the strip for the key."""
    shown = parts(rows)
    figure, axes, strip = panels(*shape(len(shown)), height, **share)
    found = [(ax, *one) for ax, one in zip(first(axes, len(shown)), shown.items(), strict=True)]
    for ax, name, _ in found:
        ax.set_title(name.replace(", ", "\n", 1), fontsize=8)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(ylabel)
    return figure, found, strip


def curve_keys(readouts: Iterable[str]) -> dict[str, dict]:
    """What `key` takes for curves with their markers."""
    looks = map(look_of, readouts)
    return {look.label: look.line | {"marker": look.marker, "markersize": 3.5} for look in looks}


def sampled(rows: pd.DataFrame, of: str = "texts", drawn: str = "bars") -> str:
    """Model, n, data, seeds, and what the intervals are: here limits of half-samples of the texts.

    >>> rows = {"model": "m", "data": "d", "n": [9], "low": 0.1, "level": 0.95, "seed": [0.0]}
    >>> sampled(pd.DataFrame(rows))
    'm; n = 9 texts of d; bars: 95%, percentile limits of half-samples; seed 0.'
    """
    return sampling(rows, of, drawn).replace(" over author-sets", ", percentile limits of half-samples")


def stated(row: pd.Series) -> str:
    """A value with its interval where it has one, for a title."""
    interval = f"\u00a0[{row['low']:.2f},\u00a0{row['high']:.2f}]" if np.isfinite(row["low"]) else ""
    return f"{row['value']:.2f}{interval}"


def readouts(table: pd.DataFrame) -> Figure:
    """CKA of every read-out with its interval, a panel for every domain and target; every seed small and hollow."""
    rows = rows_of(table)
    figure, _, strip = _dots(rows)
    filled = {"color": "0.3", "linestyle": "none", "marker": "o", "markersize": 4.5}
    hollow = filled | {"markersize": 3, "markerfacecolor": "none"}
    key(strip, {"all seeds": filled} | ({"one seed": hollow} if (rows["metric"] == ONE_SEED).any() else {}))
    finding(figure, f"CKA is highest for {_highest(rows[rows['metric'] != ONE_SEED])}")
    note(figure, f"Best token: chosen on the texts it is scored on, unless held out. {sampled(rows)}")
    return figure


def _highest(rows: pd.DataFrame) -> str:
    """The title's numbers: in how many panels each read-out is the highest, and how high."""
    best = [part.loc[part["value"].idxmax()] for part in parts(rows).values()]
    tops, said = pd.DataFrame(best), []
    for readout, one in tops.groupby("readout", sort=False):
        ends = dict.fromkeys(f"{end:.2f}" for end in (one["value"].min(), one["value"].max()))
        said.append(f"{readout} in {len(one)} of {len(tops)} panels ({' to '.join(ends)})")
    return ", ".join(said)


def _dots(rows: pd.DataFrame) -> tuple[Figure, Shown, Axes]:
    """Read-outs downwards, CKA to the right."""
    order = names(rows["readout"])
    figure, shown, strip = grid(rows, 0.75 + 0.16 * len(order), sharey=True)
    ends = rows[["value", "low", "high"]]
    left, right = min(0, ends.min().min()), ends.max().max()
    margin = 0.05 * max(right - left, 0.02)
    for ax, _, part in shown:
        for _, row in part.iterrows():
            point, at = look_of(row["readout"]).point, order.index(row["readout"])
            if row["metric"] == ONE_SEED:
                ax.plot(row["value"], at + 0.28, **point | {"markersize": 2.3, "markerfacecolor": "none"})
            else:
                dot(ax, at, row, across=True, **point)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=1)
        ax.set(xlim=(left - margin, right + margin), ylim=(len(order) - 0.5, -0.5))
        ax.set_yticks(range(len(order)), [look_of(readout).label for readout in order])
        ax.set_xlabel("CKA")
    return figure, shown, strip


def controls(table: pd.DataFrame) -> Figure:
    """CKA of the mean over generated tokens beside that of shuffled, unrelated, echoed and otherwise read texts."""
    rows = rows_of(table)
    figure, shown, strip = _dots(rows)
    strip.remove()
    closest = []
    for ax, name, part in shown:
        own = part[part["readout"] == "generated mean"].iloc[0]
        ax.axvline(
            own["value"], color=look_of("generated mean").color, linestyle=":", linewidth=0.9, zorder=1
        )
        others = part[part["readout"] != "generated mean"]
        top = others.loc[others["value"].idxmax()]
        closest.append(f"{stated(own)}, highest control: {top['readout']}, {stated(top)} ({name})")
    finding(figure, f"CKA of the generated mean is {'; '.join(closest)}")
    note(figure, f"Dotted: the generated mean. {sampled(rows)}")
    return figure


def metrics(table: pd.DataFrame) -> Figure:
    """What each measure of alignment says of the generated mean, the prompt mean, and shuffled pairs."""
    rows = rows_of(table)
    measures, order = names(rows["estimator"]), names(rows["readout"])
    figure, shown, strip = grid(rows, 0.75 + 0.2 * len(measures), sharey=True)
    for ax, _, part in shown:
        for _, row in part.iterrows():
            at = measures.index(row["estimator"]) + 0.22 * (
                order.index(row["readout"]) - (len(order) - 1) / 2
            )
            dot(ax, at, row, across=True, **look_of(row["readout"]).point)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=1)
        ax.set_yticks(range(len(measures)), measures)
        ax.set(ylim=(len(measures) - 0.5, -0.5), xlabel="value")
    key(strip, {look_of(readout).label: look_of(readout).point for readout in order})
    finding(figure, _measured(rows))
    note(figure, f"Measures have different scales: compare within a row. {sampled(rows)}")
    return figure


def _measured(rows: pd.DataFrame) -> str:
    """The title's numbers: how many measures prefer the generation, and the most that shuffled pairs reach."""
    columns = [column for column in ("domain", "target", "estimator") if column in rows]
    wide = rows.pivot(index=columns, columns="readout", values="value")
    more = int((wide["generated mean"] > wide["prompt mean"]).sum())
    chance = rows[rows["readout"] == "pairs shuffled"]
    top = chance.loc[chance["value"].idxmax()]
    most = f"shuffled pairs reach {top['value']:.2f} ({top['estimator']})"
    return f"The generated mean is above the prompt mean in {more} of {len(wide)} comparisons; {most}"


def length(table: pd.DataFrame) -> Figure:
    """CKA of generation and prompt against the length of captions, and what generating gains."""
    rows = rows_of(table).sort_values("words", kind="stable")
    figure, axes, strip = panels(1, 2, 2.4)
    worded, gains = rows[rows["readout"] != GAIN], rows[rows["readout"] == GAIN]
    labels = {row["words"]: f"{row['wording']}\n{row['words']:.1f} words" for _, row in rows.iterrows()}
    for ax, part in zip(axes.flat, (worded, gains), strict=True):
        stepped(ax, part, "words")
        ax.set_xticks(range(len(labels)), labels.values())
        ax.set_xlim(-0.4, len(labels) - 0.6)
    axes.flat[0].set(ylabel="CKA", title="alignment")
    axes.flat[1].set(ylabel="difference of CKA", title="generated mean less prompt mean")
    axes.flat[1].axhline(0, color="0.3", linewidth=0.8, zorder=1)
    key(strip, curve_keys(names(worded["readout"])))
    said = [f"{stated(row)} at {row['words']:.1f} words" for _, row in gains.iterrows()]
    finding(figure, f"Generating gains {', '.join(said)} a caption")
    note(figure, f"x: wording of the same captions, mean words below. {sampled(rows, 'captions')}")
    return figure


def stepped(ax: Axes, rows: pd.DataFrame, column: str) -> None:
    """A curve for every read-out over the values of `column`, which stand at equal steps; intervals side by side."""
    values, readouts = sorted(set(rows[column])), names(rows["readout"])
    for shift, readout in zip(np.arange(len(readouts)) - (len(readouts) - 1) / 2, readouts, strict=True):
        look, line = look_of(readout), rows[rows["readout"] == readout].sort_values(column)
        at = [values.index(value) + 0.04 * shift for value in line[column]]
        ax.plot(at, line["value"], **look.line)
        for x, (_, row) in zip(at, line.iterrows(), strict=True):
            dot(ax, x, row, **look.point)
    ax.set_xticks(range(len(values)), [f"{value:.0f}" for value in values])


DRAWINGS = {
    "readouts": readouts,
    "controls": controls,
    "metrics": metrics,
    "length": length,
}
