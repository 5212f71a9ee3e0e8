import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.alignment import (
    cka,
    corrected_steps,
    debiased_cka,
    hsic_blocks,
    mixture_cka,
    segment_bounds,
    simplex_grid,
)

from .alignment_oracles import correlated


def thirds(n=30, d=6):
    segments = torch.stack([correlated(n=n, d=d, seed=0, noise=noise)[0] for noise in (0.5, 1.0, 2.0)])
    return segments + 0.3 * torch.randn(
        segments.shape, generator=torch.Generator().manual_seed(9)
    ), correlated(n=n)[1]


@given(n_segments=st.integers(1, 12), extra=st.integers(0, 300))
def test_segments_cover_all_tokens_are_never_empty_and_differ_by_one_at_most(n_segments, extra):
    lengths = np.diff(segment_bounds(n_segments + extra, n_segments))
    assert lengths.sum() == n_segments + extra
    assert lengths.min() >= 1
    assert lengths.max() - lengths.min() <= 2


def test_bounds_are_rounded_thirds():
    assert segment_bounds(128, 3) == [0, 43, 85, 128]  # 42.67 and 85.33
    assert segment_bounds(3, 3) == [0, 1, 2, 3]


@settings(deadline=None, max_examples=30)
@given(n_segments=st.integers(1, 5), parts=st.integers(1, 8))
def test_grid_is_the_whole_simplex_once(n_segments, parts):
    grid = simplex_grid(n_segments, 1 / parts)
    assert len(grid) == math.comb(parts + n_segments - 1, n_segments - 1) == len(grid.unique(dim=0))
    assert (grid >= 0).all()
    torch.testing.assert_close(grid.sum(-1), torch.ones(len(grid), dtype=torch.float64))


@pytest.mark.parametrize("d", [6, 50])
@pytest.mark.parametrize("shift", [0, 30])
def test_blocks_give_the_whole_simplex_of_unprepared_mixtures(d, shift):
    segments, y = thirds(d=d)
    segments = segments + shift
    grid = simplex_grid(3, 0.25)
    want = torch.stack([debiased_cka(torch.einsum("s,std->td", w, segments), y) for w in grid])
    torch.testing.assert_close(hsic_blocks(segments, y).cka(grid), want)
    torch.testing.assert_close(mixture_cka(segments, y, grid, prepare=lambda z: z), want)


def test_prepared_mixture_is_mixed_first_and_prepared_then_whatever_the_chunk(monkeypatch):
    segments, y = thirds()
    grid = simplex_grid(3, 0.5)
    want = torch.stack(
        [
            debiased_cka(corrected_steps(torch.einsum("s,std->td", w, segments)), corrected_steps(y))
            for w in grid
        ]
    )
    for entries in (2**24, 1):
        monkeypatch.setattr(cka, "CHUNK_ENTRIES", entries)
        torch.testing.assert_close(mixture_cka(segments, y, grid, corrected_steps), want)
    assert not torch.allclose(hsic_blocks(segments, y).cka(grid), want, atol=1e-3)
    first = torch.stack([corrected_steps(s) for s in segments])
    assert not torch.allclose(mixture_cka(first, y, grid, corrected_steps), want, atol=1e-3)


def test_bad_input_is_refused():
    segments, y = thirds()
    with pytest.raises(TooFewError, match="n_tokens=2"):
        segment_bounds(2, 3)
    with pytest.raises(ParameterError, match="n_segments=0"):
        segment_bounds(2, 0)
    with pytest.raises(ParameterError, match=r"step=0\.3"):
        simplex_grid(3, 0.3)
    with pytest.raises(ParameterError, match="n_segments=0"):
        simplex_grid(0, 0.5)
    for give in (
        hsic_blocks(segments, y).cka,
        lambda w: mixture_cka.__wrapped__(segments, y, w, corrected_steps),
    ):
        with pytest.raises(ParameterError, match=r"\(6, 2\).*3 columns"):
            give(simplex_grid(2, 0.2))
    opposed = torch.stack([segments[0], -segments[0]])
    with pytest.raises(DegenerateError, match=r"weights\[1\] mixes"):
        hsic_blocks(opposed, y).cka(simplex_grid(2, 0.5))
    with pytest.raises(DegenerateError, match=r"features\[1\]"):
        mixture_cka(opposed, y, simplex_grid(2, 0.5), lambda z: z)
