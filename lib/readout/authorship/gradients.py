"""Where gradient goes: which tokens of a pair it reaches, and how much of it each layer gets."""

import torch
from jaxtyping import Float
from torch import Tensor

from readout.scorers import Tokens, infonce_loss
from readout.states import ResidualStream
from readout.training import Contrastive


def layer_norms(objective: Contrastive, step: int) -> Float[Tensor, "site"]:
    """The length of the loss's gradient at every site, root mean square over the real tokens of a batch.

    |dL/dh_l| at the raw sites 0..L, from one backward pass; the batch is that of `step`, dropout is off.
    """
    encoder = objective.encoder.eval()
    batches = objective.triplets
    rows = batches.rows(step, objective.batch_size)
    padded = batches.padded([(part, row) for part in range(len(batches.ids)) for row in rows])
    sites: list[Tensor] = []

    def keep(site, states: Tensor) -> None:
        if not states.requires_grad:  # the embedding of a frozen table
            states.requires_grad_()
        states.retain_grad()
        sites.append(states)

    with ResidualStream(encoder.backbone).watch(keep):
        states = encoder(padded.input_ids, padded.mask)
    vectors = Tokens(states, padded.mask, padded.content)
    scores = objective.scorer.score(vectors[: len(rows)], vectors[len(rows) :])
    target, excluded = objective.targets(rows, rows)
    infonce_loss(scores, target, objective.temperature, excluded).backward()
    squares = [site.grad[padded.mask].double().square().sum(dim=-1).mean() for site in sites]
    encoder.zero_grad()
    return torch.stack(squares).sqrt()
