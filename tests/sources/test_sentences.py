from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from readout.sources.sentences import cuts, sentences


@given(
    st.lists(
        st.sampled_from(["One", "two", "Three.", "four.", "Mr.", "U.S.", '"Six', "seven?”"]), max_size=60
    ),
    st.integers(1, 9),
)
def test_cuts_start_sentences_never_overlap_and_never_run_out(words, length):
    starts = list(cuts(words, length))
    assert all(b - a >= length for a, b in pairwise(starts))
    assert all(at + length <= len(words) for at in starts)
    for at in starts:
        assert words[at].lstrip('"')[0].isupper()
        assert at == 0 or words[at - 1] in ("Three.", "four.", "seven?”")


@given(
    st.lists(
        st.sampled_from(["One", "two", "Three.", "four.", "Mr.", "U.S.", '"Six', "seven?”", "—"]), max_size=60
    )
)
def test_sentences_hold_every_word_and_end_where_a_mark_meets_a_capital(words):
    found = [text.split() for text in sentences(" ".join(words))]
    assert [word for text in found for word in text] == words
    for before, after in pairwise(found):
        assert _is_boundary(before[-1], after[0])
    assert not any(_is_boundary(*pair) for text in found for pair in pairwise(text))


def _is_boundary(before: str, after: str) -> bool:
    return before in ("Three.", "four.", "seven?”") and after.lstrip('"')[0].isupper()
