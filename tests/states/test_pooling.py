import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from readout.errors import ParameterError, TextError
from readout.states import KeepTokens, Pool, Site, first_token, last_token, masked_mean

ORACLES = {
    masked_mean: lambda text: sum(token.double() for token in text) / len(text),
    first_token: lambda text: text[0],
    last_token: lambda text: text[-1],
}
lengths_of_texts = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def padded(texts, side, extra):
    """Padding holds NaN, so that reading any of it shows."""
    width = max(map(len, texts)) + extra
    states = torch.full((len(texts), width, texts[0].shape[1]), torch.nan)
    mask = torch.zeros(len(texts), width, dtype=torch.bool)
    for row, text in enumerate(texts):
        start = {"right": 0, "left": width - len(text), "both": (width - len(text)) // 2}[side]
        states[row, start : start + len(text)], mask[row, start : start + len(text)] = text, True
    return states, mask


def random_texts(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, 3, generator=generator) for length in lengths]


@pytest.mark.parametrize("pooling", ORACLES)
@given(lengths=lengths_of_texts, side=st.sampled_from(["left", "right", "both"]), extra=st.integers(0, 3))
def test_pooling_sees_real_tokens_only(pooling, lengths, side, extra):
    texts = random_texts(lengths)
    expected = torch.stack([ORACLES[pooling](text) for text in texts])
    assert_close(pooling(*padded(texts, side, extra)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pooling", ORACLES)
def test_a_text_of_padding_alone_is_refused(pooling):
    mask = torch.tensor([[True, False], [False, False]])
    with pytest.raises(TextError, match="row 1 has no real token"):
        pooling(torch.ones(2, 2, 3), mask)


def test_the_mean_of_half_precision_states_is_not_rounded_to_half():
    states = torch.tensor([[[1.0], [1.0], [1.0078125]]]).bfloat16()
    mean = masked_mean(states, torch.ones(1, 3, dtype=torch.bool))
    assert_close(mean, torch.tensor([[3.0078125 / 3]]).double(), rtol=1e-7, atol=0)


def feed(consumer, texts, batches, sites):
    for rows in batches:
        states, mask = padded([texts[row] for row in rows], "right", 1)
        for site in sites:
            consumer.update(site, states * (site.layer + 1), mask, torch.tensor(rows))


def test_pool_returns_the_caller_s_order():
    texts = random_texts((2, 5, 1, 3))
    pool, sites = Pool(masked_mean, n_texts=4), [Site(0, 1), Site(1, 1), Site(1, 1, "final")]
    feed(pool, texts, [(1, 3), (0, 2)], sites)
    means = torch.stack([text.mean(dim=0) for text in texts])
    assert pool.sites() == sites[:2]
    assert_close(pool.states(), torch.stack([means, 2 * means]))
    assert_close(pool.states("final"), 2 * means[None])


def test_keep_tokens_returns_what_went_in():
    texts = random_texts((2, 5, 1, 3))
    keep = KeepTokens(n_texts=4)
    feed(keep, texts, [(1, 3), (0, 2)], [Site(1, 2)])
    for kept, text in zip(keep.states(Site(1, 2)), texts, strict=True):
        assert_close(kept, 2 * text, rtol=0, atol=0)


def test_what_was_not_read_is_named():
    texts = random_texts((2, 5))
    pool, keep = Pool(masked_mean, n_texts=3), KeepTokens(n_texts=3)
    for consumer in (pool, keep):
        feed(consumer, texts, [(0, 1)], [Site(0, 2)])
    with pytest.raises(TextError, match=r"text 2 was not read \(1 of 3 missing\)"):
        pool.states()
    with pytest.raises(TextError, match="text 2 was not read"):
        keep.states(Site(0, 2))
    with pytest.raises(ParameterError, match="norm: nothing was read under 'final'"):
        pool.states("final")
    with pytest.raises(ParameterError, match=r"site: block 1 was not read; read were \['embedding'\]"):
        keep.states(Site(1, 2))
