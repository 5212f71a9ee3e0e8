"""Texts that a model has begun to read, and can go on with: the keys and values of what it has read so far."""

import copy
import inspect
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from readout.states.stream import _position_ids, base_model

ROOM = 32
"""Tokens that a store of keys or values has to spare when it is made anew."""


class GrowingLayer(DynamicLayer):
    """Keys and values with room behind them: transformers' own layer copies all of them for every token written."""

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        """Put new states behind those that are there; returns all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.stores: dict[str, Tensor] = {}
        self.keys = self._longer("keys", self.keys, key_states)
        self.values = self._longer("values", self.values, value_states)
        return self.keys, self.values

    def _longer(self, name: str, old: Tensor, new: Tensor) -> Tensor:
        used = old.shape[-2] if old.numel() else 0
        total, store = used + new.shape[-2], self.stores.get(name)
        # Rows that were selected lie elsewhere than the store they come from.
        if store is None or store.shape[-2] < total or store.data_ptr() != old.data_ptr():
            store = new.new_empty(*new.shape[:-2], total + ROOM, new.shape[-1])
            if used:
                store[..., :used, :] = old
            self.stores[name] = store
        store[..., used:total, :] = new
        return store[..., :total, :]


@dataclass
class Begun:
    """Beginnings of texts, padded on the left, held as keys and values; positions count real tokens only.

    model: with or without its head. Memory: layers * texts * tokens * key-value dim, twice.
    """

    model: PreTrainedModel
    mask: Bool[Tensor, "text token"]
    cache: DynamicCache

    @staticmethod
    def fits(model: PreTrainedModel) -> bool:
        """Whether the model's base takes what this hands it; recurrent models keep another kind of memory."""
        names = inspect.signature(base_model(model).forward).parameters
        return {"position_ids", "use_cache"} <= set(names) and bool({"cache", "past_key_values"} & set(names))

    @classmethod
    def read(
        cls,
        model: PreTrainedModel,
        ids: Int[Tensor, "text token"],
        mask: Bool[Tensor, "text token"],
        **options,
    ) -> tuple["Begun", Float[Tensor, "text kept out"]]:
        """Read the beginnings; what the model gives out for them (logits with a head, else states) comes too."""
        empty = torch.zeros(len(mask), 0, dtype=torch.bool, device=model.device)
        cache = DynamicCache(config=model.config)
        cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
        begun = cls(model, empty, cache)
        return begun, begun.go_on(ids, mask, **options)

    def go_on(
        self, ids: Int[Tensor, "text new"], mask: Bool[Tensor, "text new"] | None = None, **options
    ) -> Float[Tensor, "text kept out"]:
        """Read further tokens of every text, all real unless masked; masked ones may only end a text."""
        model, ids = self.model, ids.to(self.model.device)
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.to(model.device)
        self.mask = torch.cat([self.mask, mask], dim=1)
        positions = _position_ids(base_model(model), self.mask)[:, -ids.shape[1] :]
        # Newer releases of transformers renamed the argument, and warn about the old name.
        names = inspect.signature(model.forward).parameters
        cache = {"cache" if "cache" in names else "past_key_values": self.cache}
        mask = self.mask.long()
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "use_cache": True}
        found = model(**given, **cache, **options)
        return found.logits if "logits" in found else found.last_hidden_state

    def copy(self, rows: Int[Tensor, " row"] | None = None) -> "Begun":
        """The same beginnings, or those of some rows, to go on with in another way."""
        cache, mask = copy.deepcopy(self.cache), self.mask
        if rows is not None:
            rows = rows.to(mask.device)
            cache.batch_select_indices(rows)
            mask = mask[rows]
        return Begun(self.model, mask, cache)
