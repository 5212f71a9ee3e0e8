"""Phases on texts that can be read by hand."""

import numpy as np

from readout.tokens.phases import boundaries, end_table, phases, share_table

TOKENS = [[9, 9, 5, 7, 5], [9, 9, 6, 8], [9, 1, 2, 3, 4], [9, 9, 4, 1]]
OWN = [[5], [6, 9], [3], [8]]


def test_labels_by_hand():
    found = phases(TOKENS, OWN)
    # 9 is shared at the first two places; 5, 6 and 3 repeat the item; text 3 of the list goes its own way at once.
    assert found.tolist() == [[0, 0, 1, 2, 1], [0, 0, 1, 2, -1], [0, 2, 2, 1, 2], [0, 0, 2, 2, -1]]


def test_a_token_that_many_items_hold_repeats_none():
    own = [[5, 1], *([[1]] * 29)]
    assert phases([[5, 1], *([[7, 8]] * 29)], own)[0].tolist() == [1, 2]


def test_shares_and_ends():
    found = phases(TOKENS, OWN)
    assert boundaries(found) == {"preamble": 2.0, "repetition": 4.0}
    shares = share_table(found).pivot(index="token", columns="phase", values="value")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares.loc[5, "content"] == 0.5
    assert end_table(found)["n"].tolist() == [4, 4]
