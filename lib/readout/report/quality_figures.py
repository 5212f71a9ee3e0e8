"""The figures of representation quality against depth (paper C, figures 2 and 10, and our controls)."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from readout.report.figures import PALETTE, WIDTH, band, caption, depth_axis

# What a reader needs on each axis: the name, the unit, and what a higher value means.
METRICS = {
    "prompt_entropy": ("Prompt entropy", "share of the maximum", "tokens of a text more spread"),
    "effective_rank": ("Effective rank", "dimensions", "more directions in use"),
    "curvature": ("Curvature", "degrees", "path of the tokens more bent"),
    "dataset_entropy": ("Dataset entropy", "share of the maximum", "texts more spread"),
    "infonce": ("InfoNCE", "nats", "views of a text harder to match"),
    "lidar": ("LiDAR", "share of the maximum", "more directions tell texts apart"),
    "dime": ("DiME", "nats", "views better aligned"),
}
BLUE, ORANGE, GREEN = PALETTE[0], PALETTE[1], PALETTE[2]
# Colour and dashes say the same thing twice, for print and for colour-blind readers.
PRETRAINED = {"color": BLUE, "linestyle": "-"}
NORMED = {"color": GREEN, "linestyle": (0, (5, 1.5))}
RANDOM = {"color": ORANGE, "linestyle": (0, (1.2, 1.2))}
PUBLISHED = {"color": ORANGE, "linestyle": (0, (5, 1.5))}


UNIT_OF_AXIS = {"share": "share of the maximum"}


def _drawn(curves: pd.DataFrame, **wanted) -> pd.DataFrame:
    """The rows of the seven metrics, each in the unit of its axis, where every column in `wanted` has its value."""
    unit = curves["unit"].map(lambda u: UNIT_OF_AXIS.get(u, u))
    rows = curves[unit == curves["metric"].map({m: axis for m, (_, axis, _) in METRICS.items()})]
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    return rows


def of_quality(curves: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows that `quality` draws of one model."""
    return _drawn(curves, model=model, convention="corrected", first_token="kept")


def of_first_token(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows that `first_token` draws."""
    return _drawn(curves, metric="prompt_entropy", norm="raw", convention="corrected")


def of_conventions(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows that `conventions` draws: metrics that both conventions have."""
    rows = _drawn(curves, weights="pretrained", norm="raw", first_token="kept")
    return rows[rows.groupby("metric")["convention"].transform("nunique") == 2]


def reading(curves: pd.DataFrame, model: str) -> str:
    """What the quality figure of a model shows, in a sentence made from its numbers."""
    rows = of_quality(curves, model).query("metric == 'prompt_entropy' and norm == 'raw'")
    trained, random = (rows[rows["weights"] == w].sort_values("layer") for w in ("pretrained", "random"))
    low, first, last = _lowest(trained), trained.iloc[0], trained.iloc[-1]
    return (
        f"{model}: prompt entropy {first['value']:.2f} at the embedding, lowest at {low['site']} "
        f"({low['value']:.2f} [{low['low']:.2f}, {low['high']:.2f}], n = {low['n']}), {last['value']:.2f} at "
        f"{last['site']}; untrained {random['value'].iloc[0]:.2f} to {random['value'].iloc[-1]:.2f}."
    )


def _sampling(table: pd.DataFrame) -> str:
    """n, interval and seed, for a caption."""
    counts = table.groupby("metric", sort=False)["n"].max()
    fewer = [METRICS[m][0] for m, n in counts.items() if n < counts.max()]
    n = f"n = {counts.max()} texts of {table['data'].iloc[0]}"
    views = f" ({counts.min()} for {', '.join(fewer)})" if fewer else ""
    random = "random" in set(table["weights"])
    control = f" Random weights: seed {table['seed'].iloc[0]:.0f}." if random else ""
    return f"{n}{views}; bands: {table['level'].iloc[0]:.0%} over authors.{control}"


def _legend_in(ax: Axes, labels: dict[str, dict], **place) -> None:
    handles = [Line2D([], [], label=label, **line) for label, line in labels.items()]
    ax.legend(handles=handles, handlelength=3, **place)


def _panel(ax, metric: str, n_layers: int) -> None:
    title, unit, higher = METRICS[metric]
    ax.set_title(title)
    ax.set_ylabel(unit)
    ax.annotate(f"↑ {higher}", (0.99, 1.02), xycoords="axes fraction", ha="right", fontsize=6.5, color="0.35")
    depth_axis(ax, n_layers)


def _lowest(rows: pd.DataFrame) -> pd.Series:
    return rows.loc[rows["value"].idxmin()]


def quality(table: pd.DataFrame) -> Figure:
    """All seven metrics of one model against depth: raw, final-normed, and the same architecture untrained."""
    figure, axes = plt.subplots(4, 2, figsize=(WIDTH, 8.6), layout="constrained")
    n_layers = int(table["layer"].max())
    for ax, metric in zip(axes.flat, METRICS, strict=False):
        rows = table[table["metric"] == metric]
        random, trained = (rows[rows["weights"] == w] for w in ("random", "pretrained"))
        band(ax, random[random["norm"] == "raw"], **RANDOM)
        normed = trained[trained["norm"] == "final"]
        if not normed.empty:
            band(ax, normed, **NORMED)
        band(ax, trained[trained["norm"] == "raw"], **PRETRAINED)
        _panel(ax, metric, n_layers)
    labels = {
        "pretrained": PRETRAINED,
        "pretrained, final norm on every site": NORMED,
        "random weights": RANDOM,
    }
    if "final" not in set(table["norm"]):
        del labels["pretrained, final norm on every site"]
    _legend_in(axes.flat[-1], labels, loc="center left")
    axes.flat[-1].set_axis_off()
    entropy = table[(table["metric"] == "prompt_entropy") & (table["weights"] == "pretrained")]
    low = _lowest(entropy[entropy["norm"] == "raw"])
    model = table["model"].iloc[0]
    figure.suptitle(
        f"{model}: prompt entropy is lowest at {low['site']} of {n_layers} ({low['value']:.2f})",
        x=0.01,
        ha="left",
        fontsize=10,
    )
    caption(figure, f"x: layer, relative depth below. {_sampling(table)}")
    return figure


def first_token(table: pd.DataFrame) -> Figure:
    """Prompt entropy with and without each text's first token, one panel a model."""
    models = list(dict.fromkeys(table["model"]))
    figure, axes = plt.subplots(
        1, len(models), figsize=(WIDTH, 3.0), sharey=True, layout="constrained", squeeze=False
    )
    lines = {
        ("random", "kept"): RANDOM,
        ("pretrained", "dropped"): NORMED,
        ("pretrained", "kept"): PRETRAINED,
    }
    findings = []
    for ax, model in zip(axes.flat, models, strict=True):
        rows = table[table["model"] == model]
        for (weights, kept), line in lines.items():
            band(ax, rows[(rows["weights"] == weights) & (rows["first_token"] == kept)], **line)
        depth_axis(ax, int(rows["layer"].max()))
        ax.set_title(model)
        trained = rows[rows["weights"] == "pretrained"]
        lowest = [_lowest(trained[trained["first_token"] == k])["value"] for k in ("kept", "dropped")]
        findings.append("{:.2f} and {:.2f}".format(*lowest))
    axes.flat[0].set_ylabel("prompt entropy, share of the maximum")
    _legend_in(
        axes.flat[0],
        {"first token kept": PRETRAINED, "first token dropped": NORMED, "random weights, kept": RANDOM},
        loc="lower left",
    )
    title = "Lowest prompt entropy with and without the first token: " + "; ".join(findings)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    caption(figure, f"x: layer, relative depth below. {_sampling(table)}")
    return figure


def conventions(table: pd.DataFrame) -> Figure:
    """Corrected against as published, every metric on which the two differ (rows) and both models (columns)."""
    models = list(dict.fromkeys(table["model"]))
    metrics = [m for m in METRICS if m in set(table["metric"])]
    size = (WIDTH, 1.75 * len(metrics) + 0.6)
    figure, axes = plt.subplots(len(metrics), len(models), figsize=size, layout="constrained", squeeze=False)
    for row, metric in zip(axes, metrics, strict=True):
        for ax, model in zip(row, models, strict=True):
            rows = table[(table["metric"] == metric) & (table["model"] == model)]
            for convention, line in (("as_published", PUBLISHED), ("corrected", PRETRAINED)):
                band(ax, rows[rows["convention"] == convention], **line)
            depth_axis(ax, int(rows["layer"].max()))
            title, unit, _ = METRICS[metric]
            ax.set_title(f"{title}, {model}")
            ax.set_ylabel(unit)
    _legend_in(axes.flat[0], {"corrected": PRETRAINED, "as published": PUBLISHED}, loc="lower left")
    figure.suptitle(_largest_difference(table), x=0.01, ha="left", fontsize=10)
    caption(figure, f"x: layer, relative depth below. Raw states. {_sampling(table)}")
    return figure


def _largest_difference(table: pd.DataFrame) -> str:
    """The title's finding: do the two conventions agree on how curvature runs along depth?"""
    curve = table[table["metric"] == "curvature"].pivot(
        index=["model", "layer"], columns="convention", values="value"
    )
    agreement = [c["corrected"].corr(c["as_published"], method="spearman") for _, c in curve.groupby("model")]
    verb = (
        "runs the other way"
        if max(agreement) < 0
        else "runs the same way"
        if min(agreement) > 0
        else "differs"
    )
    numbers = ", ".join(f"{r:+.2f}" for r in agreement)
    return f"As published, curvature {verb} along depth (rank correlation {numbers})"


DRAWINGS = {"quality": quality, "first-token": first_token, "conventions": conventions}
