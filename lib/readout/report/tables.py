"""The one tidy schema that every result has, and how a table is written and read.

A row is one number: what was measured (`metric`, `unit`, `convention`), where (`model`, `site`, `layer`,
`depth`), on what (`data`, `n`) and how sure it is (`low`, `high`, `level`). A column that does not apply to a
table is left out of it. Every row carries the digest of its provenance record, so that numbers of different
origin cannot end up in one figure unnoticed.
"""

import json
import os
from pathlib import Path

import pandas as pd

from readout.errors import ParameterError, ReadoutError

COLUMNS = {
    "profile": "tiny, laptop or paper",
    "paper": "A, B or C",
    "stage": "the notebook that measured it",
    "model": "the model's name",
    "weights": "pretrained or random",
    "data": "the corpus",
    "domain": "captions, problems or proteins",
    "target": "what states are aligned with",
    "site": "embedding, block l or final",
    "layer": "index of the site, 0 to L",
    "depth": "layer / L",
    "norm": "raw, or final: the model's final norm applied to the site",
    "first_token": "kept or dropped",
    "token": "index of a generated token, from 1",
    "step": "training step",
    "readout": "how states are read out: the scorer, or how they become one vector",
    "estimator": "which measure of alignment",
    "segments": "parts that a generation is cut into",
    "w1": "weight of the first third",
    "w2": "weight of the middle third",
    "w3": "weight of the last third",
    "phrase": "what was put into the answer",
    "phase": "preamble, repetition or content",
    "wording": "how a caption is worded",
    "words": "mean number of words of a caption",
    "stop": "how a generation ended: eos or length",
    "temperature": "what scores were divided by in training",
    "effective_temperature": "the same, divided by the number of cosines that a score sums",
    "group": "group of style features",
    "feature": "style feature",
    "tier": "A, B or C: how hard a triplet is",
    "intervention": "what was done to the residual stream",
    "side": "query or candidate",
    "metric": "what was measured",
    "unit": "its unit",
    "convention": "corrected or as_published",
    "value": "the estimate",
    "low": "lower limit of the interval",
    "high": "upper limit of the interval",
    "level": "confidence level of the interval",
    "n": "number of texts (triplets, queries) behind the estimate",
    "seed": "seed of the random part",
    "provenance": "digest of the record beside the table",
}


def tidy(rows: pd.DataFrame, **constant) -> pd.DataFrame:
    """`rows` with the constant columns added, in the schema's order; a column it does not know is an error.

    >>> tidy(pd.DataFrame({"value": [0.5], "metric": ["curvature"]}), model="m").columns.tolist()
    ['model', 'metric', 'value']
    """
    table = rows.assign(**constant)
    unknown = [c for c in table.columns if c not in COLUMNS]
    if unknown:
        raise ParameterError(
            f"table column {unknown[0]!r} is not in the schema; it knows {', '.join(COLUMNS)}"
        )
    return table[[c for c in COLUMNS if c in table.columns]].reset_index(drop=True)


def write_table(table: pd.DataFrame, path: Path, provenance: dict) -> pd.DataFrame:
    """Write `path` (parquet) and its provenance record `path.json`; returns the table with the record's digest.

    Both files appear whole or not at all, and the same numbers give the same bytes.
    """
    from readout.report.provenance import digest

    table = tidy(table, provenance=digest(provenance))
    if not pd.Series(table["value"]).map(pd.notna).all():
        raise ReadoutError(
            f"table {path.name}: a row has no value; undefined results are left out and counted in n"
        )
    _write_both(table, path, provenance)
    return table


def write_texts(texts: pd.DataFrame, path: Path, provenance: dict) -> None:
    """Write a table of generated texts, one row a text, beside its provenance record; no schema of numbers applies."""
    from readout.report.provenance import digest

    _write_both(texts.assign(provenance=digest(provenance)), path, provenance)


def _write_both(table: pd.DataFrame, path: Path, provenance: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = path.with_suffix(".json")
    for target, write in (
        (path, lambda tmp: table.to_parquet(tmp, index=False)),
        (record, lambda tmp: tmp.write_text(json.dumps(provenance, indent=1, sort_keys=True) + "\n")),
    ):
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            write(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def read_table(path: Path) -> pd.DataFrame:
    """A table of the pipeline, checked against the record beside it.

    Raises ReadoutError when the table is missing, or when its rows and the record are not of one run.
    """
    from readout.report.provenance import digest

    if not path.exists():
        raise ReadoutError(f"no table {path}: run `dvc repro` to make it")
    table = pd.read_parquet(path)
    expected = digest(json.loads(path.with_suffix(".json").read_text()))
    if set(table["provenance"]) != {expected}:
        raise ReadoutError(f"table {path} and the record beside it are of different runs: run `dvc repro`")
    return table


def single_provenance(table: pd.DataFrame) -> str:
    """The provenance digest that all rows share; rows of several runs are an error.

    >>> single_provenance(pd.DataFrame({"provenance": ["a1", "a1"]}))
    'a1'
    >>> single_provenance(pd.DataFrame({"provenance": ["a1", "b2"]}))
    Traceback (most recent call last):
    ...
    readout.errors.ReadoutError: rows of 2 different runs (a1, b2) in one figure: draw them apart
    """
    found = sorted(set(table["provenance"]))
    if len(found) != 1:
        raise ReadoutError(
            f"rows of {len(found)} different runs ({', '.join(found)}) in one figure: draw them apart"
        )
    return found[0]
