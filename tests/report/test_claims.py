"""Claims are judged from estimates, and a claim that was not run says so."""

import pandas as pd
import pytest

from readout.errors import ParameterError
from readout.report import authorship_claims
from readout.report.claims import Claim, judge, save_claims
from readout.report.verdicts import verdict

SETS = ("RETRIEVAL", "STYLE", "DEPTH", "DYNAMICS")


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high, "level": 0.95, "n": 7}


@pytest.mark.parametrize("name", SETS)
def test_every_claim_of_the_paper_can_be_judged(name):
    claims = getattr(authorship_claims, name)
    judged = judge(claims, {claim: estimate(0.5, 0.4, 0.6) for claim in claims})
    assert set(judged["verdict"]) <= {"holds", "fails", "undecided"}
    assert judged["claim"].tolist() == list(claims)
    ids = [claim for part in SETS for claim in getattr(authorship_claims, part)]
    assert len(set(ids)) == len(ids)


def test_verdicts_follow_the_whole_interval():
    claims = {
        "up": Claim("rises", "1", "x", above=0.0),
        "down": Claim("falls", "1", "x", below=0.0),
        "same": Claim("stays", "0", "x", within=0.1),
        "later": Claim("is seen", "?", "x", above=0.0),
    }
    found = {"up": estimate(1, 0.5, 2), "down": estimate(1, 0.5, 2), "same": estimate(0, -0.05, 0.2)}
    judged = judge(claims, found).set_index("claim")
    assert judged["verdict"].to_dict() == {
        "up": "holds",
        "down": "fails",
        "same": "undecided",
        "later": "not run",
    }
    assert judged.loc["up", "here"] == "1.000 [0.500, 2.000]"
    with pytest.raises(ParameterError, match="found: else is no claim; known: up, down"):
        judge(claims, found | {"else": estimate(0, 0, 0)})


def test_saved_claims_are_those_that_were_run_and_the_table_shows_all(tmp_path):
    claims = {"a": Claim("x", "1", "share", above=0.0), "b": Claim("y", "2", "share", above=0.0)}
    drawn = tmp_path / "figures"
    drawn.mkdir()
    judged = judge(claims, {"a": estimate(1, 0.5, 2)})
    shown = save_claims(judged, tmp_path / "results", drawn, {"code": "c"}, profile="tiny")
    assert shown["verdict"].tolist() == ["holds", "not run"]
    assert pd.read_csv(drawn / "claims.csv")["claim"].tolist() == ["a", "b"]
    saved = pd.read_parquet(tmp_path / "results" / "claims.parquet")
    assert saved["metric"].tolist() == ["a"]


def test_a_verdict_needs_one_side():
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0)
    with pytest.raises(TypeError, match="exactly one"):
        verdict(0.0, 1.0, above=0.0, within=1.0)
