"""Layers against tokens: each read-out at every layer, and what averaging over layers brings."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError
from readout.lenses.alignment import corrected_steps, debiased_cka_many
from readout.states import Site
from readout.tokens.measures import Answers, mean_over, row_of, single_tokens

READOUTS = ("generated mean", "generated last", "prompt mean", "prompt last", "prompt echo")
AVERAGED = ("generated mean", "prompt mean")


def by_layer(seeds: Sequence[Mapping[Site, Answers]], *, n_resamples: int, seed: int = 0) -> pd.DataFrame:
    """Every pooling at every site, and the mean over sites of two of them (states are normed, so none outweighs).

    seeds: for each decoding seed the answers at every site. Values are means over seeds.
    """
    rows, options = [], {"n_resamples": n_resamples, "seed": seed}
    for site in seeds[0]:
        place, ones = {"site": site.name, "layer": site.layer, "depth": site.depth}, [s[site] for s in seeds]
        for name in (name for name in READOUTS if name in ones[0].pooled):
            some = ones if name.startswith("generated") else ones[:1]
            rows += _rows([one.pooled[name] for one in some], ones[0], options, readout=name, **place)
    last = next(reversed(seeds[0].values()))
    for name in AVERAGED:
        some = seeds if name.startswith("generated") else seeds[:1]
        sets = [mean_over_layers(one, name) for one in some]
        rows += _rows(sets, last, options, readout=f"{name}, layers averaged")
    return pd.DataFrame(rows)


def mean_over_layers(answers: Mapping[Site, Answers], name: str) -> Float[Tensor, "text dim"]:
    """The mean over sites of one pooling."""
    return torch.stack([one.pooled[name] for one in answers.values()]).mean(dim=0)


def _rows(sets: Sequence[Tensor], answers: Answers, options: dict, **about) -> list[dict]:
    """The row of an interval; none where the states of a site do not vary, such as that of a shared token."""
    try:
        return [row_of(mean_over([corrected_steps(x) for x in sets], answers.aim, **options), **about)]
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


def best_layer(seeds: Sequence[Mapping[Site, Answers]], name: str, sites: Sequence[Site]) -> Site:
    """The site, of some, at which a pooling is aligned best on average over decoding seeds."""
    target = next(iter(seeds[0].values())).target
    values = [
        debiased_cka_many(
            torch.stack([one[site].pooled[name] for site in sites]), target, prepare=corrected_steps
        )
        for one in seeds
    ]
    return sites[int(torch.stack(values).mean(dim=0).argmax())]
