"""The baseline without a model: how alike two texts are in their character n-grams."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from sklearn.feature_extraction.text import TfidfVectorizer

from readout.errors import ParameterError


class CharNgrams:
    """Cosine of TF-IDF vectors over character n-grams within words, logarithmic in the counts (scikit-learn's).

    `fit` learns which n-grams there are and how rare they are; `score` compares texts.

    >>> ngrams = CharNgrams((2, 2)).fit(["to be", "or not"])
    >>> ngrams.score(["to be"], ["to be", "or not"]).round(2).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, lengths: tuple[int, int] = (2, 4), max_features: int = 50_000):
        self._vectorizer = TfidfVectorizer(
            analyzer="char_wb",
            ngram_range=lengths,
            max_features=max_features,
            sublinear_tf=True,
            dtype=np.float64,
        )

    def fit(self, texts: Sequence[str]) -> "CharNgrams":
        """Learn the n-grams of some texts. Raises ParameterError for no texts."""
        if not texts:
            raise ParameterError("texts: is empty; give at least one")
        self._vectorizer.fit(texts)
        return self

    def score(self, queries: Sequence[str], keys: Sequence[str]) -> Float[np.ndarray, "query key"]:
        """The cosine of every query with every key."""
        query, key = (self._vectorizer.transform(texts) for texts in (queries, keys))
        return (query @ key.T).toarray()
