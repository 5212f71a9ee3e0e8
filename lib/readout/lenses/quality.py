"""Representation quality of every text at every site, gathered while a model reads."""

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import ParameterError
from readout.lenses.curvature import check_no_holes, mean_angle, step_angles
from readout.lenses.entropy import check_alpha, rank_of_shares
from readout.lenses.preprocess import as_padded
from readout.lenses.prompt import UnitTokens, entropy_share, token_shares, unit_tokens
from readout.lenses.published import clamped_share, folded_curvature
from readout.lenses.threads import over_texts
from readout.lenses.values import CONVENTIONS, PerText, Why, check_choice

FIRST_TOKEN = ("kept", "dropped")
UNITS = {
    "prompt_entropy": "share",
    "effective_rank": "dimensions",
    "curvature": "rad",
    "undefined_angles": "angles",
}
Key = tuple[str, str, str]
"""Metric, convention, first token."""


class TokenQuality:
    """Prompt entropy, effective rank and curvature of each text at each site; give it to `read` as a consumer.

    `corrected` holds the formulas of the paper's text, once with all tokens and once without the first
    real one (whose state can be a hundred times longer than the others); `as_published` holds what the
    authors' code computes, on all tokens only. Effective rank is of the centred, unit-length tokens, from the
    same eigenvalues as the entropy. Keeps a few numbers per text and site and no states. For a text of T
    tokens in D dimensions an update takes O(T² D + T³), T <= D.

    >>> quality = TokenQuality(n_texts=1, conventions=("corrected",), first_token=("kept",))
    >>> quality.update("block 1", torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool), torch.tensor([0]))
    >>> quality.result("block 1", "prompt_entropy")[0], quality.result("block 1", "effective_rank")[0]
    (1.0, 2.0)
    """

    def __init__(
        self,
        n_texts: int,
        conventions: Sequence[str] = CONVENTIONS,
        first_token: Sequence[str] = FIRST_TOKEN,
        alpha: float = 1.0,
    ) -> None:
        check_choice("conventions", conventions, CONVENTIONS)
        check_choice("first_token", first_token, FIRST_TOKEN)
        check_alpha(alpha)
        self.n_texts, self.conventions, self.first_token, self.alpha = (
            n_texts,
            conventions,
            first_token,
            alpha,
        )
        self._results: dict[Hashable, dict[Key, PerText]] = {}

    def update(
        self,
        site: Hashable,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, "text"],
    ) -> None:
        """Measure a padded batch at one site; `rows` are the positions of its texts among all.

        Raises `NonFiniteError`, and `ParameterError` for a mask with padding between real tokens.
        """
        check_no_holes(mask)
        parts = over_texts(self._measure, as_padded(states, mask), mask)
        results = self._results.setdefault(site, {})
        for key in parts[0]:
            if key not in results:
                results[key] = _not_read(self.n_texts)
            measured = PerText.cat([part[key] for part in parts])
            results[key].filled[rows.cpu()] = measured.filled.cpu()
            results[key].why[rows.cpu()] = measured.why.cpu()

    def result(
        self, site: Hashable, metric: str, convention: str = "corrected", first_token: str = "kept"
    ) -> PerText:
        """One metric at one site, for every text in the caller's order. Raises `ParameterError`."""
        results = self._results.get(site, {})
        key = (metric, convention, first_token)
        if key not in results:
            raise ParameterError(f"{key} was not measured at {site}; known are {sorted(results)}")
        return results[key]

    def table(self) -> pd.DataFrame:
        """One row per site, text and metric: site, layer, depth, norm, text, metric, unit, convention,
        first_token, value (missing where undefined) and reason (empty where defined).
        """
        frames = [
            _frame(site, key, r) for site, results in self._results.items() for key, r in results.items()
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def _measure(self, states: Tensor, mask: Tensor) -> dict[Key, PerText]:
        """All metrics of a slice of texts."""
        angles = step_angles(states, mask)
        results: dict[Key, PerText] = {}
        for first in self.first_token:
            kept = first == "kept"
            seen = mask if kept else without_first(mask)
            tokens = unit_tokens(states if kept else states.masked_fill(~seen[..., None], 0.0), seen)
            if "corrected" in self.conventions:
                measured = self._corrected(tokens) | _turning(*angles, seen)
                results |= {(metric, "corrected", first): r for metric, r in measured.items()}
            if "as_published" in self.conventions and kept:
                results["prompt_entropy", "as_published", first] = clamped_share(tokens, self.alpha)
                results["curvature", "as_published", first] = folded_curvature(tokens, seen)
        return results

    def _corrected(self, tokens: UnitTokens) -> dict[str, PerText]:
        shares = token_shares(tokens)
        return {
            "prompt_entropy": entropy_share(tokens, shares, self.alpha),
            "effective_rank": PerText.masked(rank_of_shares(shares), tokens.why),
        }


def without_first(mask: Bool[Tensor, "text token"]) -> Bool[Tensor, "text token"]:
    """The mask without the first real token of each text."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return mask & (places != mask.int().argmax(-1, keepdim=True))


def _turning(angles: Tensor, within: Tensor, defined: Tensor, seen: Tensor) -> dict[str, PerText]:
    """Curvature and the count of undefined angles, over the angles that start at a token that is seen."""
    within, defined = within & seen[:, :-2], defined & seen[:, :-2]
    undefined = (within & ~defined).sum(-1)
    why = torch.zeros_like(undefined, dtype=torch.int8).masked_fill(~within.any(-1), Why.FEW_TOKENS)
    return {
        "curvature": mean_angle(angles, within, defined),
        "undefined_angles": PerText.masked(undefined.double(), why),
    }


def _not_read(n_texts: int) -> PerText:
    # A tensor born in inference mode could not be written to outside it.
    with torch.inference_mode(False):
        why = torch.full((n_texts,), Why.NOT_READ, dtype=torch.int8)
        return PerText(torch.zeros(n_texts, dtype=torch.float64), why)


def _frame(site: Any, key: Key, result: PerText) -> pd.DataFrame:
    metric, convention, first = key
    value = pd.arrays.FloatingArray(result.filled.numpy().copy(), (~result.defined).numpy())
    columns = {"site": site.name, "layer": site.layer, "depth": site.depth, "norm": site.norm}
    columns |= {"text": range(len(result)), "metric": metric, "unit": UNITS[metric]}
    columns |= {"convention": convention, "first_token": first, "value": value}
    return pd.DataFrame(columns | {"reason": [Why(code).reason for code in result.why.tolist()]})
