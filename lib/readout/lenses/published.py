"""The metrics as the public code of "Layer by Layer" computes them, where that differs from the paper.

Named apart from the corrected ones beside them, to show what the published numbers rest on. All take
raw states and do the code's own normalising: subtract the mean over rows, scale rows to length 1.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.curvature import check_no_holes, step_angles
from readout.lenses.dime import check_pair, difference_of_entropies, random_orders
from readout.lenses.entropy import check_alpha, entropy_of_shares, matrix_entropy
from readout.lenses.infonce import infonce
from readout.lenses.lidar import check_views, in_their_span, whitened
from readout.lenses.preprocess import as_batch_of_one, as_padded, as_states, center, unit_rows
from readout.lenses.prompt import UnitTokens, unit_tokens
from readout.lenses.threads import over_texts
from readout.lenses.values import Absent, PerText, Why, single


def prompt_entropy_as_published(
    z: Float[Tensor, "token dim"], alpha: float = 1.0
) -> Float[Tensor, ""] | Absent:
    """`prompt_entropy` with negative *entries* of the Gram matrix set to 0, over `log min(T, D)`.

    The matrix is T x T if T <= D and D x D otherwise (clamping makes the two differ); the eigenvalues
    below 0 that clamping causes are dropped and the rest rescaled. Mostly higher than the corrected one.
    Absent for one token (the code divides by log 1) and one dimension. Raises as `prompt_entropy`.

    >>> float(prompt_entropy_as_published(torch.eye(2)))  # clamping turns ±u into two directions
    1.0
    """
    return single(prompt_entropy_as_published_per_text(*as_batch_of_one(z), alpha), "z")


def prompt_entropy_as_published_per_text(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"], alpha: float = 1.0
) -> PerText:
    """`prompt_entropy_as_published` of every text of a padded batch."""
    check_alpha(alpha)
    parts = over_texts(lambda z, m: clamped_share(unit_tokens(z, m), alpha), as_padded(states, mask), mask)
    return PerText.cat(parts)


def clamped_share(tokens: UnitTokens, alpha: float) -> PerText:
    """Clamped entropy of each text over `log min(tokens, dim)`."""
    bound = tokens.n_tokens.clamp(max=tokens.rows.shape[-1])
    why = tokens.why.masked_fill((tokens.why == Why.DEFINED) & (bound < 2), Why.NO_ROOM)
    return PerText.masked(_clamped_entropies(tokens, alpha) / bound.clamp(min=2).double().log(), why)


def _clamped_entropies(tokens: UnitTokens, alpha: float) -> Float[Tensor, "text"]:
    """The side is chosen by a text's real tokens, for after clamping the two sides differ."""
    rows = tokens.rows
    if rows.shape[1] <= rows.shape[2]:
        return clamped_entropy(tokens.gram, alpha)
    entropy = rows.new_zeros(len(rows))
    tall = tokens.n_tokens > rows.shape[2]
    for side, product in ((~tall, lambda u: u @ u.mT), (tall, lambda u: u.mT @ u)):
        if side.any():
            entropy[side] = clamped_entropy(product(rows[side]), alpha)
    return entropy


def clamped_entropy(gram: Float[Tensor, "*batch side side"], alpha: float) -> Float[Tensor, "*batch"]:
    """Entropy of a Gram matrix after its negative entries, then its negative eigenvalues, are set to 0."""
    values = torch.linalg.eigvalsh(gram.clamp(min=0.0)).clamp(min=0.0)
    total = values.sum(-1, keepdim=True)
    return entropy_of_shares(values / total.masked_fill(total == 0, 1.0), alpha)


def frobenius_entropy_as_published(gram: Float[Tensor, "side side"]) -> Float[Tensor, ""]:
    """The entropy library's shortcut for α = 2, `-log(‖K‖² / side²)`, in nats.

    Differs from `-log(‖K‖² / tr² K)` in assuming a diagonal of ones; wrong for D x D matrices and for
    rows of other lengths.

    >>> round(float(frobenius_entropy_as_published(torch.eye(2))), 4)  # log 2, as it should
    0.6931
    >>> round(float(frobenius_entropy_as_published(torch.eye(2) / 2)), 4)  # log 8
    2.0794
    """
    return -(as_states("gram", gram, ndim=2).square().sum() / len(gram) ** 2).log()


def curvature_rad_as_published(z: Float[Tensor, "token dim"]) -> Float[Tensor, ""] | Absent:
    """`curvature_rad` folded into [0, π/2], on centred tokens of length 1, with gaps counted as 0.

    The code takes the absolute value of the cosine, so that unordered states give π/3 and not 2π/3;
    an angle beside a step of length 0 counts as 0, and so does a text of fewer than three tokens.
    Raises `DegenerateError` for identical tokens or one that equals the mean, `TooFewError` for none.

    >>> turn = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 0.1]])  # nearly back to the start
    >>> float(curvature_rad_as_published(turn)) < 1.5708
    True
    """
    return single(curvature_rad_as_published_per_text(*as_batch_of_one(z)), "z")


def curvature_rad_as_published_per_text(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> PerText:
    """`curvature_rad_as_published` of every text of a batch padded left or right."""
    check_no_holes(mask)
    parts = over_texts(lambda z, m: folded_curvature(unit_tokens(z, m), m), as_padded(states, mask), mask)
    return PerText.cat(parts)


def folded_curvature(tokens: UnitTokens, mask: Bool[Tensor, "text token"]) -> PerText:
    """Mean over all angles of centred unit tokens, obtuse ones folded back, undefined ones as 0."""
    angles, within, defined = step_angles(tokens.rows, mask)
    folded = torch.minimum(angles, math.pi - angles) * defined
    why = tokens.why.masked_fill(tokens.why == Why.ONE_TOKEN, Why.DEFINED)
    return PerText.masked(folded.sum(-1) / within.sum(-1).clamp(min=1), why)


def unit_rows_in_batches(x: Float[Tensor, "text dim"], batch_size: int) -> Float[Tensor, "text dim"]:
    """Centre and scale pooled vectors inside each batch instead of over the corpus.

    With a batch size of 2, the code's own, the two rows of every batch come out as ±u. Raises
    `TooFewError` if the last batch has one text (NaN in the code), `DegenerateError`, `ParameterError`.

    >>> unit_rows_in_batches(torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 5.0], [5.0, 4.0]]), 2)
    tensor([[-1.,  0.],
            [ 1.,  0.],
            [ 0.,  1.],
            [ 0., -1.]], dtype=torch.float64)
    """
    if batch_size < 2:
        raise ParameterError(f"batch_size={batch_size} is out of range; at least 2 is needed")
    if len(x) < 2 or len(x) % batch_size == 1:
        raise TooFewError(f"x has {len(x)} texts; batches of {batch_size} must not leave one alone")
    whole = len(x) // batch_size * batch_size
    parts = [x[:whole].unflatten(0, (-1, batch_size))] + ([x[whole:][None]] if whole < len(x) else [])
    return torch.cat([unit_rows(center(part)).flatten(0, 1) for part in parts if len(part)])


def dataset_entropy_as_published(
    x: Float[Tensor, "text dim"], batch_size: int = 2, alpha: float = 1.0
) -> Float[Tensor, ""]:
    """`dataset_entropy` normalised inside batches, with negative entries clamped, over `log min(N, D)`."""
    check_alpha(alpha)
    n, dim = as_states("x", x, ndim=2).shape
    if min(n, dim) < 2:
        raise TooFewError(f"x has {n} texts in {dim} dimensions; at least 2 texts in 2 dimensions are needed")
    u = unit_rows_in_batches(x, batch_size)
    return clamped_entropy(u.T @ u if n > dim else u @ u.T, alpha) / math.log(min(n, dim))


def infonce_as_published(
    a: Float[Tensor, "text dim"], b: Float[Tensor, "text dim"], batch_size: int = 2, temperature: float = 0.1
) -> Float[Tensor, ""]:
    """`infonce` of raw views that are normalised inside batches, each view by itself; in nats.

    The code's bound on the mutual information is `1 - loss / log N`, not `log N - loss`.
    """
    return infonce(unit_rows_in_batches(a, batch_size), unit_rows_in_batches(b, batch_size), temperature)


def dime_as_published(
    a: Float[Tensor, "text dim"],
    b: Float[Tensor, "text dim"],
    *,
    generator: torch.Generator,
    batch_size: int = 2,
    n_permutations: int = 10,
) -> Float[Tensor, ""]:
    """`dime` on views normalised inside batches, and on D x D covariances if N > D; in nats.

    Elementwise products and permutations of covariances pair features, not texts: that branch does not
    measure what DiME does.
    """
    check_pair(a, b, n_permutations)
    a, b = unit_rows_in_batches(a, batch_size), unit_rows_in_batches(b, batch_size)
    tall = a.shape[0] > a.shape[1]
    gram_a, gram_b = (u.T @ u if tall else u @ u.T for u in (a, b))
    shuffled = [gram_b[order][:, order] for order in random_orders(len(gram_b), n_permutations, generator)]
    return difference_of_entropies(gram_a, gram_b, shuffled, 1.0)


def lidar_as_published(
    views: Float[Tensor, "text view dim"], batch_size: int = 2, delta: float = 1e-4
) -> Float[Tensor, ""]:
    """`lidar` of views normalised inside batches, scatters summed in float32, over `log min(n, D)`.

    The code adds up float64 outer products in float32, one by one; here they are summed in another
    order, so that the last float32 digits may differ from the code's.
    """
    check_views(as_states("views", views, ndim=3), delta)
    n, q, dim = views.shape
    units = in_their_span(
        torch.stack([unit_rows_in_batches(views[:, j], batch_size) for j in range(q)], dim=1)
    )
    means = units.mean(1)
    between = (means - means.mean(0)).float()
    within = (units - means[:, None]).flatten(0, 1).float()
    scatter = within.T @ within / (n * q) + delta * torch.eye(within.shape[1], device=views.device)
    return matrix_entropy(whitened(between, scatter)) / math.log(min(n, dim))
