"""Style token by token: what a single vector a text can only hold as an average."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from readout.errors import ParameterError
from readout.lenses.stylometry.words import FUNCTION_WORDS, WORD, words

TOKEN_TARGETS = ("word_length", "capital_initial", "function_word", "punctuation", "first_occurrence")
"""The columns of `token_targets`: characters in the token's word, then four that are 1 or 0."""

_FUNCTION_WORDS = frozenset(FUNCTION_WORDS)


def token_targets(
    text: str, offsets: Sequence[tuple[int, int]]
) -> tuple[Float[np.ndarray, "token target"], Bool[np.ndarray, " token"]]:
    """What holds of the word of each token, in the order of `TOKEN_TARGETS`, and which tokens hold any text.

    A token belongs to the first word that it overlaps, which may have several tokens. One of punctuation alone is
    `punctuation`, and outside a word all else of it is 0. `first_occurrence` asks whether the word, in this case,
    has not been in the text before; its mean over words is the type-token ratio, and the means of `word_length`
    and `capital_initial` are the features of those names.
    offsets: (start, end) in characters, as a fast tokenizer gives them; a special token's are (0, 0), and it has
    False in the mask and 0 for values, as has a token of white space.

    Raises ParameterError for offsets outside the text, TextError for a text without a word.

    >>> values, real = token_targets("The end.", [(0, 0), (0, 3), (3, 7), (7, 8), (0, 0)])
    >>> values[real].astype(int).tolist(), real.tolist()
    ([[3, 1, 1, 0, 1], [3, 0, 0, 0, 1], [0, 0, 0, 1, 0]], [False, True, True, True, False])
    """
    wrong = [span for span in offsets if not 0 <= span[0] <= span[1] <= len(text)]
    if wrong:
        raise ParameterError(
            f"offsets: {tuple(wrong[0])} lies outside the {len(text)} characters of the text"
        )
    described, word_at = _described(text)
    values = np.zeros((len(offsets), len(TOKEN_TARGETS)))
    real = np.zeros(len(offsets), dtype=bool)
    for row, (start, end) in enumerate(offsets):
        piece = text[start:end]
        real[row] = bool(piece.strip())
        inside = word_at[start:end]
        values[row] = described[inside[inside >= 0][0]] if (inside >= 0).any() else 0.0
        values[row, TOKEN_TARGETS.index("punctuation")] = real[row] and not any(c.isalnum() for c in piece)
    return values, real


def _described(text: str) -> tuple[Float[np.ndarray, "word target"], np.ndarray]:
    """The targets of each word, and the word at each character, -1 between words."""
    words(text)
    word_at = np.full(len(text), -1)
    described, seen = [], set()
    for number, match in enumerate(WORD.finditer(text)):
        word = match.group()
        word_at[match.start() : match.end()] = number
        described.append(
            [len(word), word[0].isupper(), word.lower() in _FUNCTION_WORDS, False, word not in seen]
        )
        seen.add(word)
    return np.array(described, dtype=float), word_at
