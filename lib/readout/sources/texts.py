"""Passages of real prose, each with its author, document, year and medium.

Two corpora: `sotu`, addresses by authors who are known, and `wikitext`, articles by nobody in particular. A corpus
is a module with `documents(folder)`, which yields raw texts with what is known of each, and `clean(text)`.
"""

import heapq

import datasets
import numpy as np

from readout.errors import ParameterError
from readout.sources import sotu, wikitext
from readout.sources.assets import locate
from readout.sources.sentences import cuts

CORPORA = {"sotu": sotu, "wikitext": wikitext}

_FEATURES = datasets.Features(
    text=datasets.Value("string"),
    author=datasets.Value("string"),
    document=datasets.Value("string"),
    year=datasets.Value("int32"),
    medium=datasets.Value("string"),
    position=datasets.Value("int32"),
)


def passages(n: int, words: int = 100, seed: int = 0, corpus: str = "sotu") -> datasets.Dataset:
    """`n` passages of exactly `words` contiguous words that start at a sentence and never overlap.

    They are dealt round by round, one from each document in an order that `seed` draws, so few come from one
    document before every document long enough has given one; the first k of n are those of a call with n = k.
    Columns: text; author, the cluster within which passages are not independent (`sotu`: the `president_id`,
    `wikitext`: the article's title); document; year (`wikitext`: None); medium (`sotu`: spoken or written,
    `wikitext`: article); position, the index of the passage's first word in its cleaned document.

    Time grows with the corpus, read once from end to end; memory with the n documents that the seed ranks first.

    Raises ParameterError where n or words is below 1, seed is below 0, the corpus is unknown, or it holds fewer
    than n such passages; AssetError where it is not fetched.
    """
    if corpus not in CORPORA:
        raise ParameterError(f"corpus is {corpus!r}; it must be one of {', '.join(CORPORA)}")
    for name, value, least in (("n", n, 1), ("words", words, 1), ("seed", seed, 0)):
        if value < least:
            raise ParameterError(f"{name} is {value}; it must be at least {least}")
    rows = _deal(_drawn(n, words, seed, corpus))
    if n > len(rows):
        raise ParameterError(f"n is {n}; {corpus} holds {len(rows)} passages of {words} words")
    return datasets.Dataset.from_list(rows[:n], features=_FEATURES)


def _drawn(n: int, words: int, seed: int, corpus: str) -> list[list[dict]]:
    """The shuffled passages of the n documents that the seed ranks first among those that hold any, in rank order."""
    source, ranks = CORPORA[corpus], np.random.default_rng(seed)
    # A heap whose first entry is the document of the last rank: most of a large corpus is then never cut.
    kept: list[tuple[float, int, list[dict]]] = []
    for index, (text, about) in enumerate(source.documents(locate(corpus))):
        entry = -ranks.random(), index
        full = len(kept) == n
        if full and entry < kept[0][:2]:
            continue
        if found := _passages_of(source.clean(text), about, words):
            # Each document has a generator of its own, since which documents get here depends on n.
            order = np.random.default_rng([seed, index]).permutation(len(found))
            (heapq.heapreplace if full else heapq.heappush)(kept, (*entry, [found[i] for i in order]))
    return [found for _, _, found in sorted(kept, reverse=True)]


def _passages_of(text: str, about: dict, words: int) -> list[dict]:
    all_words = text.split()
    return [
        {"text": " ".join(all_words[at : at + words]), **about, "position": at}
        for at in cuts(all_words, words)
    ]


def _deal(documents: list[list[dict]]) -> list[dict]:
    rounds = range(max(map(len, documents), default=0))
    return [document[turn] for turn in rounds for document in documents if turn < len(document)]
