"""Texts that tell apart why averaging generated tokens helps: shuffled, unrelated, echoed, read alone or by another."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.lenses.alignment import cka_interval, corrected_steps
from readout.tokens.domains import Domain, mean_at_end
from readout.tokens.measures import Answers, row_of, single_tokens
from readout.tokens.pools import masked_mean
from readout.tokens.runs import CONTROLS, RECALL, Study

Means = dict[str, Float[Tensor, "text dim"]]


def control_means(study: Study, domain: Domain, tokens: Sequence[Sequence[int]], seed: int = 0) -> Means:
    """The mean state of each item's tokens under each control, by name.

    words shuffled: the tokens in a random order, read again after the same prompt. without the prompt: read after a
    start token alone. unrelated continuation: the answer to the next item, read after this item's prompt. echo: the
    item's own text, over and over, after its prompt. The last two are of the second model, which is a text encoder.
    """
    rng, tokenizer = np.random.default_rng(seed), study.reader.tokenizer
    length = max(map(len, tokens))
    own = [tokenizer(f" {text}", add_special_tokens=False)["input_ids"] for text in domain.texts]
    given = {
        "words shuffled": [rng.permutation(text).tolist() for text in tokens],
        "without the prompt": list(tokens),
        "unrelated continuation": [*tokens[1:], tokens[0]],
        "echo": [(text * length)[:length] for text in own],
    }
    means = {}
    for name, texts in given.items():
        read = study.read(domain, name, texts, bare=name == "without the prompt")
        means[name] = masked_mean(read.states(study.final), read.mask)
    texts = tokenizer.batch_decode([list(text) for text in tokens], skip_special_tokens=True)
    means[f"read by {study.other.name}"] = mean_at_end(study.other, [text.strip() or "." for text in texts])
    means[f"caption read by {study.other.name}"] = mean_at_end(study.other, domain.texts)
    return means


def control_table(base: Answers, means: Means, *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """Each control beside the mean over generated tokens, and beside that with its pairs shuffled."""
    options = {"n_resamples": n_resamples, "seed": seed}
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(base)))
    rows = [
        row_of(cka_interval(base.mean, base.aim, **options), readout="generated mean"),
        row_of(cka_interval(base.mean, base.aim[order], **options), readout="pairs shuffled"),
    ]
    rows += [
        row_of(cka_interval(corrected_steps(x), base.aim, **options), readout=name)
        for name, x in means.items()
    ]
    return pd.DataFrame(rows)


def injections(
    study: Study, domain: Domain, tokens: Sequence[Sequence[int]], places: Sequence[int], n_after: int
) -> dict[tuple[str, int], Answers]:
    """Answers into which a phrase was put after so many of their own tokens, by phrase and place."""
    target = next(iter(domain.targets))
    found = {}
    for place in places:
        begun = [list(text[:place]) for text in tokens]
        for phrase in (RECALL, *CONTROLS):
            written = study.injected(domain, phrase, begun, n_after)
            found[phrase, place] = study.answers(domain, written, target)
    return found


def injection_table(found: dict[tuple[str, int], Answers]) -> pd.DataFrame:
    """CKA of the state at each token from the phrase's first on."""
    rows = [
        {"phrase": phrase, "step": place, "token": token, "value": value, "n": len(one)}
        for (phrase, place), one in found.items()
        for token, value in enumerate(single_tokens(one), start=1)
    ]
    table = pd.DataFrame(rows).assign(metric="CKA", unit="CKA", readout="single token")
    return table.dropna(subset=["value"])
