"""The loss of contrastive training: pick the positive among the candidates."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from readout.errors import NonFiniteError, ParameterError, TooFewError


def infonce_loss(
    scores: Float[Tensor, "query key"],
    target: Int[Tensor, " query"],
    temperature: float,
    excluded: Bool[Tensor, "query key"] | None = None,
) -> Float[Tensor, ""]:
    """Mean over queries of -log softmax(scores / temperature) at the target, in nats.

    The denominator holds the target and every candidate that is not `excluded` (van den Oord et al. 2018).

    Raises ParameterError for a temperature that is not above 0 and for a target that is excluded or no candidate,
    TooFewError for a query left with its target alone, NonFiniteError for NaN scores.

    >>> round(infonce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), temperature=1.0).item(), 4)  # log(1 + 1/e)
    0.3133
    """
    if not temperature > 0 or not math.isfinite(temperature):
        raise ParameterError(
            f"temperature: {temperature}; scores are divided by it, so it is finite and above 0"
        )
    logits = scores / temperature
    candidates = torch.ones_like(scores, dtype=torch.bool) if excluded is None else ~excluded
    if not scores.isfinite().all():
        raise NonFiniteError("scores: hold NaN or infinite values; take candidates out by `excluded`")
    if not ((target >= 0) & (target < scores.shape[1])).all():
        raise ParameterError(
            f"target: {target.tolist()}; expected columns of scores, 0..{scores.shape[1] - 1}"
        )
    if not candidates.gather(1, target[:, None]).all():
        raise ParameterError("excluded: takes out the target of a query; it is always a candidate")
    alone = (candidates.sum(dim=1) < 2).nonzero().flatten().tolist()
    if alone:
        raise TooFewError(f"scores: query {alone[0]} has no negative; give a larger batch or hard negatives")
    return cross_entropy(logits.masked_fill(~candidates, float("-inf")), target)
