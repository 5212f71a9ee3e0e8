"""Poolings of generated tokens against loops over texts of different lengths."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from readout.errors import ParameterError, TextError, TooFewError
from readout.tokens.pools import (
    elementwise_max,
    masked_mean,
    running_mean,
    running_mean_as_published,
    segment_means,
)

LENGTHS = [7, 3, 5]
STATES = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0))
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
# What stands behind the end must not matter.
STATES[~MASK] = 99.0


def texts():
    return [states[:length].double() for states, length in zip(STATES, LENGTHS, strict=True)]


def test_running_means_against_a_loop():
    got = running_mean(STATES, MASK)
    published = running_mean_as_published(STATES, MASK)
    for row, text in enumerate(texts()):
        for t in range(7):
            assert_close(got[t, row], text[: t + 1].mean(dim=0))
            filled = torch.cat([text, text[-1:].expand(7 - len(text), -1)])
            assert_close(published[t, row], filled[: t + 1].mean(dim=0))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_segments_are_cut_at_rounded_shares_of_each_text(k):
    got = segment_means(STATES, MASK, k)
    for row, text in enumerate(texts()):
        bounds = [round(len(text) * j / k) for j in range(k + 1)]
        for part, (a, b) in enumerate(pairwise(bounds)):
            assert_close(got[part, row], text[a:b].mean(dim=0))


def test_maximum_passes_over_padding():
    assert_close(elementwise_max(STATES, MASK)[1].double(), texts()[1].amax(dim=0))


def test_bad_input_is_named():
    with pytest.raises(TooFewError, match="3 tokens, too few for 4 parts"):
        segment_means(STATES, MASK, 4)
    with pytest.raises(ParameterError, match="k=0"):
        segment_means(STATES, MASK, 0)
    with pytest.raises(TextError, match="row 1 has no real token"):
        masked_mean(STATES, MASK & torch.tensor([True, False, True])[:, None])
