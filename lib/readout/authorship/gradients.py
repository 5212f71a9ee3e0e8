"""Where gradient goes: which tokens of a pair it reaches under each scorer, and how much of it each layer gets."""

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.authorship.runs import Training
from readout.authorship.vectors import read_vectors
from readout.errors import ParameterError
from readout.lenses.gradients import late_gradients, mean_gradients, patch_gradients, structure
from readout.lenses.intervals import cluster_bootstrap
from readout.scorers import LateInteraction, MeanPooling, PatchLateInteraction, Scorer, Tokens, infonce_loss
from readout.states import ResidualStream
from readout.training import Contrastive

UNITS = {"share of tokens": "share", "effective tokens": "tokens", "rank": "dimensions"}
UNION = "candidate, union"


def pair_gradients(
    scorer: Scorer,
    query: Float[Tensor, "a dim"],
    candidate: Float[Tensor, "b dim"],
    kept: Bool[Tensor, " a"],
) -> tuple[Float[Tensor, "a dim"], Float[Tensor, "b dim"]]:
    """The closed form of the score's gradient by the query's and by the candidate's token vectors.

    kept: the query's tokens off the skip list. Raises ParameterError for a scorer without a closed form here.
    """
    match scorer:
        case MeanPooling():
            return mean_gradients(query, candidate)
        case LateInteraction(reduction="sum", skip_punctuation=skips):
            return late_gradients(query, candidate, kept if skips else None)
        case PatchLateInteraction(n=n, reduction="sum"):
            return patch_gradients(query, candidate, n)
    raise ParameterError(f"scorer: {scorer} has no closed form here; take mean, li, li-all or pli-N")


def gradient_table(
    training: Training,
    name: str,
    step: int,
    pairs: pd.DataFrame,
    max_tokens: int,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[pd.DataFrame, dict[str, list[float]]]:
    """The structure of token gradients over pairs of an anchor and its positive, with means and intervals.

    pairs: columns anchor, positive and anchor_author_set.
    Sides: the query's tokens, the candidate's, and the candidate's under all queries at once ("candidate, union":
    a token counts if any query reaches it). Time grows with pairs squared. Returns the table, and the share of tokens
    of every pair by side.
    """
    encoder, scorer = training.encoder(name, training.plan.seeds[0], step), training.plan.scorer(name)
    texts, n = [*pairs["anchor"], *pairs["positive"]], len(pairs)
    vectors = read_vectors(encoder, training.reader.tokenizer, texts, max_tokens=max_tokens)
    asked = list(zip(vectors.texts[:n], vectors.content[:n], strict=True))
    found: dict[tuple[str, str], list[float]] = {}
    for row, candidate in enumerate(vectors.texts[n:]):
        every = [pair_gradients(scorer, q, candidate, kept) for q, kept in asked]
        union = torch.stack([of_candidate.any(dim=1) for _, of_candidate in every]).any(dim=0)
        for side, gradient in zip(("query", "candidate"), every[row], strict=True):
            for metric, value in zip(UNITS, vars(structure(gradient)).values(), strict=True):
                found.setdefault((side, metric), []).append(float(value))
        found.setdefault((UNION, "share of tokens"), []).append(float(union.double().mean()))
    values = torch.tensor(list(found.values()), dtype=torch.float64).numpy()
    limits = cluster_bootstrap(
        values, list(pairs["anchor_author_set"]), n_resamples=n_resamples, level=level, seed=seed
    )
    table = pd.DataFrame({"side": [s for s, _ in found], "metric": [m for _, m in found], **vars(limits)})
    about = {"readout": name, "step": step, "level": level}
    table = table.assign(unit=table["metric"].map(UNITS), **about)
    return table, {side: values for (side, metric), values in found.items() if metric == "share of tokens"}


def closed_form_error(
    scorer: Scorer, query: Float[Tensor, "a dim"], candidate: Float[Tensor, "b dim"], kept: Bool[Tensor, " a"]
) -> float:
    """How far the closed form is from autograd on the score itself, as a share of the gradient's length."""
    q, k = (x[None].clone().requires_grad_() for x in (query, candidate))
    masks = [torch.ones(x.shape[:2], dtype=torch.bool) for x in (q, k)]
    score = scorer.score(Tokens(q, masks[0], kept[None]), Tokens(k, masks[1], masks[1]))
    expected = torch.autograd.grad(score.sum(), [q, k])
    pairs = zip(pair_gradients(scorer, query, candidate, kept), expected, strict=True)
    return max(float((ours - auto[0]).norm() / auto.double().norm().clamp(min=1e-12)) for ours, auto in pairs)


def layer_norms(objective: Contrastive, step: int) -> Float[Tensor, "site"]:
    """|dL/dh_l|: the length of the loss's gradient at the raw sites 0..L, root mean square over a batch's real tokens.

    One backward pass over the batch of `step`, without dropout; the encoder's own gradients are left empty.
    """
    encoder, batches = objective.encoder.eval(), objective.triplets
    rows = batches.rows(step, objective.batch_size)
    padded = batches.padded([(part, row) for part in range(len(batches.ids)) for row in rows], encoder.device)
    sites: list[Tensor] = []

    def keep(site, states: Tensor) -> None:
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


def layer_table(training: Training, name: str, step: int, n_batches: int = 2) -> pd.DataFrame:
    """The gradient's length at every site relative to its mean over sites, averaged over the first batches."""
    seed = training.plan.seeds[0]
    objective = training.objective(name, seed, training.encoder(name, seed, step))
    norms = torch.stack([layer_norms(objective, batch) for batch in range(n_batches)]).mean(dim=0)
    layers = range(len(norms))
    return pd.DataFrame(
        {
            "layer": layers,
            "depth": [layer / layers[-1] for layer in layers],
            "value": (norms / norms.mean()).numpy(),
            "readout": name,
            "step": step,
            "metric": "gradient norm",
            "unit": "mean over sites",
            "n": n_batches * training.plan.batch_size,
        }
    )
