"""Layers against tokens: each read-out at every layer, and what averaging over layers brings."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError
from readout.lenses.alignment import cka_interval, corrected_steps, debiased_cka_many
from readout.states import Site
from readout.tokens.measures import Answers, row_of, single_tokens

AVERAGED = ("generated mean", "prompt mean")


def by_layer(answers: Mapping[Site, Answers], *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """Every pooling at every site, and the mean over sites of two of them (states are normed, so none outweighs)."""
    rows, options = [], {"n_resamples": n_resamples, "seed": seed}
    for site, one in answers.items():
        place = {"site": site.name, "layer": site.layer, "depth": site.depth}
        for name in ("generated mean", "generated last", "prompt mean", "prompt last"):
            rows += _rows(one.pooled[name], one, options, readout=name, **place)
    last = next(reversed(answers.values()))
    for name in AVERAGED:
        rows += _rows(mean_over_layers(answers, name), last, options, readout=f"{name}, layers averaged")
    return pd.DataFrame(rows)


def mean_over_layers(answers: Mapping[Site, Answers], name: str) -> Float[Tensor, "text dim"]:
    """The mean over sites of one pooling."""
    return torch.stack([one.pooled[name] for one in answers.values()]).mean(dim=0)


def _rows(x: Tensor, answers: Answers, options: dict, **about) -> list[dict]:
    """The row of an interval; none where the states of a site do not vary, such as that of a shared token."""
    try:
        return [row_of(cka_interval(corrected_steps(x), answers.aim, **options), **about)]
    except DegenerateError:
        return []


def by_layer_and_token(answers: Mapping[Site, Answers]) -> pd.DataFrame:
    """CKA of the states at each layer and token index."""
    rows = []
    for site, one in answers.items():
        place = {"site": site.name, "layer": site.layer, "depth": site.depth}
        counts = one.mask.sum(dim=0).tolist()
        rows += [
            place | {"token": token, "value": value, "n": counts[token - 1]}
            for token, value in enumerate(single_tokens(one), start=1)
        ]
    table = pd.DataFrame(rows).assign(metric="CKA", unit="CKA", readout="single token")
    return table.dropna(subset=["value"])


def best_layer(answers: Mapping[Site, Answers], name: str, sites: Sequence[Site]) -> Site:
    """The site, of some, at which a pooling is aligned best."""
    target = next(iter(answers.values())).target
    values = debiased_cka_many(
        torch.stack([answers[site].pooled[name] for site in sites]), target, prepare=corrected_steps
    )
    return sites[int(np.argmax(values.numpy()))]
