from pathlib import Path

import pytest
from datasets import Dataset

from readout.errors import AssetError
from readout.sources import authors
from readout.sources.authors import authored_spans, check_no_leak
from readout.sources.triplets import draw_triplets

# (text, author ids, domain, document, year) of query, positive and negative.
Q = ("Query one.", ["7", "3"], "shs", "hal-1", "2019")
P = ("Positive one.", ["3", "7"], "shs", "hal-2", "2020")
N = ("Negative one.", ["5"], "shs", "hal-3", None)
NOBODY = ("By nobody.", ["0"], "shs", "hal-4", "2021")
PARTLY = ("By somebody.", ["0", "5"], "shs", "hal-5", "2021")


def triplet(*texts: tuple) -> dict:
    row = {}
    for part, prefix, (text, ids, domain, document, year) in zip(
        ("query", "positive", "negative"), ("query", "pos", "neg"), texts, strict=True
    ):
        about = {"authorids": ids, "domain": domain, "id": document, "year": year}
        row |= {part: text} | {f"{prefix}_{name}": value for name, value in about.items()}
    return row


def renamed(text: tuple, n: int) -> tuple:
    return (*text[:3], f"{text[3]}-{n}", text[4])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """One config as the hub lays it out, the train split in two files."""
    monkeypatch.setattr(authors, "locate", lambda id: tmp_path)
    write(tmp_path, "train-00000-of-00002", [triplet(Q, P, N), triplet(Q, P, NOBODY)])
    write(tmp_path, "train-00001-of-00002", [triplet(P, Q, PARTLY)])
    for name, n in (("valid", 1), ("test", 2)):
        write(tmp_path, f"{name}-00000-of-00001", [triplet(*(renamed(text, n) for text in (Q, P, N)))])
    return tmp_path


def write(folder: Path, name: str, rows: list[dict]) -> None:
    (folder / "base-4").mkdir(exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / "base-4" / f"{name}.parquet")


def read(sentences: int = 4) -> list[dict]:
    return authored_spans(["halvest-contrastive"], (sentences,), min_words=1).to_list()


def test_every_text_is_a_span_once_with_the_split_it_came_in(folder):
    rows = read()
    assert [(row["document"], row["split"]) for row in rows] == [
        ("hal-1", "train"),
        ("hal-2", "train"),
        ("hal-3", "train"),
        ("hal-5", "train"),
        *((f"hal-{i}-1", "validation") for i in (1, 2, 3)),
        *((f"hal-{i}-2", "test") for i in (1, 2, 3)),
    ]
    assert rows[0] == {
        "text": "Query one.",
        "corpus": "halvest-contrastive",
        "config": "base-4",
        "authors": ["7", "3"],
        "author_set": "3 & 7",
        "document": "hal-1",
        "domain": "shs",
        "year": 2019,
        "position": None,
        "split": "train",
    }
    assert rows[2]["year"] is None


def test_id_0_is_nobody(folder):
    by_document = {row["document"]: row for row in read()}
    assert "hal-4" not in by_document
    assert (by_document["hal-5"]["authors"], by_document["hal-5"]["author_set"]) == (["5"], "5")


def test_the_spans_are_fit_to_draw_triplets_from(folder):
    spans = authored_spans(["halvest-contrastive"], (4,), min_words=1)
    check_no_leak(spans)
    (row,) = draw_triplets(spans, 1, split="validation")
    assert {row["anchor"], row["positive"]} <= {"Query one.", "Positive one."}
    assert (row["anchor_author_set"], row["negative"]) == ("3 & 7", "Negative one.")


def test_a_config_a_split_or_a_column_that_is_not_there_is_named(folder):
    with pytest.raises(AssetError, match=r"has no base-6/train-\*\.parquet"):
        read(6)
    lacking = triplet(Q, P, N)
    del lacking["neg_id"], lacking["pos_year"]
    write(folder, "test-00000-of-00001", [lacking])
    with pytest.raises(AssetError, match="base-4 lacks the columns neg_id, pos_year"):
        read()
    (folder / "base-4/valid-00000-of-00001.parquet").unlink()
    with pytest.raises(AssetError, match=r"has no base-4/valid-\*\.parquet"):
        read()


def test_author_ids_that_are_one_text_are_refused(folder):
    one_text = [(*text[:1], str(text[1]), *text[2:]) for text in (Q, P, N)]
    write(folder, "test-00000-of-00001", [triplet(*one_text)])
    with pytest.raises(AssetError, match="base-4: query_authorids is no list of ids"):
        read()
