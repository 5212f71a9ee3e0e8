"""Entropy of the tokens of one text, or of the pooled vectors of a corpus, as a share of the greatest possible."""

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from readout.errors import TooFewError
from readout.lenses.entropy import (
    check_alpha,
    eigenvalue_shares,
    entropy_of_shares,
    matrix_entropy,
    max_entropy,
    rank_of_shares,
    small_gram,
)
from readout.lenses.preprocess import (
    as_batch_of_one,
    as_padded,
    as_states,
    center,
    centered,
    scaled,
    unit_rows,
)
from readout.lenses.threads import over_texts
from readout.lenses.values import Absent, PerText, Why, single


@dataclass(frozen=True)
class UnitTokens:
    """Tokens of each text, centred and scaled to length 1, with zeros for padding."""

    rows: Float[Tensor, "text token dim"]
    n_tokens: Int[Tensor, "text"]
    why: Int8[Tensor, "text"]
    """`DEFINED`, or why the text has no such tokens."""

    @cached_property
    def gram(self) -> Float[Tensor, "text side side"]:
        """The smaller Gram matrix of each text; padding adds eigenvalues of 0, so one solve serves all lengths."""
        return small_gram(self.rows)


def unit_tokens(states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]) -> UnitTokens:
    """Centre each text over its real tokens and scale them to length 1; `states` have 0 for padding."""
    rows, norms = centered(states, mask)
    n_tokens = mask.sum(-1)
    undirected = (norms == 0) & mask
    why = torch.zeros_like(n_tokens, dtype=torch.int8)
    why[undirected.any(-1)] = Why.NO_DIRECTION
    why[(undirected == mask).all(-1)] = Why.IDENTICAL
    why[n_tokens == 1] = Why.ONE_TOKEN
    why[n_tokens == 0] = Why.NO_TOKEN
    return UnitTokens(scaled(rows, norms), n_tokens, why)


def token_shares(tokens: UnitTokens) -> Float[Tensor, "text side"]:
    """The spectrum of each text."""
    return eigenvalue_shares(tokens.gram)


def entropy_share(tokens: UnitTokens, shares: Float[Tensor, "text side"], alpha: float) -> PerText:
    """Entropy of each spectrum over the greatest possible value `log min(tokens - 1, dim)`."""
    room = (tokens.n_tokens - 1).clamp(max=tokens.rows.shape[-1])
    why = tokens.why.masked_fill((tokens.why == Why.DEFINED) & (room < 2), Why.NO_ROOM)
    return PerText.masked(entropy_of_shares(shares, alpha) / room.clamp(min=2).double().log(), why)


def prompt_entropy(z: Float[Tensor, "token dim"], alpha: float = 1.0) -> Float[Tensor, ""] | Absent:
    """How evenly the tokens of one text spread over directions: 0 (one direction) to 1 (all alike).

    `S_α(u) / log min(T - 1, D)` with `u` the tokens centred over the text and scaled to length 1
    (arXiv 2502.02013, eq. 1; the bound is the greatest value that centred tokens can reach, where the
    public code divides by `log min(T, D)`). float64. Time O(T D side + side³), side = min(T, D).
    Absent for one token, for two and for one dimension. Raises `TooFewError` for no token,
    `DegenerateError` for identical tokens or one that equals the mean, `NonFiniteError`, `ParameterError`.

    >>> round(float(prompt_entropy(torch.eye(3))), 6)  # an equilateral triangle uses its plane evenly
    1.0
    >>> prompt_entropy(torch.eye(2))
    Absent(reason='two tokens or one dimension: the greatest possible entropy is 0')
    """
    return single(prompt_entropy_per_text(*as_batch_of_one(z), alpha), "z")


def prompt_entropy_per_text(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"], alpha: float = 1.0
) -> PerText:
    """`prompt_entropy` of every text of a padded batch; texts without a value carry the reason.

    Padding may stand anywhere and hold anything. Raises `NonFiniteError`, `ParameterError`.

    >>> list(prompt_entropy_per_text(torch.eye(3)[None], torch.tensor([[True, True, False]])))
    [Absent(reason='two tokens or one dimension: the greatest possible entropy is 0')]
    """
    check_alpha(alpha)
    return PerText.cat(over_texts(partial(_entropies, alpha=alpha), as_padded(states, mask), mask))


def _entropies(states: Tensor, mask: Tensor, alpha: float) -> PerText:
    tokens = unit_tokens(states, mask)
    return entropy_share(tokens, token_shares(tokens), alpha)


def token_rank_per_text(states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]) -> PerText:
    """`effective_rank` of the centred, unit-length tokens of every text of a padded batch, >= 1.

    Absent where `prompt_entropy` is, except for two tokens and one dimension, whose rank is 1.

    >>> list(token_rank_per_text(torch.eye(2)[None], torch.tensor([[True, True]])))
    [1.0]
    """
    return PerText.cat(over_texts(_ranks, as_padded(states, mask), mask))


def _ranks(states: Tensor, mask: Tensor) -> PerText:
    tokens = unit_tokens(states, mask)
    return PerText.masked(rank_of_shares(token_shares(tokens)), tokens.why)


def dataset_entropy(x: Float[Tensor, "text dim"], alpha: float = 1.0) -> Float[Tensor, ""]:
    """How evenly the pooled vectors of a corpus spread over directions: 0 to 1.

    `S_α(u) / log min(N - 1, D)` with `u` the vectors centred over the whole corpus and scaled to length
    1 (arXiv 2502.02013, section on dataset entropy). float64. Raises `TooFewError` for fewer than three
    texts or two dimensions, `DegenerateError` for identical texts or one that equals the mean.

    >>> round(float(dataset_entropy(torch.eye(3))), 6)
    1.0
    """
    check_alpha(alpha)
    n, dim = as_states("x", x, ndim=2).shape
    if n < 3 or dim < 2:
        raise TooFewError(f"x has {n} texts in {dim} dimensions; at least 3 texts in 2 dimensions are needed")
    return matrix_entropy(unit_rows(center(x)), alpha) / max_entropy(n, dim, centered=True)
