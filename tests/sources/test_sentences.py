from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from readout.sources.sentences import cuts


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
