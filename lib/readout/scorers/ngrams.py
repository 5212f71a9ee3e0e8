"""The baseline without a model: how alike two texts are in their character n-grams."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from readout.errors import ParameterError, TextError


class CharNgrams:
    """Cosine of TF-IDF vectors over character n-grams within words, logarithmic in the counts (scikit-learn's).

    What a scorer has to beat: endings, function words and punctuation tell authors apart without training. A weight
    is (1 + log count) x (1 + log((1 + texts) / (1 + texts with the n-gram))); letters are lowercased, and a word's
    edges count as a blank. ngram_range: shortest and longest n-gram, in characters. max_features: how many of the
    most frequent are kept. `fit` learns which n-grams there are and how rare they are; `score` compares texts.

    Raises ParameterError for lengths or a number of features that are out of range.

    >>> ngrams = CharNgrams((2, 2)).fit(["to be", "or not"])
    >>> ngrams.score(["to be"], ["to be", "or not"]).round(2).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, ngram_range: tuple[int, int] = (2, 4), max_features: int = 50_000):
        if not 1 <= ngram_range[0] <= ngram_range[1]:
            raise ParameterError(
                f"ngram_range={ngram_range}: two lengths are needed, 1 <= shortest <= longest"
            )
        if max_features < 1:
            raise ParameterError(f"max_features={max_features}: at least 1 is needed")
        self._vectorizer = TfidfVectorizer(
            analyzer="char_wb",
            ngram_range=ngram_range,
            max_features=max_features,
            sublinear_tf=True,
            lowercase=False,  # capitals are style
            dtype=np.float64,
        )

    def fit(self, train_texts: Sequence[str]) -> "CharNgrams":
        """Learn n-grams and their weights, best from texts other than those to be compared; returns itself.

        Raises TextError where no text has a character.
        """
        if not any(text.strip() for text in train_texts):
            raise TextError("train_texts: hold no character; give at least one text that is not blank")
        self._vectorizer.fit(train_texts)
        return self

    def score(self, query_texts: Sequence[str], key_texts: Sequence[str]) -> Float[np.ndarray, "query key"]:
        """The cosine of every query with every key, in [0, 1], float64; 0 for a text without a known n-gram.

        Time: characters + queries x keys. Raises TextError for no queries or keys, ParameterError before `fit`.

        >>> CharNgrams().fit(["to be"]).score(["to be"], ["be to", "xyz"]).round(2).tolist()
        [[1.0, 0.0]]
        """
        for name, texts in {"query_texts": query_texts, "key_texts": key_texts}.items():
            if not texts:
                raise TextError(f"{name}: is empty; give at least one text")
        try:
            query, key = (self._vectorizer.transform(texts) for texts in (query_texts, key_texts))
        except NotFittedError:
            raise ParameterError("CharNgrams: knows no n-grams yet; call fit(train_texts) first") from None
        return (query @ key.T).toarray()
