"""Where sentences start and end in running prose, by rule: no model, no dictionary, English only."""

import re
from collections.abc import Iterator
from itertools import pairwise

_END = re.compile(r"[.!?][\"'”’)]*$")
_START = re.compile(r"[\"'“‘(]*[A-Z]")
# `_starts` in one expression, for whole texts: most words are passed over without a call.
_BOUNDARY = re.compile(rf"(?<!\S)(\S*{_END.pattern.removesuffix('$')}) (?={_START.pattern})")
_ABBREVIATION = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|St|Gen|Gov|Lt|Col|Capt|Hon|Messrs|No|Nos|Sec|vs|[A-Z]|(?:[A-Z]\.)+[A-Z])\."
)


def is_finished(text: str) -> bool:
    """Whether a text ends as a sentence does: in a full stop, question or exclamation mark, maybe in quotes.

    >>> is_finished("He said “Yes.”"), is_finished("Other activities 4,552")
    (True, False)
    """
    return bool(_END.search(text))


def sentences(text: str) -> list[str]:
    """The sentences of running prose, in order; together they hold every word.

    >>> sentences("One two. Three! “I saw Mr. Six.” Seven")
    ['One two.', 'Three!', '“I saw Mr. Six.”', 'Seven']
    """
    text = " ".join(text.split())
    ends = (match.end() for match in _BOUNDARY.finditer(text) if not _ABBREVIATION.fullmatch(match[1]))
    return [text[at:end].rstrip() for at, end in pairwise([0, *ends, len(text)]) if end]


def cuts(words: list[str], length: int) -> Iterator[int]:
    """Where passages of `length` words start: at the first sentence that starts at or after the last one's end.

    >>> list(cuts("One two. Three Four. Mr. Five six. Seven eight.".split(), 3))
    [0, 4]
    """
    free_from = 0
    for at in range(len(words) - length + 1):
        if at >= free_from and _starts(words, at):
            yield at
            free_from = at + length


def _starts(words: list[str], at: int) -> bool:
    before = words[at - 1] if at else "."
    # Most words end in a letter: what is cheap to see first.
    if before[-1].isalnum() or not is_finished(before) or not _START.match(words[at]):
        return False
    return not _ABBREVIATION.fullmatch(before)
