"""Tables keep to the schema, come with their record, and never half exist."""

import json

import pandas as pd
import pytest

from readout.errors import ParameterError, ReadoutError
from readout.report.tables import read_table, single_provenance, tidy, write_table

ROWS = pd.DataFrame({"value": [1.0, 2.0], "metric": ["a", "b"], "site": ["embedding", "block 1"]})
RECORD = {"code": "x", "threads": 2}


def test_round_trip_with_record(tmp_path):
    path = tmp_path / "deep" / "t.parquet"
    written = write_table(ROWS, path, RECORD)
    pd.testing.assert_frame_equal(read_table(path), written)
    assert json.loads(path.with_suffix(".json").read_text()) == RECORD
    assert sorted(p.name for p in path.parent.iterdir()) == ["t.json", "t.parquet"]


def test_same_numbers_same_bytes(tmp_path):
    a, b = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_table(ROWS, a, RECORD)
    write_table(ROWS, b, RECORD)
    assert a.read_bytes() == b.read_bytes()


def test_another_runs_record_is_noticed(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(ROWS, path, RECORD)
    path.with_suffix(".json").write_text(json.dumps({**RECORD, "threads": 1}))
    with pytest.raises(ReadoutError, match="different runs"):
        read_table(path)


def test_unknown_column_missing_value_missing_file(tmp_path):
    with pytest.raises(ParameterError, match="'flavour' is not in the schema"):
        tidy(ROWS, flavour="sweet")
    with pytest.raises(ReadoutError, match="has no value"):
        write_table(ROWS.assign(value=[1.0, None]), tmp_path / "t.parquet", RECORD)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ReadoutError, match="run `dvc repro`"):
        read_table(tmp_path / "t.parquet")


def test_a_failed_write_keeps_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_table(ROWS, path, RECORD)
    before = path.read_bytes()

    def full(self, *args, **kwargs):
        args[0].write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.raises(OSError, match="No space left"):
        write_table(ROWS.assign(value=[3.0, 4.0]), path, RECORD)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.json", "t.parquet"]


def test_rows_of_two_runs_refuse():
    with pytest.raises(ReadoutError, match="2 different runs"):
        single_provenance(pd.concat([tidy(ROWS, provenance="a"), tidy(ROWS, provenance="b")]))
