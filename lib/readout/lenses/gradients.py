"""Which tokens of a pair of texts a score sends gradient to, and how much: closed forms, and what to count in them.

For u^ = u / |u| and P_u v = (v - u^ (u^ . v)) / |u|, the derivative of a cosine cos(u, v) by u is P_u v^. Each function
takes the token vectors of one query and one candidate and returns d score / d query tokens and d score / d candidate
tokens, in float64. Source: derived from the scores of arXiv 2605.19908; tested against autograd.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import DegenerateError, ParameterError

Query = Float[Tensor, "a dim"]
Candidate = Float[Tensor, "b dim"]

RANK_TOLERANCE = 1e-6
"""Singular values below this share of the largest count as zero: float32 states carry no more."""


def mean_gradients(query: Query, candidate: Candidate) -> tuple[Query, Candidate]:
    """Mean pooling: d s / d k_t = (1 / S) P_k- q-^, the same for every token t: dense, of rank 1.

    >>> q, k = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> mean_gradients(q, k)[1].tolist()
    [[0.5, 0.0], [0.5, 0.0]]
    """
    return patch_gradients(query, candidate, max(len(query), len(candidate)))


def late_gradients(
    query: Query, candidate: Candidate, kept: Bool[Tensor, " a"] | None = None
) -> tuple[Query, Candidate]:
    """Late interaction: d s / d k_j = P_k_j sum of q_i^ over kept tokens i that chose j; zero for tokens nobody chose.

    d s / d q_i = P_q_i k^_j*(i), zero for tokens that are not kept (the skip list). Of equal matches the first is
    chosen.

    >>> q, k = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.0]])
    >>> late_gradients(q, k)[1].round(decimals=3).tolist()
    [[0.128, -0.096], [0.0, 0.0]]
    """
    _check(query, candidate)
    query, candidate = query.double(), candidate.double()
    kept = torch.ones(len(query), dtype=torch.bool) if kept is None else kept
    q, k = _unit(query), _unit(candidate)
    choice = (q @ k.T).argmax(dim=1)
    chosen = torch.zeros_like(candidate).index_add(0, choice[kept], q[kept])
    return _project(query, k[choice]) * kept[:, None], _project(candidate, chosen)


def patch_gradients(query: Query, candidate: Candidate, n: int) -> tuple[Query, Candidate]:
    """Patches of n: late interaction's gradient by the patch's mean, over the number of tokens in that patch.

    Constant inside a patch, zero in patches that nobody chose. n = 1 is late interaction without skip list, n at least
    both lengths is mean pooling.

    Raises ParameterError for n below 1.
    """
    if n < 1:
        raise ParameterError(f"n: patches of {n} tokens; expected at least 1")
    _check(query, candidate)
    (a, of_a), (b, of_b) = (_patches(tokens.double(), n) for tokens in (query, candidate))
    by_a, by_b = late_gradients(a, b)
    return (by_a / of_a.bincount()[:, None])[of_a], (by_b / of_b.bincount()[:, None])[of_b]


@dataclass(frozen=True)
class Structure:
    """How a gradient lies over the tokens of one text.

    share: of its tokens with any gradient. effective: (sum of |g_t|)^2 / sum of |g_t|^2, the number of tokens that
    would share it equally. rank: directions it takes, as singular values above 1e-6 of the largest.
    """

    share: float
    effective: float
    rank: int


def structure(gradient: Float[Tensor, "token dim"]) -> Structure:
    """The structure of a token gradient; one that is zero everywhere has share, effective number and rank 0.

    >>> structure(torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    Structure(share=0.5, effective=2.0, rank=1)
    """
    gradient = gradient.double()
    length = torch.linalg.vector_norm(gradient, dim=1)
    if not length.any():
        return Structure(0.0, 0.0, 0)
    singular = torch.linalg.svdvals(gradient)
    return Structure(
        share=float((length > 0).double().mean()),
        effective=float(length.sum() ** 2 / length.square().sum()),
        rank=int((singular > RANK_TOLERANCE * singular[0]).sum()),
    )


def _unit(vectors: Float[Tensor, "token dim"]) -> Float[Tensor, "token dim"]:
    return vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)


def _project(at: Float[Tensor, "token dim"], onto: Float[Tensor, "token dim"]) -> Float[Tensor, "token dim"]:
    length = torch.linalg.vector_norm(at, dim=1, keepdim=True)
    along = at / length
    return (onto - along * (along * onto).sum(dim=1, keepdim=True)) / length


def _patches(tokens: Float[Tensor, "token dim"], n: int) -> tuple[Float[Tensor, "patch dim"], Tensor]:
    """The mean of each patch, and the patch of each token."""
    of = torch.arange(len(tokens)) // n
    sums = torch.zeros(int(of[-1]) + 1, tokens.shape[1], dtype=tokens.dtype).index_add(0, of, tokens)
    return sums / of.bincount()[:, None], of


def _check(query: Query, candidate: Candidate) -> None:
    for name, tokens in (("query", query), ("candidate", candidate)):
        zero = (~tokens.any(dim=1)).nonzero().flatten().tolist()
        if zero or not len(tokens):
            raise DegenerateError(
                f"{name}: {f'token {zero[0]} is' if zero else 'has no token or'} a zero vector"
            )
