"""The figures of patching and stitching: from which layer on a scorer reads what the residual stream carries."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from readout.report.figures import PALETTE, band
from readout.report.scorer_style import (
    Look,
    curves,
    dot,
    finding,
    first,
    key,
    layer_axis,
    lines,
    look_of,
    names,
    note,
    panels,
    readout_axis,
    sampling,
    select,
    shape,
)

N_BINS = 16
CHANCE, CONSOLIDATED = 0.5, 0.75
SIDES = {
    "anchor": Look("anchor", PALETTE[0], "-", "o"),
    "positive": Look("positive", PALETTE[2], (0, (5, 1.5)), "s"),
    "negative": Look("negative", PALETTE[3], (0, (1.5, 1)), "^"),
}
TIERS = {
    "A": Look("tier A", PALETTE[0], "-", "o"),
    "B": Look("tier B", PALETTE[1], (0, (5, 1.5)), "s"),
    "C": Look("tier C", PALETTE[2], (0, (1.5, 1)), "^"),
}
LAYERS = "x: layer, relative depth below."


def lengths(table: pd.DataFrame) -> Figure:
    """How long the texts of each tier are, in tokens; dotted: the mean over all its texts."""
    rows = select(table)
    tiers = names(rows["tier"])
    figure, axes, strip = panels(1, len(tiers), 2.0, sharex=True, sharey=True)
    width = max(1, np.ceil(np.ptp(rows["token"]) / N_BINS))
    edges = np.arange(rows["token"].min() - width / 2, rows["token"].max() + width, width)
    for ax, tier in zip(axes.flat, tiers, strict=True):
        one = rows[rows["tier"] == tier]
        for side, look in SIDES.items():
            part = one[one["side"] == side]
            ax.hist(part["token"], edges, weights=part["value"], histtype="step", **look.line)
        ax.axvline(np.average(one["token"], weights=one["value"]), color="0.3", linestyle=":", linewidth=1)
        ax.set_title(f"tier {tier}, {one['value'].sum():.0f} texts")
        ax.set_xlabel("tokens")
    axes.flat[0].set_ylabel("texts")
    mean = {"mean of the tier": {"color": "0.3", "linestyle": ":"}}
    key(strip, {look.label: look.line for look in SIDES.values()} | mean)
    every = np.repeat(rows["token"], rows["value"].astype(int))
    low, high = np.quantile(every, [0.05, 0.95])
    finding(figure, f"Texts have {every.mean():.0f} tokens on average, 90% of them {low:.0f} to {high:.0f}")
    note(figure, sampling(rows, "triplets"))
    return figure


def rank_recovery(table: pd.DataFrame) -> Figure:
    """In what share of triplets a patch at each layer lifts the score, and from where on in three of four."""
    rows = select(table, metric="rank_recovery", tier="A")
    figure, axes, strip = panels(1, 1, 2.9)
    curves(axes.flat[0], rows)
    reached = []
    for readout, curve in rows.sort_values("layer").groupby("readout", sort=False):
        above = curve[curve["value"] >= CONSOLIDATED]
        if not above.empty:
            axes.flat[0].plot(above["depth"].iloc[0], above["value"].iloc[0], **look_of(readout).point)
        reached.append(f"{_layer(above)} for {look_of(readout).label}")
    _references(axes.flat[0])
    axes.flat[0].set_ylabel("rank recovery, share")
    key(strip, lines(names(rows["readout"])))
    finding(figure, f"Rank recovery first reaches {CONSOLIDATED} at {', '.join(reached)}")
    marked = f"Marker: the first layer at {CONSOLIDATED} or above."
    note(figure, f"{LAYERS} {marked} Tier A. {sampling(rows, 'triplets')}")
    return figure


def _layer(rows: pd.DataFrame) -> str:
    return "no layer" if rows.empty else f"layer {rows['layer'].iloc[0]:.0f}"


def _references(ax: Axes) -> None:
    """The paper's two reference lines, named at the right."""
    for height, name in ((CHANCE, "chance"), (CONSOLIDATED, "consolidation")):
        ax.axhline(height, color="0.4", linestyle=":", linewidth=0.9)
        place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 6.5, "color": "0.35"}
        ax.annotate(f"{name}\n{height}", (1.01, height), **place)


def sensitivity(table: pd.DataFrame) -> Figure:
    """How far a patch moves the score: in raw units, in gaps between clean and corrupt, in spreads of negatives."""
    rows = select(table, metric="sensitivity")
    units = names(rows["unit"])
    figure, axes, strip = panels(1, len(units), 2.3)
    ratios = []
    for ax, unit in zip(axes.flat, units, strict=True):
        one = rows[rows["unit"] == unit]
        curves(ax, one)
        ax.set_title(f"in {unit}" if unit != "score" else "in units of the score")
        means = one.groupby("readout")["value"].mean()
        ratios.append(f"{means.max() / means.min():.3g}× in {unit}")
    axes.flat[0].set(yscale="log", ylabel="mean |patched − corrupt|")
    key(strip, lines(names(rows["readout"])))
    finding(figure, f"Sensitivity of the most over the least sensitive scorer: {', '.join(ratios)}")
    note(figure, f"{LAYERS} {sampling(rows, 'triplets')}")
    return figure


def tiers(table: pd.DataFrame) -> Figure:
    """Rank recovery in each tier, a panel a scorer; and last how often a scorer prefers the negative."""
    rows, failures = select(table, metric="rank_recovery"), select(table, metric="failure_rate")
    readouts = names(rows["readout"])
    figure, axes, strip = panels(*shape(len(readouts) + 1), 1.9)
    *scorers, last = first(axes, len(readouts) + 1)
    for ax, readout in zip(scorers, readouts, strict=True):
        one = rows[rows["readout"] == readout]
        for tier in names(one["tier"]):
            band(ax, one[one["tier"] == tier], **TIERS[tier].line)
        layer_axis(ax, one)
        ax.set(title=look_of(readout).label, ylabel="rank recovery", ylim=(-0.03, 1.03))
    _failures(last, failures)
    looks = [TIERS[tier] for tier in names(rows["tier"])]
    key(strip, {look.label: look.line | {"marker": look.marker, "markersize": 4} for look in looks})
    top = failures.loc[failures["value"].idxmax()]
    often = f"{top['value']:.0%} of tier {top['tier']}, {look_of(top['readout']).label}"
    finding(figure, f"The negative is preferred most often in {often}")
    note(figure, f"{LAYERS} {sampling(pd.concat([rows, failures]), 'triplets', 'bands and bars')}")
    return figure


def _failures(ax: Axes, rows: pd.DataFrame) -> None:
    """Failure rates, grouped by scorer."""
    readouts, tiers = names(rows["readout"]), names(rows["tier"])
    for _, row in rows.iterrows():
        shift = (tiers.index(row["tier"]) - (len(tiers) - 1) / 2) * 0.2
        dot(ax, readouts.index(row["readout"]) + shift, row, **TIERS[row["tier"]].point)
    readout_axis(ax, readouts)
    ax.set(title="negative preferred", ylabel="failure rate", ylim=(0, None))


def identity(table: pd.DataFrame) -> Figure:
    """Recovery where all positions are patched: with texts of equal length it is 100 % at every layer, always."""
    rows = select(table)
    figure = _by_intervention(rows, "recovery, %", reference=100)
    parts = []
    for cut, one in rows.groupby("intervention", sort=False):
        ends = dict.fromkeys(f"{end:.4g}" for end in (one["value"].min(), one["value"].max()))
        parts.append(f"{' to '.join(ends)}% with {cut}")
    finding(figure, f"Recovery over all layers and scorers is {' and '.join(parts)}")
    note(figure, f"{LAYERS} Dotted: 100%. {sampling(rows, 'triplets')}")
    return figure


def interventions(table: pd.DataFrame) -> Figure:
    """How much of the gap comes back when less than everything is patched: a panel an intervention."""
    rows = select(table, metric="recovery_ratio")
    figure = _by_intervention(rows, "recovery ratio, %", reference=100)
    tops = [t for _, t in rows.loc[rows.groupby("intervention", sort=False)["value"].idxmax()].iterrows()]
    parts = [f"{t['value']:.0f}% with {t['intervention']} (layer {t['layer']:.0f})" for t in tops]
    finding(figure, f"The highest recovery ratio of any scorer: {'; '.join(parts)}")
    note(figure, f"{LAYERS} Dotted: 100%, all of the gap. {sampling(rows, 'triplets')}")
    return figure


def stitching(table: pd.DataFrame) -> Figure:
    """R@20 of half pretrained, half trained encoders, and of encoders that end early, against the seam."""
    rows = select(table, metric="R@20")
    figure = _by_intervention(rows, "R@20")
    last = rows[rows["intervention"] == names(rows["intervention"])[-1]]
    tops = last.loc[last.groupby("readout", sort=False)["value"].idxmax()]
    best = zip(tops["value"], tops["layer"], map(look_of, tops["readout"]), strict=True)
    parts = [f"{value:.2f} at layer {layer:.0f} for {look.label}" for value, layer, look in best]
    finding(figure, f"R@20 with {last['intervention'].iloc[0]} is at most {', '.join(parts)}")
    note(figure, f"x: layer of the seam, relative depth below. {sampling(rows, 'queries')}")
    return figure


def _by_intervention(rows: pd.DataFrame, unit: str, reference: int | None = None) -> Figure:
    """A panel for every intervention, a curve for every read-out."""
    kinds = names(rows["intervention"])
    figure, axes, strip = panels(*shape(len(kinds)), 2.0, sharey=True)
    for ax, kind in zip(first(axes, len(kinds)), kinds, strict=True):
        curves(ax, rows[rows["intervention"] == kind])
        ax.set_title(kind, fontsize=8)
        if reference is not None:
            ax.axhline(reference, color="0.3", linestyle=":", linewidth=0.9, zorder=1)
    for ax in axes[:, 0]:
        ax.set_ylabel(unit)
    key(strip, lines(names(rows["readout"])))
    return figure


DRAWINGS = {
    "lengths": lengths,
    "rank-recovery": rank_recovery,
    "sensitivity": sensitivity,
    "tiers": tiers,
    "identity": identity,
    "interventions": interventions,
    "stitching": stitching,
}
