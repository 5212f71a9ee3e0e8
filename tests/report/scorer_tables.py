"""Toy tables of every kind of figure on scorers: six layers, three scorers, numbers that a reader can follow."""

from itertools import product

import numpy as np
import pandas as pd

COMMON = {"data": "toy", "model": "tiny-encoder", "level": 0.95, "n": 30, "seed": 0, "provenance": "abc"}
LAYERS = range(7)
SCORERS = {"mean": 0.1, "li": 0.3, "pli-2": 0.2}
TRAINED = {"control": 0.0, **SCORERS}


def _table(rows, margin=0.05):
    """A table of `rows` in the columns that all tables have, with an interval of `margin` to both sides."""
    limited = ({"low": row["value"] - margin, "high": row["value"] + margin} | row for row in rows)
    return pd.DataFrame([COMMON | row for row in limited])


def _depth(layer):
    return {"layer": layer, "depth": layer / 6}


def _each(**columns):
    """One dictionary for every combination of values of the columns."""
    for values in product(*columns.values()):
        row = dict(zip(columns, values, strict=True))
        yield row | (_depth(row["layer"]) if "layer" in row else {})


def _loss():
    runs = [("mean", 0.5, s) for s in range(3)] + [("li", 0.5, s) for s in range(3)]
    runs += [("layerwise", 0.5, 0), ("mean@0.05", 0.05, 0)]
    for (readout, temperature, seed), step in product(runs, range(40)):
        floor = {"mean": 4.0, "li": 1.0, "layerwise": 3.0}.get(readout, 2.0) + 0.1 * seed
        value = floor + np.exp(-step / 8)
        yield {"readout": readout, "temperature": temperature, "step": step, "value": value, "seed": seed}


def _retrieval():
    metrics = {"R@20": 1.0, "R@100": 1.4, "nDCG@20": 0.7, "nDCG@100": 0.9, "MRR": 0.6}
    readouts = {"control": 0.15, "char n-grams": 0.3, "mean": 0.2, "mean@0.05": 0.4, "li": 0.5, "pli-2": 0.45}
    rows = [
        {"readout": r, "metric": m, "value": v * scale}
        for (r, v), (m, scale) in product(readouts.items(), metrics.items())
    ]
    paper = {"mean": 0.121, "li": 0.485, "pli-2": 0.497}
    published = pd.DataFrame([{"readout": r, "metric": "R@20", "value": v} for r, v in paper.items()])
    return pd.concat(
        [_table(rows), published.assign(**COMMON | {"data": "paper", "level": np.nan, "seed": np.nan})]
    )


def _conventions():
    for readout, value in {"control": 0.15, "mean": 0.2, "li": 0.5}.items():
        for convention, more in (("corrected", 0.0), ("as_published", value / 10)):
            yield {"readout": readout, "convention": convention, "metric": "R@20", "value": value + more}


def _temperatures():
    for readout, cosines in {"mean": 1, "li": 30, "li-mean": 1}.items():
        for t in (0.02, 0.1, 0.5):
            value = 0.5 - 0.1 * (readout == "mean") - 0.1 * abs(np.log10(t / cosines / 0.02))
            row = {"temperature": t, "effective_temperature": t / cosines, "metric": "R@20", "value": value}
            yield {"readout": readout, **row}


def _lengths():
    for row in _each(tier="ABC", side=("anchor", "positive", "negative"), token=range(20, 41, 2)):
        shift = {"anchor": 0, "positive": 1, "negative": -1}[row["side"]]
        yield row | {"value": round(10 * np.exp(-(((row["token"] - 30 - shift) / 5) ** 2)))}


def _recovered(row):
    """A curve that rises by 1 / 6 a layer, later for late interaction."""
    return float(np.clip(0.3 + row["depth"] - SCORERS[row["readout"]], 0, 1))


def _sensitivity():
    units = {
        "score": {"mean": 0.1, "li": 10.0, "pli-2": 5.0},
        "clean-corrupt gaps": dict.fromkeys(SCORERS, 1.0),
    }
    units["SD of random negatives"] = {"mean": 2.0, "li": 1.0, "pli-2": 1.5}
    for row in _each(unit=units, readout=SCORERS, layer=LAYERS):
        size = units[row["unit"]][row["readout"]] * (1 - row["depth"] / 2)
        yield row | {"metric": "sensitivity", "value": size, "low": 0.9 * size, "high": 1.1 * size}


def _style(readouts):
    groups = [
        "function words",
        "sentence length",
        "punctuation",
        "capitals",
        "type-token ratio",
        "word length",
    ]
    groups += ["hedges", "citations", "discourse markers"]
    for i, row in enumerate(_each(readout=readouts, group=groups, layer=LAYERS)):
        height = -0.2 + 0.1 * groups.index(row["group"]) + TRAINED[row["readout"]] * row["depth"]
        yield row | {"metric": "R2", "unit": "share", "value": height + 0.01 * (i % 3)}


def _structure():
    units = {"share of tokens": "share", "effective tokens": "tokens", "rank": "dimensions"}
    share = {"mean": 1.0, "li": 0.4, "pli-2": 0.6}
    for row in _each(
        metric=units, readout=SCORERS, side=("query", "candidate", "candidate, union"), step=(0, 400)
    ):
        value = share[row["readout"]] if row["side"] == "candidate" else 0.9
        value *= {"share of tokens": 1, "effective tokens": 30, "rank": 20}[row["metric"]] - 0.05 * (
            row["step"] == 0
        )
        yield row | {"unit": units[row["metric"]], "value": value}


def _norms():
    for row in _each(readout=SCORERS, step=(0, 400), layer=LAYERS):
        value = (0.2 + row["depth"]) * (1 + (row["step"] > 0)) + SCORERS[row["readout"]]
        yield row | {"metric": "gradient norm", "unit": "relative", "value": value}


def _dynamics():
    steps = (0, 50, 100, 200, 400)
    for row in _each(
        metric=("rank_recovery", "recovery_ratio", "R2"), readout=SCORERS, step=steps, layer=LAYERS
    ):
        value = _recovered(row) * steps.index(row["step"]) / 4
        patched = row["metric"] == "recovery_ratio"
        yield row | {
            "value": 100 * value - 20 if patched else value,
            "intervention": "mean shift" if patched else None,
        }
    for row in _each(readout=SCORERS, step=steps):
        yield row | {"metric": "R@20", "value": SCORERS[row["readout"]] + steps.index(row["step"]) / 10}


PATCHED = {"readout": SCORERS, "layer": LAYERS}
PARTS = ("random positions, 25 %", "mean shift", "attention alone", "MLP alone")
SEAMS = ("pretrained below, trained above", "trained below, pretrained above", "early exit")
CUTS = {"equal lengths": 0, "unequal lengths": 1}

TABLES = {
    "loss": _table(_loss(), margin=np.nan),
    "retrieval": _retrieval(),
    "retrieval-conventions": _table(_conventions()),
    "temperature": _table(_temperatures()),
    "patch-length": _table(
        {"readout": r, "token": t, "metric": "R@20", "value": v}
        for r, t, v in (
            ("li", 1, 0.5),
            ("pli-2", 2, 0.55),
            ("pli-3", 3, 0.5),
            ("pli-8", 8, 0.4),
            ("mean", 61.3, 0.2),
        )
    ),
    "layer-weights": _table(
        {**_depth(layer), "readout": "layerwise", "value": (layer + 1) / 28} for layer in LAYERS
    ),
    "style": _table(_style(TRAINED)),
    "style-difference": _table((row | {"value": row["value"] - 0.4} for row in _style(SCORERS)), margin=0.3),
    "style-cut": _table(
        row
        | {"metric": "R2", "value": 0.4 + 0.1 * row["depth"] - 0.2 * (row["convention"] == "as_published")}
        for row in _each(readout=TRAINED, convention=("corrected", "as_published"), layer=LAYERS)
    ),
    "style-tokens": _table(
        row
        | {
            "metric": "R2",
            "value": (0.6 if row["intervention"] == "own state" else 0.1) + TRAINED[row["readout"]],
        }
        for row in _each(
            feature=("word length", "capital", "punctuation", "function word"),
            readout=TRAINED,
            intervention=("own state", "text vector"),
            layer=LAYERS,
        )
    ),
    "lengths": _table(_lengths(), margin=np.nan),
    "rank-recovery": _table(
        row | {"metric": "rank_recovery", "tier": "A", "value": _recovered(row)} for row in _each(**PATCHED)
    ),
    "sensitivity": _table(_sensitivity()),
    "tiers": pd.concat(
        [
            _table(
                row
                | {"metric": "rank_recovery", "value": _recovered(row) * (1 - 0.2 * "ABC".index(row["tier"]))}
                for row in _each(tier="ABC", **PATCHED)
            ),
            _table(
                row
                | {
                    "metric": "failure_rate",
                    "value": 0.5 - SCORERS[row["readout"]] + 0.2 * (row["tier"] == "B"),
                }
                for row in _each(tier="ABC", readout=SCORERS)
            ),
        ]
    ),
    "identity": _table(
        (
            row
            | {"metric": "recovery", "value": 100 - 60 * CUTS[row["intervention"]] * SCORERS[row["readout"]]}
            for row in _each(intervention=CUTS, **PATCHED)
        ),
        margin=1,
    ),
    "interventions": _table(
        (
            row
            | {
                "metric": "recovery_ratio",
                "value": 90 * _recovered(row) - 10 * PARTS.index(row["intervention"]),
            }
            for row in _each(intervention=PARTS, **PATCHED)
        ),
        margin=4,
    ),
    "stitching": _table(
        row | {"metric": "R@20", "value": 0.1 + 0.5 * _recovered(row)}
        for row in _each(intervention=SEAMS, **PATCHED)
    ),
    "gradients": pd.concat([_table(_structure()), _table(_norms())]),
    "dynamics": _table(_dynamics()),
}
