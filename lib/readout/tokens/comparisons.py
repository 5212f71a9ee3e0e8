"""Two read-outs on the same texts: the estimates behind the claims on generated tokens."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from readout.errors import DegenerateError, TooFewError
from readout.lenses.alignment import (
    biased_cka,
    cka_difference,
    cka_interval,
    corrected_steps,
    debiased_cka,
    fit_averaging_null,
    half_sample_interval,
    published_steps,
)
from readout.sources.captions import captions, shortened
from readout.states import Site
from readout.tokens.controls import Means
from readout.tokens.depth import best_layer, mean_over_layers
from readout.tokens.domains import Domain
from readout.tokens.measures import Answers, parts_of_seeds, row_of, single_tokens
from readout.tokens.phases import PHASES
from readout.tokens.pools import segment_means
from readout.tokens.runs import CONTROLS, RECALL, Study


def difference(answers: Answers, first: Tensor, second: Tensor, **resampling) -> dict[str, float]:
    """CKA of one set of features with the target less that of another."""
    found = cka_difference(corrected_steps(first), corrected_steps(second), answers.aim, **resampling)
    return {name: getattr(found, name) for name in ("value", "low", "high", "level", "n")}


def against_held_out_token(answers: Answers, *, seed: int, **resampling) -> dict[str, float] | None:
    """The mean less the single token that is best on one half of the texts, both on the other half.

    None for fewer than 16 texts, whose half has no half.
    """
    rows = answers.mask[:, : answers.complete].all(dim=1).nonzero()[:, 0].numpy()
    if len(rows) < 16:
        return None
    order = np.random.default_rng(seed).permutation(rows)
    chosen, scored = (answers.take(half) for half in (order[: len(order) // 2], order[len(order) // 2 :]))
    token = int(np.nanargmax(single_tokens(chosen)[: answers.complete]))
    second = scored.tokens[:, token].double()
    return difference(scored, scored.pooled["generated mean"], second, seed=seed, **resampling)


def wordings(study: Study, few: Domain, words: int) -> dict[str, tuple[Domain, Answers]]:
    """The same captioned images under a short, a middle and a long wording, each with its answers."""
    plan, seed = study.plan, study.plan.seeds[0]
    found = {"short": few}
    if plan.captions == "openmoji":
        long = captions(len(few), corpus=plan.captions, wording="long")
        for name, pairs in (("middle", shortened(long, words)), ("long", long)):
            texts = dict(zip(pairs["id"][:], pairs["text"][:], strict=True))
            found[name] = few.worded(name, [texts[id] for id in few.ids])
    target = next(iter(few.targets))
    return {
        name: (one, study.answers(one, study.written(one, seed=seed), target)) for name, one in found.items()
    }


def length_table(worded: Mapping[str, tuple[Domain, Answers]], **resampling) -> pd.DataFrame:
    """CKA of generation and prompt under each wording, and their difference."""
    rows = []
    for wording, (domain, one) in worded.items():
        about = {"wording": wording, "words": float(np.mean([len(text.split()) for text in domain.texts]))}
        for name in ("generated mean", "prompt mean"):
            found = cka_interval(corrected_steps(one.pooled[name]), one.aim, **resampling)
            rows.append(row_of(found, readout=name, **about))
        gain = difference(one, one.pooled["generated mean"], one.pooled["prompt mean"], **resampling)
        rows.append({"metric": "CKA", "unit": "CKA", "readout": "generated less prompt"} | gain | about)
    return pd.DataFrame(rows).assign(domain="captions")


def noise_gain(answers: Sequence[Answers], parts: int, n_fits: int, seed: int) -> dict[str, float] | None:
    """CKA of the mean of all tokens less what the averaging null, fitted on the same texts, predicts for it."""
    n_tokens = min(one.complete for one in answers)
    means = parts_of_seeds(answers, parts)
    whole = means.mean(dim=2)[0]
    target = answers[0].aim

    def gain(rows: Int[Tensor, " row"]) -> float:
        fitted = fit_averaging_null(means[:, rows], target[rows], n_tokens // parts)
        expected = float(fitted.predict(torch.tensor([n_tokens]))[0])
        return float(debiased_cka(whole[rows], target[rows])) - expected

    try:
        found = half_sample_interval(gain, len(target), n_resamples=n_fits, seed=seed)
    except DegenerateError:
        return None
    return {name: getattr(found, name) for name in ("value", "low", "high", "level", "n")}


def phase_means(
    answers: Answers, labels: Int[np.ndarray, "text token"], phase: str
) -> Float[Tensor, "text dim"]:
    """The mean over a text's tokens in one phase; NaN for a text that has none."""
    inside = torch.from_numpy(labels == PHASES.index(phase)) & answers.mask[:, : labels.shape[1]]
    summed = torch.einsum("nt,ntd->nd", inside.double(), answers.tokens[:, : labels.shape[1]].double())
    return summed / inside.sum(dim=1, keepdim=True)


def _phase_gain(answers: Answers, labels: np.ndarray, **resampling) -> dict[str, float] | None:
    content, preamble = (phase_means(answers, labels, name) for name in ("content", "preamble"))
    rows = ~(content.isnan() | preamble.isnan()).any(dim=1)
    try:
        some = answers.take(rows.nonzero()[:, 0].numpy())
        return difference(some, content[rows], preamble[rows], **resampling)
    except (DegenerateError, TooFewError):
        return None


def _recall_gain(
    injected: Mapping[tuple[str, int], Answers], lengths: Mapping[str, int], **resampling
) -> dict[str, float] | None:
    """The last token of the recall phrase against that of the better control, at the last place."""
    place = max(place for _, place in injected)
    recall = injected[RECALL, place]
    at_end = {p: injected[p, place].tokens[:, lengths[p] - 1].double() for p in (RECALL, *CONTROLS)}
    try:
        scores = {p: float(debiased_cka(corrected_steps(at_end[p]), recall.aim)) for p in CONTROLS}
        return difference(recall, at_end[RECALL], at_end[max(scores, key=scores.get)], **resampling)
    except DegenerateError:
        return None


def claims(
    main: Mapping[str, Sequence[Answers]],
    labels: Mapping[str, np.ndarray],
    sites: Mapping[str, Mapping[Site, Answers]],
    base: Answers,
    means: Means,
    injected: Mapping[tuple[str, int], Answers],
    worded: Mapping[str, tuple[Domain, Answers]],
    *,
    phrases: Mapping[str, int],
    null_parts: int,
    n_fits: int,
    **resampling,
) -> dict[str, dict[str, float]]:
    """value, low, high, level and n of each claim; what cannot be estimated here is left out.

    phrases: the tokens of each injected phrase.
    """
    first = main["captions"][0]
    pooled, mean = first.pooled, first.pooled["generated mean"]
    found = {
        "B-mean-token": against_held_out_token(first, **resampling),
        "B-mean-last": difference(first, mean, pooled["generated last"], **resampling),
        "B-gen-prompt": difference(first, mean, pooled["prompt mean"], **resampling),
        "B-prompt-mean": difference(first, pooled["prompt mean"], pooled["prompt last"], **resampling),
        "B-pool": difference(first, mean, _best_other(first), **resampling),
        "B-seeds": _between_seeds(main["captions"], **resampling),
        **_mixing(main["captions"], **resampling),
        "B-math": against_held_out_token(main["problems"][0], **resampling),
        "B-protein": against_held_out_token(main["proteins"][0], **resampling),
        "B-phase": _phase_gain(first, labels["captions"], **resampling),
        "B-cumul": _growth(first, **resampling),
        "B-recall": _recall_gain(injected, phrases, **resampling),
        "B-shuf-pair": _shuffled_pairs(first, **resampling),
        "B-shuf-order": difference(
            base, base.pooled["generated mean"], means["words shuffled"], **resampling
        ),
        **_layers(sites["captions"], **resampling),
        "B-noise": noise_gain(main["captions"], null_parts, n_fits, resampling["seed"]),
        "B-length": _length(worded, **resampling),
        "B-debias": _bias(first, **resampling),
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _best_other(answers: Answers) -> Tensor:
    """The best pooling of generated tokens but the mean."""
    others = [name for name in answers.pooled if name.startswith("generated") and name != "generated mean"]
    scores = {n: float(debiased_cka(corrected_steps(answers.pooled[n]), answers.aim)) for n in others}
    return answers.pooled[max(scores, key=scores.get)]


def _between_seeds(answers: Sequence[Answers], **resampling) -> dict[str, float] | None:
    """The seed that aligns best less the one that aligns worst."""
    if len(answers) < 2:
        return None
    order = sorted(answers, key=lambda one: float(debiased_cka(one.mean, one.aim)))
    return difference(
        answers[0], order[-1].pooled["generated mean"], order[0].pooled["generated mean"], **resampling
    )


def _mixing(answers: Sequence[Answers], **resampling) -> dict[str, dict[str, float] | None]:
    """Uniform mixtures against the best of their parts: thirds, eighths, decoding seeds."""
    first = answers[0]
    shortest = int(first.mask.sum(dim=1).min())
    parts = {"B-mix3": 3, "B-mix-rec": 8}
    found = {
        name: _against_best(first, segment_means(first.tokens, first.mask, k), **resampling)
        for name, k in parts.items()
        if k <= shortest
    }
    seeds = torch.stack([one.pooled["generated mean"] for one in answers])
    return found | {"B-mix-seed": _against_best(first, seeds, **resampling) if len(seeds) > 1 else None}


def _against_best(
    answers: Answers, parts: Float[Tensor, "part text dim"], **resampling
) -> dict[str, float] | None:
    try:
        scores = [float(debiased_cka(corrected_steps(part), answers.aim)) for part in parts]
        return difference(answers, parts.mean(dim=0), parts[int(np.argmax(scores))], **resampling)
    except DegenerateError:
        return None


def _growth(answers: Answers, **resampling) -> dict[str, float]:
    """The mean of all tokens less that of the first quarter."""
    quarter = segment_means(answers.tokens, answers.mask, 4)[0]
    return difference(answers, answers.pooled["generated mean"], quarter, **resampling)


def _shuffled_pairs(answers: Answers, *, seed: int, **resampling) -> dict[str, float]:
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(answers)))
    found = cka_interval(answers.mean, answers.aim[order], seed=seed, **resampling)
    return {name: getattr(found, name) for name in ("value", "low", "high", "level", "n")}


def _layers(answers: Mapping[Site, Answers], **resampling) -> dict[str, dict[str, float]]:
    """Layers averaged less the best; the last less the best other; of prompts, the best inner one less the last."""
    *inner, last = [site for site in answers if site.layer]
    end = answers[last]

    def at(name: str, site: Site) -> Tensor:
        return answers[site].pooled[name]

    best = best_layer(answers, "generated mean", [*inner, last])
    averaged = mean_over_layers({site: answers[site] for site in [*inner, last]}, "generated mean")
    found = {"B-layer-avg": difference(end, averaged, at("generated mean", best), **resampling)}
    if inner:
        other, middle = (best_layer(answers, name, inner) for name in ("generated mean", "prompt mean"))
        pair = at("generated mean", last), at("generated mean", other)
        found["B-layer-last"] = difference(end, *pair, **resampling)
        pair = at("prompt mean", middle), at("prompt mean", last)
        found["B-layer-mid"] = difference(end, *pair, **resampling)
    return found


def _length(worded: Mapping[str, tuple[Domain, Answers]], **resampling) -> dict[str, float] | None:
    """What generating gains over the prompt on long captions less what it gains on short ones, on the same images."""
    if "long" not in worded:
        return None
    sets = {name: worded[name][1] for name in ("short", "long")}

    def gain(one: Answers, rows: Int[Tensor, " row"]) -> float:
        made, asked = (corrected_steps(one.pooled[name])[rows] for name in ("generated mean", "prompt mean"))
        return float(debiased_cka(made, one.aim[rows])) - float(debiased_cka(asked, one.aim[rows]))

    if len(sets["short"]) != len(sets["long"]):
        return None
    found = half_sample_interval(
        lambda rows: gain(sets["long"], rows) - gain(sets["short"], rows), len(sets["short"]), **resampling
    )
    return {name: getattr(found, name) for name in ("value", "low", "high", "level", "n")}


def _bias(answers: Answers, *, n_resamples: int, seed: int, level: float = 0.95) -> dict[str, float]:
    """Biased CKA of shuffled pairs, over shuffles."""
    x, y = published_steps(answers.pooled["generated mean"]), published_steps(answers.target.double())
    rng = np.random.default_rng(seed)
    values = [
        float(biased_cka(x, y[torch.from_numpy(rng.permutation(len(y)))]))
        for _ in range(min(n_resamples, 50))
    ]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return {"value": float(np.mean(values)), "low": low, "high": high, "level": level, "n": len(y)}
