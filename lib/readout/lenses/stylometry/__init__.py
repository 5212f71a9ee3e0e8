"""Style in numbers: nine groups of hand-made features of a text, and what they are for each of its tokens."""

from readout.lenses.stylometry.groups import (
    GROUPS,
    UNITS,
    capitalisation,
    citations,
    discourse_markers,
    features,
    function_words,
    hedges,
    punctuation,
    sentence_length,
    type_token_ratio,
    word_length,
)
from readout.lenses.stylometry.tokens import TOKEN_TARGETS, token_targets
from readout.lenses.stylometry.words import DISCOURSE_MARKERS, FUNCTION_WORDS, HEDGES, sentences, words

__all__ = [
    "DISCOURSE_MARKERS",
    "FUNCTION_WORDS",
    "GROUPS",
    "HEDGES",
    "TOKEN_TARGETS",
    "UNITS",
    "capitalisation",
    "citations",
    "discourse_markers",
    "features",
    "function_words",
    "hedges",
    "punctuation",
    "sentence_length",
    "sentences",
    "token_targets",
    "type_token_ratio",
    "word_length",
    "words",
]
