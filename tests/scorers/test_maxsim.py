"""The MaxSim kernel against holding every similarity, and what it refuses."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from readout.errors import NonFiniteError, ParameterError
from readout.scorers import infonce_loss, scorer_of
from readout.scorers.maxsim import maxsim

from .padded_tokens import pad, texts


def einsum(query, kept, key, mask):
    normal = torch.nn.functional.normalize
    cosines = torch.einsum("qad,kbd->qkab", normal(query, dim=-1), normal(key, dim=-1))
    best = cosines.masked_fill(~mask[None, :, None, :], -torch.inf).amax(dim=3)
    return best.masked_fill(~kept[:, None, :], 0).sum(dim=2)


@pytest.mark.parametrize(("tile", "rows"), [(1, 1), (500, 3), (4000, 1024), (2**26, 1024)])
def test_tiles_change_neither_scores_nor_gradients(monkeypatch, tile, rows):
    monkeypatch.setattr("readout.scorers.maxsim.TILE_BYTES", tile)
    monkeypatch.setattr("readout.scorers.maxsim._TILE_ROWS", rows)
    a, b = pad(texts((5, 9, 3, 7), seed=1)), pad(texts((8, 2, 6, 4, 1), seed=2))
    weight = torch.arange(20.0, dtype=torch.float64).view(4, 5) - 9
    found = []
    for score in (maxsim, einsum):
        query, key = a.states.nan_to_num().requires_grad_(), b.states.nan_to_num().requires_grad_()
        scores = score(query, a.content, key, b.mask)
        (scores * weight).sum().backward()
        found.append((scores, query.grad, key.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_no_tensor_outgrows_the_tile(monkeypatch):
    monkeypatch.setattr("readout.scorers.maxsim.TILE_BYTES", 16_000)
    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            sizes.extend(x.nbytes for x in (out if isinstance(out, tuple) else [out]) if torch.is_tensor(x))
            return out

    a = pad(texts((12,) * 10, dim=4), extra=0)
    with Sizes():
        maxsim(a.states.clone().requires_grad_(), a.mask, a.states, a.mask).sum().backward()
    assert max(sizes) <= 16_000 < 10 * 12 * 10 * 12 * 8


@pytest.mark.parametrize("name", ["mean", "li", "pli-2"])
def test_nan_in_a_real_token_is_refused(name):
    tokens = pad(texts((2, 3)))
    tokens.states[1, 2, 0] = torch.nan
    with pytest.raises(NonFiniteError, match="states: a real token holds NaN"):
        scorer_of(name).score(pad(texts((2,))), tokens)


def test_bad_candidates_are_named():
    scores = torch.zeros(2, 3)
    with pytest.raises(ParameterError, match="excluded: takes out the target"):
        infonce_loss(scores, torch.tensor([0, 2]), 0.5, torch.tensor([[False] * 3, [False, False, True]]))
    for target in ([0, 3], [-100, 0]):
        with pytest.raises(ParameterError, match=r"target: \[.*\]; expected columns of scores, 0..2"):
            infonce_loss(scores, torch.tensor(target), 0.5)
    with pytest.raises(NonFiniteError, match="scores: hold NaN"):
        infonce_loss(scores * torch.nan, torch.tensor([0, 1]), 0.5)
