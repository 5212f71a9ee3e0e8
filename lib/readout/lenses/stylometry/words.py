"""What counts as a word and as a sentence, and the lists of words that style is measured by."""

import re

from readout.errors import TextError


def _listed(text: str) -> tuple[str, ...]:
    return tuple(" ".join(each.split()) for each in text.split(","))


# No contraction is listed: texts spell their apostrophes in several ways.
FUNCTION_WORDS = _listed("""
    a, an, the, this, that, these, those, each, every, either, neither, both, all, any, some, no, none, few, many,
    much, more, most, other, another, such, own, same,
    i, me, my, we, us, our, you, your, he, him, his, she, her, it, its, they, them, their,
    myself, ourselves, himself, herself, itself, themselves, who, whom, whose, which, what,
    am, is, are, was, were, be, been, being, have, has, had, having, do, does, did, will, would, shall, should, can,
    could, may, might, must,
    about, above, across, after, against, along, among, around, at, before, behind, below, between, beyond, by, down,
    during, for, from, in, into, near, of, off, on, onto, out, over, since, through, throughout, to, toward, under,
    until, up, upon, with, within, without,
    and, but, or, nor, so, yet, if, because, although, though, while, whereas, unless, than, as, whether, when, where,
    why, how, not, only, also, very, too, then, there, here, now, even, again, ever, never
""")
"""English words of grammar rather than of subject, in lower case."""

HEDGES = _listed("""
    may, might, could, would, perhaps, maybe, possibly, probably, presumably, apparently, seemingly, likely, unlikely,
    seem, seems, seemed, appear, appears, appeared, suggest, suggests, suggested, roughly, somewhat, generally,
    usually, often, in general, to some extent
""")
"""English words and phrases by which a writer holds back, in lower case."""

DISCOURSE_MARKERS = _listed("""
    however, therefore, thus, hence, moreover, furthermore, additionally, besides, nevertheless, nonetheless,
    consequently, accordingly, otherwise, instead, meanwhile, finally, firstly, secondly, similarly, likewise,
    conversely, indeed, namely, in addition, in contrast, on the other hand, as a result, for example, for instance,
    in other words, in conclusion, in particular, in fact, of course
""")
"""English words and phrases that say how one sentence follows from another, in lower case."""

WORD = re.compile(r"[^\W_](?:\S*[^\W_])?")
"""Matches a piece between white space, from its first letter or digit to its last."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]”’»]*\s+")


def words(text: str) -> list[str]:
    """The pieces of a text between white space, without the punctuation around them; its case is kept.

    A piece of punctuation alone is no word. Raises TextError where a text has no word.

    >>> words('"Well-read, aren’t we?" — (he asked)')
    ['Well-read', 'aren’t', 'we', 'he', 'asked']
    """
    found = WORD.findall(text)
    if not found:
        raise TextError(f"text: {text[:40]!r} has no word; leave such texts out")
    return found


def sentences(text: str) -> list[str]:
    """The sentences of a text: it is split after [.!?], closing quotes or brackets if any, and white space.

    So an abbreviation ends a sentence, and a decimal point does not. A piece without a word is no sentence.

    >>> sentences("It rose by 3.5 per cent. Why? Ask Dr. Lee!")
    ['It rose by 3.5 per cent.', 'Why?', 'Ask Dr.', 'Lee!']
    """
    return [piece for piece in _SENTENCE_END.split(text) if WORD.search(piece)]


def phrases(listed: tuple[str, ...]) -> re.Pattern:
    """Matches any of the words and phrases in lower-case text, over line breaks too.

    >>> phrases(("in fact", "so")).findall("so in fact, insofar")
    ['so', 'in fact']
    """
    return re.compile(rf"\b(?:{'|'.join(listed)})\b".replace(" ", r"\s+"))
