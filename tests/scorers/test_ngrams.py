"""Character n-grams: the weights against a count by hand, and what the baseline can and cannot tell apart."""

import math
from collections import Counter

import numpy as np
import pytest

from readout.errors import ParameterError, TextError
from readout.scorers.ngrams import CharNgrams

TRAIN = ["the cat sat", "a cat, a hat", "the end of the tale", "ending; mending"]


def slow_vector(text, train, lengths):
    def grams(of):
        words = [f" {word} " for word in of.split()]
        return Counter(w[i : i + n] for w in words for n in lengths for i in range(len(w) - n + 1))

    known = [set(grams(each)) for each in train]
    idf = {g: 1 + math.log((1 + len(train)) / (1 + sum(g in k for k in known))) for g in set().union(*known)}
    return {g: (1 + math.log(count)) * idf[g] for g, count in grams(text).items() if g in idf}


def slow_cosine(one, two):
    dot = sum(weight * two.get(gram, 0) for gram, weight in one.items())
    return dot / math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in two.values()))


def test_against_counting_by_hand():
    queries, keys = ["the hat sat", "tending cats"], ["a cat sat", "the the end", "bending"]
    got = CharNgrams((2, 3)).fit(TRAIN).score(queries, keys)
    vectors = [[slow_vector(text, TRAIN, (2, 3)) for text in texts] for texts in (queries, keys)]
    want = [[slow_cosine(query, key) for key in vectors[1]] for query in vectors[0]]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert got.dtype == np.float64


def test_a_text_is_most_like_itself_and_scores_are_symmetric():
    scores = CharNgrams().fit(TRAIN).score(TRAIN, TRAIN)
    np.testing.assert_allclose(np.diag(scores), 1)
    np.testing.assert_allclose(scores, scores.T)
    assert ((scores >= 0) & (scores < 1 + 1e-12)).all()


def test_a_pair_does_not_depend_on_the_texts_beside_it():
    ngrams = CharNgrams().fit(TRAIN)
    whole = ngrams.score(TRAIN, TRAIN)
    np.testing.assert_allclose(ngrams.score(TRAIN[1:2], TRAIN[3:]), whole[1:2, 3:])


def test_habits_of_an_author_are_found():
    one = ["well; then, it is so; quite", "so; then it was; quite well"]
    other = ["I dunno... maybe not...", "maybe... I dunno that..."]
    scores = CharNgrams().fit(one + other).score([one[0], other[0]], [one[1], other[1]])
    assert scores.argmax(axis=1).tolist() == [0, 1]


def test_a_text_without_a_known_ngram_is_like_nothing():
    assert CharNgrams().fit(["aaa"]).score(["zzz", ""], ["aaa"]).tolist() == [[0.0], [0.0]]


def test_only_the_most_frequent_ngrams_are_kept():
    ngrams = CharNgrams((1, 1), max_features=1).fit(["x x x y"])  # the blank at the edges of words
    assert ngrams.score(["q"], ["y"]).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CharNgrams((3, 2)), ParameterError, r"ngram_range=\(3, 2\)"),
        (lambda: CharNgrams((0, 2)), ParameterError, r"ngram_range=\(0, 2\)"),
        (lambda: CharNgrams(max_features=0), ParameterError, "max_features=0"),
        (lambda: CharNgrams().fit([]), TextError, "train_texts"),
        (lambda: CharNgrams().fit([" ", "\n"]), TextError, "train_texts"),
        (lambda: CharNgrams().score(["a"], ["b"]), ParameterError, r"call fit\(train_texts\) first"),
        (lambda: CharNgrams().fit(TRAIN).score([], ["b"]), TextError, "query_texts: is empty"),
        (lambda: CharNgrams().fit(TRAIN).score(["a"], []), TextError, "key_texts: is empty"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
