import math
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import (
    Absent,
    dataset_entropy,
    effective_rank,
    prompt_entropy,
    prompt_entropy_per_text,
    token_rank_per_text,
)
from readout.lenses.preprocess import as_padded
from readout.lenses.threads import SMALL, over_texts, spread

from . import lens_oracles as oracle
from .padded import pad, texts


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, math.inf])
@pytest.mark.parametrize(("n", "dim"), [(5, 12), (12, 5), (3, 3)])
def test_prompt_entropy_equals_the_oracle(n, dim, alpha):
    z = texts(0, [n], dim)[0]
    assert float(prompt_entropy(z, alpha)) == pytest.approx(
        oracle.prompt_entropy(z.double().numpy(), alpha), abs=1e-12
    )


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(3, 9), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
)
def test_a_padded_batch_equals_one_text_at_a_time(seed, lengths, side):
    items = texts(seed, lengths)
    got = prompt_entropy_per_text(*pad(items, side, length=11))
    assert list(got) == pytest.approx([float(prompt_entropy(z)) for z in items], abs=1e-11)
    ranks = token_rank_per_text(*pad(items, side))
    want = [float(effective_rank(torch.from_numpy(oracle.normalize(z.double().numpy())))) for z in items]
    assert list(ranks) == pytest.approx(want, abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 9), st.floats(0.01, 100))
def test_shift_scale_rotation_and_order_change_nothing(seed, n, scale):
    z = texts(seed, [n])[0].double()
    q, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    moved = scale * z.flip(0) @ q + 3.0
    value = float(prompt_entropy(z))
    assert 0 <= value <= 1 + 1e-12
    assert float(prompt_entropy(moved)) == pytest.approx(value, abs=1e-9)


def test_the_greatest_value_is_reached():
    assert float(prompt_entropy(torch.eye(9))) == pytest.approx(1.0)  # a simplex, T <= D
    cross = torch.cat([torch.eye(4), -torch.eye(4)])  # T > D
    assert float(prompt_entropy(cross)) == pytest.approx(1.0)


def test_texts_without_a_value_say_why_and_leave_the_others_alone():
    usual = texts(0, [5])[0]
    middle = torch.tensor([[0.0], [2.0], [1.0]]) * torch.arange(1.0, 7.0)
    batch = [usual, usual[:1], usual[:2], usual[:1].repeat(4, 1), middle]
    states, mask = pad(batch, "right", length=5)
    mask = torch.cat([mask, torch.zeros(1, 5, dtype=torch.bool)])
    states = torch.cat([states, torch.full((1, 5, 6), torch.nan)])
    got = list(prompt_entropy_per_text(states, mask))
    assert got[0] == pytest.approx(float(prompt_entropy(usual)))
    reasons = [value.reason for value in got[1:]]
    for reason, word in zip(
        reasons, ["one token", "two tokens", "identical", "no direction", "no token"], strict=True
    ):
        assert word in reason
    ranks = token_rank_per_text(states, mask)
    assert ranks[2] == pytest.approx(1.0)
    assert len(ranks.values) == 2
    assert ranks.values.isfinite().all()


def test_bad_single_texts():
    assert isinstance(prompt_entropy(torch.ones(1, 3)), Absent)
    assert isinstance(prompt_entropy(torch.tensor([[1.0], [2.0], [4.0]])), Absent)
    with pytest.raises(DegenerateError, match="identical"):
        prompt_entropy(torch.ones(5, 3))
    with pytest.raises(TooFewError):
        prompt_entropy(torch.ones(0, 3))
    with pytest.raises(NonFiniteError):
        prompt_entropy(torch.full((5, 3), torch.nan))
    with pytest.raises(ParameterError, match="alpha"):
        prompt_entropy(torch.eye(4), alpha=0.0)
    with pytest.raises(ParameterError, match=r"mask is torch\.int64"):
        as_padded.__wrapped__(torch.ones(1, 3, 2), torch.ones(1, 3, dtype=torch.int64))


def test_an_empty_batch_is_an_empty_result():
    assert len(prompt_entropy_per_text(torch.ones(0, 4, 3), torch.ones(0, 4, dtype=torch.bool))) == 0


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_keep_the_order_and_the_setting_even_when_a_slice_fails():
    z, mask = torch.arange(7.0)[:, None, None], torch.ones(7, 1, dtype=torch.bool)
    assert torch.cat(over_texts(lambda s, m: s, z, mask)).flatten().tolist() == list(range(7))
    with pytest.raises(ZeroDivisionError):
        over_texts(lambda s, m: 1 / 0, z, mask)
    assert torch.get_num_threads() == 2
    for size in (1, SMALL):
        nested = spread(lambda n, size=size: spread(lambda m: n * m, range(2), size), range(3), size)
        assert nested == [[0, 0], [0, 1], [0, 2]]
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_large_items_have_a_thread_each_and_small_ones_none():
    here = threading.get_ident()
    assert set(spread(lambda n: threading.get_ident(), range(4), SMALL - 1)) == {here}
    assert here not in spread(lambda n: threading.get_ident(), range(4), SMALL)


def test_dataset_entropy_equals_the_oracle_in_both_shapes():
    for n, dim in ((8, 20), (20, 8)):
        x = texts(n, [n], dim)[0]
        assert float(dataset_entropy(x)) == pytest.approx(
            oracle.prompt_entropy(x.double().numpy()), abs=1e-12
        )


def test_dataset_entropy_refuses_what_has_none():
    with pytest.raises(TooFewError, match="x has 2 texts"):
        dataset_entropy(torch.eye(2))
    with pytest.raises(DegenerateError):
        dataset_entropy(torch.ones(5, 3))
    duplicated = torch.eye(3).repeat(2, 1)
    assert float(dataset_entropy(duplicated)) == pytest.approx(math.log(2) / math.log(3))
