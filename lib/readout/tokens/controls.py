"""Texts that tell apart why averaging generated tokens helps: shuffled, unrelated, echoed, read alone or by another."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError, TooFewError
from readout.lenses.alignment import cka_combination, cka_interval, corrected_steps
from readout.tokens.domains import Domain, mean_at_end
from readout.tokens.measures import Answers, limits_of, row_of, single_over_seeds
from readout.tokens.pools import masked_mean
from readout.tokens.runs import CONTROLS, RECALL, Study

Means = dict[str, Float[Tensor, "text dim"]]
Injected = Mapping[tuple[str, int, int], Answers]
"""Answers with a phrase put into them, by phrase, own tokens before it, and decoding seed."""


def control_means(study: Study, domain: Domain, tokens: Sequence[Sequence[int]], seed: int = 0) -> Means:
    """The mean state of each item's tokens under each control, by name.

    words shuffled: the tokens in a random order, read again after the same prompt. without the prompt: read after a
    start token alone. unrelated continuation: the answer to the next item, read after this item's prompt. echo: the
    item's own text, over and over, after its prompt. The last two are of the second model, which is a text encoder.
    """
    rng, tokenizer = np.random.default_rng(seed), study.reader.tokenizer
    given = {
        "words shuffled": [rng.permutation(text).tolist() for text in tokens],
        "unrelated continuation": [*tokens[1:], tokens[0]],
    }
    read = study.read(domain, given)
    read |= {"echo": study.echo(domain)} | study.read(domain, {"without the prompt": tokens}, bare=True)
    means = {name: masked_mean(one.states(study.final), one.mask) for name, one in read.items()}
    texts = tokenizer.batch_decode([list(text) for text in tokens], skip_special_tokens=True)
    means[f"read by {study.other.name}"] = mean_at_end(study.other, [text.strip() or "." for text in texts])
    means[f"caption read by {study.other.name}"] = mean_at_end(study.other, domain.texts)
    return means


def _states_shuffled(answers: Answers, seed: int) -> Float[Tensor, "text dim"]:
    """The mean over each text's states in a random order, which is the mean over them in order: shown, not assumed."""
    rng, tokens = np.random.default_rng(seed), answers.tokens.clone()
    for row, mask in enumerate(answers.mask):
        own = mask.nonzero()[:, 0].numpy()
        tokens[row, own] = answers.tokens[row, rng.permutation(own)]
    return masked_mean(tokens, answers.mask)


def control_table(base: Answers, means: Means, *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """Each control beside the mean over generated tokens, and beside that with its pairs shuffled."""
    options = {"n_resamples": n_resamples, "seed": seed}
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(base)))
    rows = [
        row_of(cka_interval(base.mean, base.aim, **options), readout="generated mean"),
        row_of(cka_interval(base.mean, base.aim[order], **options), readout="pairs shuffled"),
        row_of(
            cka_interval(corrected_steps(_states_shuffled(base, seed)), base.aim, **options),
            readout="states shuffled",
        ),
    ]
    rows += [
        row_of(cka_interval(corrected_steps(x), base.aim, **options), readout=name)
        for name, x in means.items()
    ]
    return pd.DataFrame(rows)


def injections(
    study: Study,
    domain: Domain,
    answers: Mapping[int, Sequence[Sequence[int]]],
    places: Sequence[int],
    n_after: int,
) -> Injected:
    """Answers into which a phrase was put after so many of their own tokens, by phrase, place and seed.

    answers: the tokens of the domain's answers under each decoding seed.
    """
    target = next(iter(domain.targets))
    found = {}
    for place in places:
        for seed, tokens in answers.items():
            begun = [list(text[:place]) for text in tokens]
            written = study.injected(domain, (RECALL, *CONTROLS), begun, n_after, seed)
            found |= {(p, place, seed): study.answers(domain, one, target) for p, one in written.items()}
    return found


def injection_table(found: Injected, *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """CKA of the state at each token from the phrase's first on, over seeds; and the first phrase's lead.

    The lead is over the mean of the other phrases, of the texts that have the token under every phrase and seed.
    """
    options, rows = {"n_resamples": n_resamples, "seed": seed}, []
    phrases, places, seeds = (list(dict.fromkeys(key[i] for key in found)) for i in range(3))
    for place in places:
        of_phrase = {phrase: [found[phrase, place, one] for one in seeds] for phrase in phrases}
        every = [one for ones in of_phrase.values() for one in ones]
        for token in range(min(one.complete for one in every)):
            about = {"step": place, "token": token + 1}
            for phrase, ones in of_phrase.items():
                if (estimate := single_over_seeds(ones, token, **options)) is not None:
                    rows.append(row_of(estimate, readout="single token", phrase=phrase, **about))
            both = torch.stack([one.mask[:, token] for one in every]).all(dim=0)
            states = {p: [one.tokens[both, token].double() for one in ones] for p, ones in of_phrase.items()}
            ahead = lead(states, corrected_steps(every[0].target[both]), **options)
            if ahead is not None:
                about |= {"phrase": phrases[0], "metric": "CKA", "unit": "CKA"}
                rows.append({"readout": "lead over other phrases"} | ahead | about)
    return pd.DataFrame(rows)


def lead(
    states: Mapping[str, Sequence[Float[Tensor, "text dim"]]], aim: Float[Tensor, "text dim2"], **resampling
) -> dict[str, float] | None:
    """CKA of the first set of states by seed less the mean of the others; None where states do not vary."""
    own, *others = states.values()
    sets = [*own, *(x for ones in others for x in ones)]
    weights = [1 / len(own)] * len(own) + [-1 / (len(own) * len(others))] * (len(own) * len(others))
    try:
        return limits_of(cka_combination([corrected_steps(x) for x in sets], weights, aim, **resampling))
    except (DegenerateError, TooFewError):
        return None
