"""Every group against sentences counted by hand, and token targets against the features they average to."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readout.errors import ParameterError, TextError
from readout.lenses import stylometry as style

TEXT = 'We saw it; the "old" dog (Rex) barked: why? Nobody knows! NASA — perhaps — may know.'
# Words: We saw it the old dog Rex barked why | Nobody knows | NASA perhaps may know
N_WORDS, N_CHARACTERS = 15, 84


def test_the_lists_hold_no_word_twice_and_only_lower_case():
    for listed, about in ((style.FUNCTION_WORDS, 150), (style.HEDGES, 30), (style.DISCOURSE_MARKERS, 34)):
        assert abs(len(listed) - about) <= 5
        assert len(set(listed)) == len(listed)
        assert all(each == each.lower().strip() and re.fullmatch("[a-z ]+", each) for each in listed)


def test_words_and_sentences():
    assert len(style.words(TEXT)) == N_WORDS
    assert style.words("'Tis 3.5% - of co-op's_ “x”") == ["Tis", "3.5", "of", "co-op's", "x"]
    assert style.sentences('He said "Go." Then?! (So he went.) Dr. Who') == [
        'He said "Go.',
        "Then?!",
        "(So he went.",
        "Dr.",
        "Who",
    ]
    assert style.sentences("A. ... B") == ["A.", "B"]


def test_function_words():
    found = style.function_words(TEXT)
    listed = {"we", "it", "the", "why", "may"}
    assert {word for word, share in found.items() if share} == listed
    assert all(found[word] == 1 / N_WORDS for word in listed)


def test_sentence_length():
    found = style.sentence_length(TEXT)  # 9, 2 and 4 words
    assert found == pytest.approx(
        {"mean": 5.0, "median": 4.0, "std": np.sqrt((16 + 9 + 1) / 3), "min": 2, "max": 9}
    )


def test_punctuation():
    assert len(TEXT) == N_CHARACTERS
    counts = {name: round(each * N_CHARACTERS, 9) for name, each in style.punctuation(TEXT).items()}
    assert counts == {
        "comma": 0,
        "semicolon": 1,
        "colon": 1,
        "full stop": 1,
        "question mark": 1,
        "exclamation mark": 1,
        "em dash": 2,
        "opening bracket": 1,
        "closing bracket": 1,
    }


def test_capitalisation():
    found = style.capitalisation(TEXT + " I")  # We Rex Nobody NASA I; a single letter is not all capitals
    assert found == pytest.approx({"initial": 5 / 16, "all": 1 / 16})


def test_type_token_ratio():
    words = [f"w{i}" for i in range(60)] + ["w0,"] * 60  # 50 of 50, 60 of 100, 60 of 120
    found = style.type_token_ratio(" ".join(words))
    assert found == pytest.approx({"first 50": 1.0, "first 100": 0.6, "all": 0.5})


def test_word_length():
    assert style.word_length('"ab", abcd (abcdef)') == pytest.approx({"mean": 4.0, "std": np.sqrt(8 / 3)})


def test_hedges_and_discourse_markers():
    assert style.hedges(TEXT)["all"] == 2 / N_WORDS
    text = "As a\nresult, it may seem so, maybe. Thus it is. Thusly."
    assert style.hedges(text)["all"] == 3 / 12
    assert style.discourse_markers(text)["all"] == pytest.approx(2 / 3)


def test_citations():
    text = "Lee (2020) and (Lee & Kim, 2020b), [3], [4, 7], [5–9], [x], Kim et al. say (1, 2020)."
    counts = {name: round(each * len(text), 9) for name, each in style.citations(text).items()}
    assert counts == {"author, year": 1, "number": 3, "et al.": 1}


def test_features_of_all_groups_in_one_table():
    table = style.features([TEXT, "A dog."])
    assert list(dict.fromkeys(table.columns.get_level_values("group"))) == list(style.GROUPS)
    assert list(style.UNITS) == list(style.GROUPS)
    assert len(style.GROUPS) == 9
    assert table.columns.is_unique
    assert np.isfinite(table.to_numpy()).all()
    for group, measure in style.GROUPS.items():
        assert table[group].iloc[0].to_dict() == measure(TEXT)
    assert style.features([]).shape == (0, table.shape[1])


@given(st.text(alphabet="ab C.!?,;()—\"'\n3", max_size=60))
def test_any_text_has_finite_features_or_is_refused(text):
    if any(c.isalnum() for c in text):
        values = style.features([text]).to_numpy()
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    else:
        with pytest.raises(TextError):
            style.features([text])


@pytest.mark.parametrize("group", style.GROUPS)
@pytest.mark.parametrize("text", ["", " \n", "... — !"])
def test_a_text_without_a_word_is_refused(group, text):
    with pytest.raises(TextError, match="no word"):
        style.GROUPS[group](text)


def test_token_targets_of_one_token_a_word_average_to_the_features():
    text = "The dog saw the Dog, (and) the bird. ok_then"
    offsets = [match.span() for match in re.finditer(r"\S+", text)]
    values, real = style.token_targets(text, offsets)
    assert real.all()
    assert not values[:, 3].any()
    found = dict(zip(style.TOKEN_TARGETS, values.mean(0), strict=True))
    assert found["word_length"] == pytest.approx(style.word_length(text)["mean"])
    assert found["capital_initial"] == pytest.approx(style.capitalisation(text)["initial"])
    assert found["function_word"] == pytest.approx(sum(style.function_words(text).values()))
    assert found["first_occurrence"] == pytest.approx(style.type_token_ratio(text)["all"])


def test_token_targets_of_pieces():
    text = "Re-do it, Re-do."
    pieces = [(0, 0), (0, 2), (2, 3), (3, 5), (5, 8), (8, 9), (9, 10), (9, 12), (15, 16), (0, 0)]
    values, real = style.token_targets(text, pieces)
    assert real.tolist() == [False, True, True, True, True, True, False, True, True, False]
    assert values.astype(int).tolist() == [
        [0, 0, 0, 0, 0],
        [5, 1, 0, 0, 1],
        [5, 1, 0, 1, 1],  # a hyphen inside a word is of the word, and punctuation
        [5, 1, 0, 0, 1],
        [2, 0, 1, 0, 1],  # " it", as byte-level tokenizers count the space in
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [5, 1, 0, 0, 0],  # the second time
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
    ]


def test_token_targets_refuse_offsets_of_another_text():
    with pytest.raises(ParameterError, match=r"\(3, 9\) lies outside the 5 characters"):
        style.token_targets("short", [(0, 3), (3, 9)])
    with pytest.raises(TextError, match="no word"):
        style.token_targets("", [(0, 0)])
