"""The figures along a generation: by token, by layer, after an injected phrase, and how it ends."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from readout.report.alignment_figures import curve_keys, grid, look_of, rows_of, sampled
from readout.report.figures import PALETTE, band
from readout.report.scorer_style import Look, finding, heatmap, key, layer_axis, names, note, panels, scale

PHRASES = [
    Look("", PALETTE[3], "-", "o"),
    Look("", PALETTE[0], (0, (5, 1.5)), "s"),
    Look("", PALETTE[2], (0, (1.5, 1)), "^"),
    Look("", PALETTE[4], (0, (4, 1.5, 1, 1.5)), "v"),
    Look("", "0.45", (0, (2.5, 1)), "D"),
]
STOPS = {"eos": ("ended by itself", PALETTE[0], ""), "length": ("cut at the limit", PALETTE[1], "////")}


def trajectory(table: pd.DataFrame) -> Figure:
    """CKA at each token and of the mean so far: their means over seeds, each seed thin; and where phases end."""
    rows = rows_of(table)
    phases, rows = rows[rows["readout"] == "phase"], rows[rows["readout"] != "phase"]
    figure, shown, strip = grid(rows, 2.2, "CKA")
    said = []
    for ax, name, part in shown:
        curves = part[part["token"].notna()]
        for readout in names(curves["readout"]):
            _seeds(ax, curves[curves["readout"] == readout])
        for _, row in part[part["token"].isna()].iterrows():
            ax.axhline(row["value"], **look_of(row["readout"]).line, linewidth=1)
        _phases(ax, phases[phases["domain"] == part["domain"].iloc[0]])
        _tokens(ax, "generated token")
        said.append(f"{_ends(curves)} ({name})")
    looks = map(look_of, names(rows["readout"]))
    key(strip, {look.label: look.line for look in looks}, ncols=3)
    finding(figure, f"CKA of the mean of all tokens and of the best single one: {'; '.join(said)}")
    what = "Thin: one seed; bold: mean over seeds. Vertical: median of where a phase ends."
    note(figure, f"{what} {sampled(rows, drawn='bands')}")
    return figure


def _tokens(ax: Axes, label: str) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(label)


def _seeds(ax: Axes, rows: pd.DataFrame) -> None:
    """The mean over seeds of one curve with its interval where it has one, and each seed thin behind it."""
    look, rows = look_of(rows["readout"].iloc[0]), rows.sort_values("token")
    each = rows[rows["seed"].notna()]
    if each["seed"].nunique() > 1:
        for _, one in each.groupby("seed"):
            ax.plot(one["token"], one["value"], color=look.color, linewidth=0.5, alpha=0.6)
    mean = _over_seeds(rows)
    ax.plot(mean["token"], mean["value"], **look.line, linewidth=1.8)
    ax.fill_between(mean["token"], mean["low"], mean["high"], color=look.color, alpha=0.15, linewidth=0)


def _over_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of no single seed; where there are none, the mean over those of each, without an interval."""
    own = rows[rows["seed"].isna()]
    return own if len(own) else rows.groupby("token", as_index=False)[["value", "low", "high"]].mean()


def _phases(ax: Axes, rows: pd.DataFrame) -> None:
    """Where phases end, named above the curves, one below the other so that near ones stay apart."""
    if rows.empty:
        return
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    ax.set_ylim(bottom, bottom + 1.25 * (top - bottom))
    for at, (token, part) in enumerate(rows.groupby("token")):
        height = 0.99 - 0.09 * at
        ax.axvline(token, ymax=height, color="0.4", linestyle=":", linewidth=0.9, zorder=1)
        side = (
            {"ha": "left", "xytext": (2, 0)}
            if 2 * token < left + right
            else {"ha": "right", "xytext": (-2, 0)}
        )
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
        said = f"{', '.join(names(part['phase']))} ends"
        ax.annotate(said, (token, height), fontsize=6.5, color="0.35", **place, **side)


def _ends(curves: pd.DataFrame) -> str:
    """The title's numbers: the last value of the running mean, and the highest single one."""
    means = {
        name: _over_seeds(curves[curves["readout"] == name]).set_index("token")["value"].sort_index()
        for name in ("single token", "cumulative mean")
    }
    single = means["single token"]
    return f"{means['cumulative mean'].iloc[-1]:.2f} and {single.max():.2f} at token {single.idxmax():.0f}"


def depth(table: pd.DataFrame) -> Figure:
    """CKA of every read-out at each layer, and of the means over layers."""
    rows = rows_of(table)
    figure, shown, strip = grid(rows, 2.2, "CKA")
    said = []
    for ax, name, part in shown:
        layers = part[part["layer"].notna()]
        for readout in names(layers["readout"]):
            look = look_of(readout)
            band(ax, layers[layers["readout"] == readout], **look.line, marker=look.marker, markersize=3)
        for _, row in part[part["layer"].isna()].iterrows():
            ax.axhline(row["value"], **look_of(row["readout"]).line, linewidth=0.9)
        layer_axis(ax, layers)
        ax.set_xlabel("layer, relative depth below")
        said.append(f"{_peaks(layers)} ({name})")
    key(strip, curve_keys(names(rows["readout"])), ncols=3)
    finding(figure, f"Aligned best: {'; '.join(said)}")
    note(figure, f"Horizontal: the mean over layers. {sampled(rows, drawn='bands')}")
    return figure


def _peaks(rows: pd.DataFrame) -> str:
    """The title's numbers: the best layer of generation and of prompt."""
    means = rows[rows["readout"].isin(["generated mean", "prompt mean"])]
    tops = means.loc[means.groupby("readout", sort=False)["value"].idxmax()]
    return ", ".join(
        f"{t['readout']} at layer {t['layer']:.0f}, {t['value']:.2f}" for _, t in tops.iterrows()
    )


def token_depth(table: pd.DataFrame) -> Figure:
    """CKA of the states at each layer and token, in one scale of colours for all domains; a cross at the highest."""
    rows = rows_of(table)
    colours, said = scale(rows["value"]), []
    figure, shown, strip = grid(rows, 2.3, "layer")
    strip.remove()
    for ax, name, part in shown:
        cells = part.pivot(index="layer", columns="token", values="value")
        heatmap(ax, cells, colours)
        ax.set_ylim(-0.5, len(cells) - 0.5)
        top = part.loc[part["value"].idxmax()]
        place = cells.columns.get_loc(top["token"]), cells.index.get_loc(top["layer"])
        ax.set_facecolor("0.8")
        ax.plot(*place, marker="X", color="white", markeredgecolor="black", markersize=6)
        ax.set_xticks(*_thinned(cells.columns, 6))
        ax.set_yticks(*_thinned(cells.index, 8))
        ax.set_xlabel("generated token")
        where = f"layer {top['layer']:.0f}, token {top['token']:.0f}"
        said.append(f"{where}: {top['value']:.2f} ({name})")
    axes = [ax for ax, _, _ in shown]
    bar = figure.colorbar(colours, ax=axes, label="CKA", aspect=20, fraction=0.05, pad=0.01)
    bar.ax.set_ylim(min(0, rows["value"].min()), max(0, rows["value"].max()))
    finding(figure, f"Single tokens are aligned best at {'; '.join(said)}")
    note(figure, f"Cross: the highest value. Grey: not measured. {sampled(rows)}")
    return figure


def _thinned(values: pd.Index, count: int) -> tuple[list[int], list[str]]:
    """At most about so many ticks, the last one among them, and their labels."""
    places = sorted({round(at) for at in np.linspace(0, len(values) - 1, min(count, len(values)))})
    return places, [f"{values[place]:.0f}" for place in places]


def injection(table: pd.DataFrame) -> Figure:
    """CKA at each token from an injected phrase on, the first phrase bold; and its lead over the other phrases."""
    rows = rows_of(table)
    leads, rows = rows[rows["readout"].str.startswith("lead")], rows[rows["readout"] == "single token"]
    phrases = {phrase: PHRASES[min(i, len(PHRASES) - 1)] for i, phrase in enumerate(names(rows["phrase"]))}
    columns = [column for column in ("domain", "step") if column in rows]
    places = list(rows.groupby(columns, sort=False))
    figure, axes, strip = panels(len(places), 2, 2.1)
    said = []
    for (left, right), (place, part) in zip(axes, places, strict=True):
        _by_phrase(left, part, phrases)
        domain, *step = place
        name = ", ".join([domain, *(f"after token {at:.0f}" for at in step)])
        left.set_title(name)
        own = leads[(leads[columns] == list(place)).all(axis=1)].sort_values("token")
        _lead(right, own)
        top = own.loc[own["value"].idxmax()]
        said.append(
            f"{top['value']:+.2f} [{top['low']:.2f}, {top['high']:.2f}] at token {top['token']:.0f} ({name})"
        )
    key(strip, {f"“{phrase}”": look.line for phrase, look in phrases.items()}, ncols=2)
    ahead = f"“{next(iter(phrases))}” leads the mean of the other phrases by at most"
    finding(figure, f"{ahead} {', '.join(said)}")
    what = "Tokens count from the first of the phrase."
    note(figure, f"{what} {sampled(rows, drawn='bands')}")
    return figure


def _by_phrase(ax: Axes, rows: pd.DataFrame, phrases: dict[str, Look]) -> None:
    """A curve for every phrase, the first one bold, above the others and with its band."""
    for at, (phrase, look) in enumerate(phrases.items()):
        one = rows[rows["phrase"] == phrase].sort_values("token")
        ax.plot(one["token"], one["value"], **look.line, linewidth=1 if at else 2.2, zorder=3 - 0.1 * at)
        if not at:
            ax.fill_between(one["token"], one["low"], one["high"], color=look.color, alpha=0.15, linewidth=0)
    ax.set_ylabel("CKA")
    _tokens(ax, "token")


def _lead(ax: Axes, rows: pd.DataFrame) -> None:
    """What the first phrase has more than the mean of the others, with its interval."""
    color = PHRASES[0].color
    ax.plot(rows["token"], rows["value"], color=color)
    ax.fill_between(rows["token"], rows["low"], rows["high"], color=color, alpha=0.18, linewidth=0)
    ax.axhline(0, color="0.3", linewidth=0.8, zorder=1)
    ax.set(title="less the mean of the other phrases", ylabel="difference of CKA")
    _tokens(ax, "token")


def generations(table: pd.DataFrame) -> Figure:
    """How many tokens generations have, and whether they ended by themselves."""
    rows = rows_of(table)
    figure, shown, strip = grid(rows, 2.0, "generations")
    width = max(1, np.ceil(np.ptp(rows["token"]) / 24))
    edges = np.arange(rows["token"].min() - width / 2, rows["token"].max() + width, width)
    said = []
    for ax, name, part in shown:
        base = np.zeros(len(edges) - 1)
        for stop, (_, color, hatch) in STOPS.items():
            one = part[part["stop"] == stop]
            counts, _ = np.histogram(one["token"], edges, weights=one["value"])
            bars = {"width": width, "align": "edge", "edgecolor": "white", "linewidth": 0.3}
            ax.bar(edges[:-1], counts, bottom=base, color=color, hatch=hatch, **bars)
            base += counts
        ax.set_xlabel("tokens")
        ended = part.loc[part["stop"] == "eos", "value"].sum() / part["value"].sum()
        said.append(f"{ended:.0%} of {part['value'].sum():.0f} ({name})")
    key(strip, {label: {"color": color, "linewidth": 5} for label, color, _ in STOPS.values()})
    finding(figure, f"Generations that end by themselves: {', '.join(said)}")
    note(figure, sampled(rows))
    return figure


DRAWINGS = {
    "trajectory": trajectory,
    "depth": depth,
    "token-depth": token_depth,
    "injection": injection,
    "generations": generations,
}
