from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import TextError, TooFewError
from readout.sources.composition import AMINO_ACIDS, composition

letters = st.text(AMINO_ACIDS, min_size=1, max_size=60)


@settings(deadline=None)
@given(st.lists(letters, min_size=1, max_size=4))
def test_each_row_holds_the_shares_of_the_letters(sequences):
    found = composition(sequences)
    for row, sequence in zip(found, sequences, strict=True):
        shares = {letter: n / len(sequence) for letter, n in Counter(sequence).items()}
        assert row.tolist() == pytest.approx([shares.get(letter, 0.0) for letter in AMINO_ACIDS])


@settings(deadline=None)
@given(letters, st.randoms(), st.integers(1, 9))
def test_order_and_unknown_residues_do_not_count(sequence, random, unknown):
    shuffled = list(sequence + "X" * unknown)
    random.shuffle(shuffled)
    torch.testing.assert_close(composition(["".join(shuffled)]), composition([sequence]))


def test_bad_input_is_named():
    with pytest.raises(TooFewError, match="sequences is empty"):
        composition([])
    with pytest.raises(TextError, match="sequence 1 is 'XX'"):
        composition(["A", "XX"])
