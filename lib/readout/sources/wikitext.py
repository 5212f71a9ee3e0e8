"""The corpus `wikitext`: the train split of WikiText-103, articles of the English Wikipedia as tokenised words.

"Layer by Layer" (arXiv 2502.02013) takes single rows of it, headings dropped; a row is a paragraph of an article,
and rows of one article are no independent draws, so here a document is the whole article. The tokeniser set
punctuation apart and wrote words seen fewer than three times as `<unk>`; both stay, as in the published inputs, so
a punctuation mark counts as a word and articles whose titles read the same through `<unk>` count as one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet

_TITLE = re.compile(r"= ((?!= ).*) =")
_HEADING = re.compile(r"= .* =")
_SPLIT_SIGN = re.compile(r" @([-,.])@ ")


def documents(folder: Path) -> Iterator[tuple[str, dict]]:
    """Each article in stored order, its paragraphs on lines, with its title as author and document.

    Year is None, medium "article". One row group of one file is held at a time.
    """
    about, paragraphs, before = None, [], ""
    for row in _rows(folder):
        # Formulas and tables hold rows between equals signs too, but no empty row before them.
        title = None if before else _TITLE.fullmatch(row)
        if title:
            if about:
                yield "\n".join(paragraphs), about
            about, paragraphs = _about(clean(title[1])), []
        elif row:
            paragraphs.append(row)
        before = row
    if about:
        yield "\n".join(paragraphs), about


def _about(title: str) -> dict:
    return {"author": title, "document": title, "year": None, "medium": "article"}


def _rows(folder: Path) -> Iterator[str]:
    # An article may start in one file and end in the next, so the files are read as one.
    for path in sorted(folder.glob("train-*.parquet")):
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["text"]):
                yield from map(str.strip, batch["text"].to_pylist())


def clean(text: str) -> str:
    r"""The prose of an article on one line: headings dropped, hyphens and signs within numbers made whole.

    >>> clean("= = Plot = =\nA role @-@ playing game sold 1 @,@ 500 <unk> at 2 @.@ 5 euros .")
    'A role-playing game sold 1,500 <unk> at 2.5 euros .'
    """
    paragraphs = (line for line in text.splitlines() if not _HEADING.fullmatch(line))
    return _SPLIT_SIGN.sub(r"\1", " ".join(paragraphs))
