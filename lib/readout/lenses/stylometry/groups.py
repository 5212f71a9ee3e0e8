"""Nine groups of style features of a text, after the features that layers of encoders are probed for.

Source: arXiv 2605.19908, the probes of the public code, with these choices: a word is a piece between white space
without the punctuation around it; standard deviations divide by n; the word lists are our own.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from readout.lenses.stylometry.words import (
    DISCOURSE_MARKERS,
    FUNCTION_WORDS,
    HEDGES,
    phrases,
    sentences,
    words,
)

_MARKS = MappingProxyType(
    {
        "comma": ",",
        "semicolon": ";",
        "colon": ":",
        "full stop": ".",
        "question mark": "?",
        "exclamation mark": "!",
        "em dash": "—",
        "opening bracket": "(",
        "closing bracket": ")",
    }
)
_CITATIONS = MappingProxyType(
    {
        "author, year": re.compile(r"\([^\W\d_][^()]*,\s*\d{4}[a-z]?\)"),
        "number": re.compile(r"\[\d+(?:\s*[,–-]\s*\d+)*\]"),
        "et al.": re.compile(r"\bet al\."),
    }
)
_HEDGE, _DISCOURSE_MARKER = phrases(HEDGES), phrases(DISCOURSE_MARKERS)


def function_words(text: str) -> dict[str, float]:
    """How much of a text each of `FUNCTION_WORDS` makes up, whatever its case: count / words.

    Raises TextError for a text without a word, as every group does.

    >>> found = function_words("The cat saw the dog")
    >>> found["the"], found["of"]
    (0.4, 0.0)
    """
    found = words(text.lower())
    counts = Counter(found)
    return {word: counts[word] / len(found) for word in FUNCTION_WORDS}


def sentence_length(text: str) -> dict[str, float]:
    """Words in a sentence: mean, median, standard deviation (over n), least and most.

    >>> sentence_length("One two three. Four!")
    {'mean': 2.0, 'median': 2.0, 'std': 1.0, 'min': 1.0, 'max': 3.0}
    """
    words(text)
    lengths = np.array([len(words(sentence)) for sentence in sentences(text)], dtype=float)
    return {name: float(getattr(np, name)(lengths)) for name in ("mean", "median", "std", "min", "max")}


def punctuation(text: str) -> dict[str, float]:
    """How often each of nine marks , ; : . ? ! — ( ) stands in a text: count / characters, spaces among them.

    >>> found = punctuation("Yes, no; ok.")  # 12 characters
    >>> round(found["comma"] * 12), round(found["full stop"] * 12), found["colon"]
    (1, 1, 0.0)
    """
    words(text)
    return {name: text.count(mark) / len(text) for name, mark in _MARKS.items()}


def capitalisation(text: str) -> dict[str, float]:
    """Share of words with a capital initial, and share all in capitals that are longer than one letter.

    >>> capitalisation("I saw NASA land")
    {'initial': 0.5, 'all': 0.25}
    """
    found = words(text)
    return {
        "initial": sum(word[0].isupper() for word in found) / len(found),
        "all": sum(len(word) > 1 and word.isupper() for word in found) / len(found),
    }


def type_token_ratio(text: str) -> dict[str, float]:
    """Different words / words, over the first 50, the first 100 and all words; The and the differ.

    Where a text has fewer words than that, over all of them.

    >>> type_token_ratio("the cat saw the cat")
    {'first 50': 0.6, 'first 100': 0.6, 'all': 0.6}
    """
    found = words(text)
    return {
        name: len(set(some)) / len(some)
        for name, some in (("first 50", found[:50]), ("first 100", found[:100]), ("all", found))
    }


def word_length(text: str) -> dict[str, float]:
    """Characters in a word: mean and standard deviation (over n).

    >>> word_length("a bcd.")
    {'mean': 2.0, 'std': 1.0}
    """
    lengths = np.array([len(word) for word in words(text)])
    return {"mean": float(lengths.mean()), "std": float(lengths.std())}


def hedges(text: str) -> dict[str, float]:
    """How often a text holds back, by `HEDGES`: count / words.

    >>> hedges("Perhaps it might rain")
    {'all': 0.5}
    """
    return {"all": len(_HEDGE.findall(text.lower())) / len(words(text))}


def citations(text: str) -> dict[str, float]:
    """How often a text cites, as (Name, 2020), as [3] or [3, 4], and by et al.: count / characters.

    >>> found = citations("See [3], then (Lee, 2020), as Kim et al. do.")  # 44 characters
    >>> [round(each * 44) for each in found.values()]
    [1, 1, 1]
    """
    words(text)
    return {name: len(pattern.findall(text)) / len(text) for name, pattern in _CITATIONS.items()}


def discourse_markers(text: str) -> dict[str, float]:
    """How often a text says how its sentences hang together, by `DISCOURSE_MARKERS`: count / sentences.

    >>> discourse_markers("However, it rained. We left.")
    {'all': 0.5}
    """
    words(text)
    return {"all": len(_DISCOURSE_MARKER.findall(text.lower())) / len(sentences(text))}


GROUPS: Mapping[str, Callable[[str], dict[str, float]]] = MappingProxyType(
    {
        group.__name__: group
        for group in (
            function_words,
            sentence_length,
            punctuation,
            capitalisation,
            type_token_ratio,
            word_length,
            hedges,
            citations,
            discourse_markers,
        )
    }
)
"""The nine groups by name, in the order of the paper; each maps a text to its values by name."""

UNITS: Mapping[str, str] = MappingProxyType(
    {
        "function_words": "per word",
        "sentence_length": "words",
        "punctuation": "per character",
        "capitalisation": "share of words",
        "type_token_ratio": "types per word",
        "word_length": "characters",
        "hedges": "per word",
        "citations": "per character",
        "discourse_markers": "per sentence",
    }
)
"""The unit of the values of each group."""


def features(texts: Sequence[str]) -> pd.DataFrame:
    """Every feature of every text: one row a text, columns (group, feature), in the order of `GROUPS`.

    Time grows with the words of the texts: about 0.3 ms for 60 words.

    Raises TextError for a text without a word.

    >>> table = features(["It is so.", "A very long one!"])
    >>> table["word_length", "mean"].round(2).tolist()
    [2.0, 3.0]
    """
    rows = [{name: group(text) for name, group in GROUPS.items()} for text in texts]
    columns = [(name, feature) for name, group in GROUPS.items() for feature in group("a")]
    values = [[value for found in row.values() for value in found.values()] for row in rows]
    return pd.DataFrame(
        np.array(values, dtype=float).reshape(len(texts), len(columns)),
        columns=pd.MultiIndex.from_tuples(columns, names=["group", "feature"]),
    )
