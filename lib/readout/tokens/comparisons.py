"""Two read-outs on the same texts: the estimates behind the claims on generated tokens."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from readout.errors import DegenerateError, TooFewError
from readout.lenses.alignment import (
    biased_cka,
    cka_combination,
    cka_interval,
    corrected_steps,
    debiased_cka,
    fit_averaging_null,
    half_sample_interval,
    published_steps,
)
from readout.sources.captions import captions, shortened
from readout.states import Site
from readout.tokens.controls import Injected, Means, lead
from readout.tokens.depth import best_layer, mean_over_layers
from readout.tokens.domains import Domain
from readout.tokens.measures import Answers, limits_of, parts_of_seeds, row_of, single_tokens
from readout.tokens.phases import PHASES
from readout.tokens.pools import segment_means
from readout.tokens.runs import CONTROLS, RECALL, Study

FEWEST_OF_HALVES = 8
"""Texts whose halves still have the four that debiased CKA needs."""


def gain(
    answers: Sequence[Answers],
    first: Callable[[Answers], Tensor],
    second: Callable[[Answers], Tensor],
    **resampling,
) -> dict[str, float] | None:
    """CKA of one read-out less that of another, averaged over decoding seeds; None where one does not vary."""
    sets = [read(one) for read in (first, second) for one in answers]
    share = 1 / len(answers)
    weights = [share] * len(answers) + [-share] * len(answers)
    try:
        prepared = [corrected_steps(x) for x in sets]
        return limits_of(cka_combination(prepared, weights, answers[0].aim, **resampling))
    except (DegenerateError, TooFewError):
        return None


def pooling(name: str) -> Callable[[Answers], Tensor]:
    """A read-out by its name in `Answers.pooled`."""
    return lambda one: one.pooled[name]


MEAN = pooling("generated mean")


def against_held_out_token(answers: Sequence[Answers], *, seed: int, **resampling) -> dict[str, float] | None:
    """The mean less the single token that is best on one half of the texts, both on the other half, over seeds.

    None for fewer than 16 texts, whose half has no half.
    """
    n_tokens = min(one.complete for one in answers)
    long = torch.stack([one.mask[:, :n_tokens].all(dim=1) for one in answers]).all(dim=0)
    rows = long.nonzero()[:, 0].numpy()
    if len(rows) < 16:
        return None
    order = np.random.default_rng(seed).permutation(rows)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    chosen, scored = ([one.take(half) for one in answers] for half in halves)
    curves = np.array([single_tokens(one)[:n_tokens] for one in chosen])
    token = int(np.nanargmax(curves.mean(axis=0)))
    return gain(scored, MEAN, lambda one: one.tokens[:, token].double(), seed=seed, **resampling)


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
        more = gain([one], MEAN, pooling("prompt mean"), **resampling) or {}
        rows.append({"metric": "CKA", "unit": "CKA", "readout": "generated less prompt"} | more | about)
    return pd.DataFrame(rows).assign(domain="captions")


def noise_gain(answers: Sequence[Answers], parts: int, n_fits: int, seed: int) -> dict[str, float] | None:
    """CKA of the mean of all tokens less what the averaging null, fitted on the same texts, predicts for it."""
    n_tokens = min(one.complete for one in answers)
    means = parts_of_seeds(answers, parts)
    whole = means.mean(dim=2)[0]
    target = answers[0].aim

    def more(rows: Int[Tensor, " row"]) -> float:
        fitted = fit_averaging_null(means[:, rows], target[rows], n_tokens // parts)
        expected = float(fitted.predict(torch.tensor([n_tokens]))[0])
        return float(debiased_cka(whole[rows], target[rows])) - expected

    try:
        found = half_sample_interval(more, len(target), n_resamples=n_fits, seed=seed)
    except DegenerateError:
        return None
    return limits_of(found)


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
    if int(rows.sum()) < 2:
        return None
    some = answers.take(rows.nonzero()[:, 0].numpy())
    return gain([some], lambda _: content[rows], lambda _: preamble[rows], **resampling)


def _recall_gain(injected: Injected, lengths: Mapping[str, int], **resampling) -> dict[str, float] | None:
    """The last token of the recall phrase less that of the control phrases, at the last place, over seeds."""
    place = max(place for _, place, _ in injected)
    own = [one for (phrase, at, _), one in injected.items() if phrase == RECALL and at == place]
    others = {p: [one for (q, at, _), one in injected.items() if q == p and at == place] for p in CONTROLS}
    ends = {
        p: [one.tokens[:, lengths[p] - 1].double() for one in ones]
        for p, ones in {RECALL: own, **others}.items()
    }
    return lead(ends, own[0].aim, **resampling)


def claims(
    main: Mapping[str, Sequence[Answers]],
    labels: Mapping[str, np.ndarray],
    sites: Mapping[str, Sequence[Mapping[Site, Answers]]],
    base: Answers,
    means: Means,
    injected: Injected,
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
    captions = main["captions"]
    found = {
        "B-mean-token": against_held_out_token(captions, **resampling),
        "B-mean-last": gain(captions, MEAN, pooling("generated last"), **resampling),
        "B-gen-prompt": gain(captions, MEAN, pooling("prompt mean"), **resampling),
        "B-prompt-mean": gain(captions[:1], pooling("prompt mean"), pooling("prompt last"), **resampling),
        "B-pool": gain(captions, MEAN, _best_other(captions), **resampling),
        "B-seeds": _between_seeds(captions, **resampling),
        **_mixing(captions, **resampling),
        "B-math": against_held_out_token(main["problems"], **resampling),
        "B-protein": against_held_out_token(main["proteins"], **resampling),
        "B-phase": _phase_gain(captions[0], labels["captions"], **resampling),
        "B-cumul": gain(captions, MEAN, _first_quarter, **resampling),
        "B-recall": _recall_gain(injected, phrases, **resampling),
        "B-shuf-pair": _shuffled_pairs(captions[0], **resampling),
        "B-shuf-order": gain([base], MEAN, lambda _: means["words shuffled"], **resampling),
        **_layers(sites["captions"], **resampling),
        "B-noise": noise_gain(captions, null_parts, n_fits, resampling["seed"]),
        "B-length": _length(worded, **resampling),
        "B-debias": _bias(captions[0], **resampling),
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _mean_score(sets: Sequence[Tensor], target: Tensor) -> float:
    return float(np.mean([float(debiased_cka(corrected_steps(x), target)) for x in sets]))


def _best_other(answers: Sequence[Answers]) -> Callable[[Answers], Tensor]:
    """The best pooling of generated tokens but the mean, of those that every seed has."""
    others = [
        name
        for name in answers[0].pooled
        if name.startswith("generated")
        and name != "generated mean"
        and all(name in a.pooled for a in answers)
    ]
    scores = {name: _mean_score([one.pooled[name] for one in answers], answers[0].aim) for name in others}
    return pooling(max(scores, key=scores.get))


def _between_seeds(answers: Sequence[Answers], **resampling) -> dict[str, float] | None:
    """The seed that aligns best less the one that aligns worst."""
    if len(answers) < 2:
        return None
    order = sorted(answers, key=lambda one: float(debiased_cka(one.mean, one.aim)))
    return gain(answers[:1], lambda _: MEAN(order[-1]), lambda _: MEAN(order[0]), **resampling)


def _mixing(answers: Sequence[Answers], **resampling) -> dict[str, dict[str, float] | None]:
    """Uniform mixtures against the best of their parts: thirds, eighths, decoding seeds."""
    parts = {"B-mix3": 3, "B-mix-rec": 8}
    found = {name: _against_best_part(answers, k, **resampling) for name, k in parts.items()}
    if len(answers) > 1:
        means = [MEAN(one) for one in answers]
        best = max(means, key=lambda x: _mean_score([x], answers[0].aim))
        together = torch.stack(means).mean(dim=0)
        found["B-mix-seed"] = gain(answers[:1], lambda _: together, lambda _: best, **resampling)
    return found


def _against_best_part(answers: Sequence[Answers], k: int, **resampling) -> dict[str, float] | None:
    """The uniform mixture of k parts less the best part on average over seeds; of texts with k tokens in each."""
    rows = torch.stack([one.mask.sum(dim=1) >= k for one in answers]).all(dim=0).nonzero()[:, 0].numpy()
    if len(rows) < FEWEST_OF_HALVES:
        return None
    long = [one.take(rows) for one in answers]
    parts = {id(one): segment_means(one.tokens, one.mask, k) for one in long}
    try:
        scores = [_mean_score([parts[id(one)][i] for one in long], long[0].aim) for i in range(k)]
    except DegenerateError:
        return None
    best = int(np.argmax(scores))
    mixture, part = (lambda one: parts[id(one)].mean(dim=0)), (lambda one: parts[id(one)][best])
    return gain(long, mixture, part, **resampling)


def _first_quarter(answers: Answers) -> Tensor:
    return segment_means(answers.tokens, answers.mask, 4)[0]


def _shuffled_pairs(answers: Answers, *, seed: int, **resampling) -> dict[str, float]:
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(answers)))
    return limits_of(cka_interval(answers.mean, answers.aim[order], seed=seed, **resampling))


def _layers(seeds: Sequence[Mapping[Site, Answers]], **resampling) -> dict[str, dict[str, float] | None]:
    """Layers averaged less the best; the last less the best other; of prompts, the best inner one less the last."""
    sites = [site for site in seeds[0] if site.layer]
    *inner, last = sites
    ends = [of_seed[last] for of_seed in seeds]
    at_end = {id(one): of_seed for one, of_seed in zip(ends, seeds, strict=True)}

    def at(name: str, site: Site) -> Callable[[Answers], Tensor]:
        return lambda end: at_end[id(end)][site].pooled[name]

    def averaged(end: Answers) -> Tensor:
        return mean_over_layers({site: at_end[id(end)][site] for site in sites}, "generated mean")

    best = best_layer(seeds, "generated mean", sites)
    found = {"B-layer-avg": gain(ends, averaged, at("generated mean", best), **resampling)}
    if inner:
        other, middle = (best_layer(seeds, name, inner) for name in ("generated mean", "prompt mean"))
        pair = at("generated mean", last), at("generated mean", other)
        found["B-layer-last"] = gain(ends, *pair, **resampling)
        pair = at("prompt mean", middle), at("prompt mean", last)
        found["B-layer-mid"] = gain(ends[:1], *pair, **resampling)
    return found


def _length(worded: Mapping[str, tuple[Domain, Answers]], **resampling) -> dict[str, float] | None:
    """What generating gains over the prompt on long captions less what it gains on short ones, on the same images."""
    if "long" not in worded:
        return None
    sets = {name: worded[name][1] for name in ("short", "long")}

    def more(one: Answers, rows: Int[Tensor, " row"]) -> float:
        made, asked = (corrected_steps(one.pooled[name])[rows] for name in ("generated mean", "prompt mean"))
        return float(debiased_cka(made, one.aim[rows])) - float(debiased_cka(asked, one.aim[rows]))

    if len(sets["short"]) != len(sets["long"]):
        return None
    found = half_sample_interval(
        lambda rows: more(sets["long"], rows) - more(sets["short"], rows), len(sets["short"]), **resampling
    )
    return limits_of(found)


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
