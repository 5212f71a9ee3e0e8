"""Phases of a generation by a stated rule: what all answers share, what repeats the item, and what is new.

The paper names preamble, prompt repetition, recall and content, and no rule for them. Ours looks at tokens alone: a
token is *preamble* where at least half of the texts have the same one at its index, *repetition* where it stands in
the item's own text and in few other items', else *content*. Recall is a kind of content that no such rule can tell.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int

PHASES = ("preamble", "repetition", "content")
SHARED, RARE = 0.5, 0.1


def phases(tokens: Sequence[Sequence[int]], own: Sequence[Sequence[int]]) -> Int[np.ndarray, "text token"]:
    """The phase of every generated token, as its place in `PHASES`; -1 behind a text's end.

    own: the tokens of each item's own text, as they stand in its prompt.

    >>> phases([[9, 9, 5, 7], [9, 9, 6, 8]], [[5], [6]]).tolist()
    [[0, 0, 1, 2], [0, 0, 1, 2]]
    """
    width = max(map(len, tokens))
    found = np.full((len(tokens), width), -1)
    in_texts = Counter(token for text in own for token in set(text))
    for at in range(width):
        here = [text[at] for text in tokens if len(text) > at]
        token, count = Counter(here).most_common(1)[0]
        common = token if count >= max(2, SHARED * len(here)) else None
        for row, text in enumerate(tokens):
            if len(text) > at:
                repeats = text[at] in own[row] and in_texts[text[at]] <= max(1, RARE * len(own))
                found[row, at] = 0 if text[at] == common else 1 if repeats else 2
    return found


def share_table(found: Int[np.ndarray, "text token"]) -> pd.DataFrame:
    """The share of texts that are in each phase at each token index, among those that are that long."""
    tokens, real = np.arange(1, found.shape[1] + 1), (found >= 0).sum(axis=0)
    parts = [
        pd.DataFrame(
            {"phase": name, "token": tokens, "value": (found == phase).sum(axis=0) / real, "n": real}
        )
        for phase, name in enumerate(PHASES)
    ]
    return pd.concat(parts, ignore_index=True).assign(metric="share of texts", unit="share")


def end_table(found: Int[np.ndarray, "text token"]) -> pd.DataFrame:
    """`boundaries` as rows of a table: where phases end."""
    ends = boundaries(found)
    rows = {"phase": list(ends), "token": list(ends.values()), "value": list(ends.values())}
    return pd.DataFrame(rows).assign(readout="phase", metric="end", unit="token", n=len(found))


def boundaries(found: Int[np.ndarray, "text token"]) -> dict[str, float]:
    """The median over texts of the index, from 1, of the last token of preamble and of repetition; those that exist.

    Preamble is looked for before the first token of content.

    >>> boundaries(np.array([[0, 0, 1, 2], [0, 1, 2, 0]]))
    {'preamble': 1.5, 'repetition': 2.5}
    """
    ends: dict[str, list[int]] = {"preamble": [], "repetition": []}
    for text in found:
        content = np.flatnonzero(text == PHASES.index("content"))
        first = content[0] if len(content) else len(text)
        before, repeated = np.flatnonzero(text[:first] == 0), np.flatnonzero(text == 1)
        ends["preamble"] += [before[-1] + 1] if len(before) else []
        ends["repetition"] += [repeated[-1] + 1] if len(repeated) else []
    return {name: float(np.median(found)) for name, found in ends.items() if found}
