"""What was written to the items of a domain, in their order, found in the shards of a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.generation.prompts import Prompt
from readout.generation.shards import Plan, Shards, open_shards, sample_keys, write_shards
from readout.sources.models import Reader
from readout.states import Site


@dataclass(frozen=True)
class Written:
    """The samples of some keys: their table and their states, row by row as the keys were given."""

    shards: Shards
    keys: list[str]

    @cached_property
    def _rows(self) -> Tensor:
        return torch.tensor(self.shards.rows(self.keys))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a sample: key, id, seed, text, tokens, n_tokens, n_content_tokens, stop."""
        return self.shards.table().to_pandas().iloc[self._rows.numpy()].reset_index(drop=True)

    @property
    def tokens(self) -> list[list[int]]:
        """The generated ids of every sample."""
        return [list(map(int, tokens)) for tokens in self.table["tokens"]]

    @property
    def has_content(self) -> Bool[Tensor, " text"]:
        """False for a sample that stopped at once: there is nothing to align."""
        return torch.from_numpy((self.table["n_content_tokens"] > 0).to_numpy().copy())

    @property
    def mask(self) -> Bool[Tensor, "text token"]:
        """Which generated tokens are real."""
        return self.shards.mask()[self._rows]

    def states(self, site: Site) -> Float[Tensor, "text token dim"]:
        """The state at every generated token, zeros behind the end, in float32."""
        return self.shards.states(site)[self._rows].float()

    def pooled(self, site: Site, pooling: str) -> Float[Tensor, "text dim"]:
        """One vector a sample, see `readout.generation.collect.POOLINGS`."""
        return self.shards.pooled(site, pooling)[self._rows]


def write(
    reader: Reader,
    prompts: Sequence[Prompt],
    ids: Sequence[str],
    plan: Plan,
    store: Path,
    *,
    seeds: Sequence[int] = (),
    given: Mapping[str, Sequence[Sequence[int]]] | None = None,
    what: str = "generations",
) -> dict[int | str, Written]:
    """The samples of `write_shards`, which makes those that the store lacks, by seed and by name."""
    given = given or {}
    options = {"seed": seeds, "given": given, "progress": True, "what": what}
    shards = open_shards(write_shards(reader, prompts, ids, plan, store, **options))
    keys: dict[int | str, list[str]] = {seed: sample_keys(ids, prompts, seed) for seed in seeds}
    keys |= {name: sample_keys(ids, prompts, 0, texts) for name, texts in given.items()}
    return {kind: Written(shards.having(those), those) for kind, those in keys.items()}
