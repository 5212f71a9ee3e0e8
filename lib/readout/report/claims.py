"""From estimates to "paper / here / verdict": one table at the end of every notebook."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from readout.errors import ParameterError
from readout.report.tables import tidy, write_table
from readout.report.verdicts import verdict

SHOWN = ["claim", "statement", "paper", "here", "unit", "n", "verdict"]


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's own value, and on which side of which number the whole interval must lie.

    Exactly one of above, below, and within (distance from 0, for "about the same").
    """

    statement: str
    paper: str
    unit: str
    above: float | None = None
    below: float | None = None
    within: float | None = None


def judge(claims: Mapping[str, Claim], found: Mapping[str, Mapping[str, float | int]]) -> pd.DataFrame:
    """One row a claim: what the paper says, what was found here (value, low, high, level, n), and the verdict.

    A claim without an estimate is *not run*. Raises ParameterError for an estimate of no claim.

    >>> claims = {"a": Claim("it grows", ".2", "share", above=0.0), "b": Claim("it stays", "0", "share", within=0.1)}
    >>> table = judge(claims, {"a": {"value": 0.3, "low": 0.1, "high": 0.5, "level": 0.95, "n": 9}})
    >>> table[["claim", "here", "verdict"]].values.tolist()
    [['a', '0.300 [0.100, 0.500]', 'holds'], ['b', '', 'not run']]
    """
    if unknown := sorted(found.keys() - claims.keys()):
        raise ParameterError(f"found: {', '.join(unknown)} is no claim; known: {', '.join(claims)}")
    rows = []
    for name, claim in claims.items():
        row = {"claim": name, "statement": claim.statement, "paper": claim.paper, "unit": claim.unit}
        if name not in found:
            rows.append(row | {"here": "", "n": 0, "verdict": "not run"})
            continue
        estimate = dict(found[name])
        here = "{value:.3f} [{low:.3f}, {high:.3f}]".format(**estimate)
        sides = {side: getattr(claim, side) for side in ("above", "below", "within")}
        said = verdict(
            float(estimate["low"]),
            float(estimate["high"]),
            **{s: x for s, x in sides.items() if x is not None},
        )
        rows.append(row | estimate | {"here": here, "verdict": said})
    return pd.DataFrame(rows)


def save_claims(judged: pd.DataFrame, results: Path, drawn: Path, record: dict, **constant) -> pd.DataFrame:
    """Write the estimates to `results/claims.parquet` and the table to `drawn/claims.csv`; returns what is shown."""
    run = judged[judged["verdict"] != "not run"]
    columns = [c for c in ("unit", "value", "low", "high", "level", "n") if c in run]
    write_table(
        tidy(run[columns].assign(metric=run["claim"]), **constant), results / "claims.parquet", record
    )
    shown = judged[SHOWN]
    shown.to_csv(drawn / "claims.csv", index=False, lineterminator="\n")
    return shown
