"""The residual stream of a transformers model, watched by hooks on its blocks.

`hidden_states[-1]` of transformers is the state before the final norm in some models and releases and after
it in others. A forward hook on a block has one meaning everywhere: what that block adds its update to, and
hands to the next.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from readout.errors import ArchitectureError, ParameterError
from readout.states.sites import NORMS, Norm, Site

FINAL_NORM_NAMES = (
    "norm",
    "final_norm",
    "final_layer_norm",
    "norm_f",
    "layernorm",
    "ln_f",
    "emb_layer_norm_after",
)
POSITION_TABLE_NAMES = ("position_embeddings", "wpe")

Watcher = Callable[[Site, Tensor], None]


class ResidualStream:
    """The L + 1 places of a model's residual stream: the input of block 1 and the output of each block.

    model: a transformers model with or without a head; the head is left alone. The blocks are the one ModuleList
    of `config.num_hidden_layers` modules that lies in no other ModuleList. The final norm is the norm layer beside
    or above them that goes by one of a few names; where there is none (post-norm models) it is the identity.

    Raises ArchitectureError where the blocks or the final norm are not found beyond doubt.

    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> stream = ResidualStream(BertModel(BertConfig(vocab_size=9, **sizes)))
    >>> [site.name for site in stream.sites()]
    ['embedding', 'block 1', 'block 2']
    """

    def __init__(self, model: nn.Module):
        self.base = base_model(model)
        path, self.blocks = _find_blocks(self.base)
        self._final_norm = _find_final_norm(self.base, path)

    @property
    def n_layers(self) -> int:
        """L, the number of blocks."""
        return len(self.blocks)

    @property
    def has_final_norm(self) -> bool:
        """False for post-norm models (BERT, RoBERTa), whose raw and normed states are the same."""
        return not isinstance(self._final_norm, nn.Identity)

    def final_norm(self, states: Float[Tensor, "text token dim"]) -> Float[Tensor, "text token dim"]:
        """The model's final norm applied to raw states of any layer."""
        return self._final_norm(states)

    def sites(self, norms: Sequence[Norm] = ("raw",), layers: Sequence[int] | None = None) -> list[Site]:
        """The sites of `layers` (all of 0..L by default) in the order in which `watch` meets them.

        Raises ParameterError for an unknown norm, a layer outside 0..L, or none of either.
        """
        layers = range(self.n_layers + 1) if layers is None else sorted(set(layers))
        if not layers:
            raise ParameterError(f"layers: is empty; give some of 0..{self.n_layers}, or None for all")
        if not norms or not set(norms) <= set(NORMS):
            raise ParameterError(f"norms: {norms!r} should hold one or both of {', '.join(NORMS)}")
        return [Site(layer, self.n_layers, norm) for layer in layers for norm in NORMS if norm in norms]

    @contextmanager
    def watch(
        self, fn: Watcher, norms: Sequence[Norm] = ("raw",), layers: Sequence[int] | None = None
    ) -> Iterator[None]:
        """Calls `fn(site, states)` with states [text token dim] as every forward inside the `with` reaches a site.

        Sites come in order of depth, at one layer the raw state first. Nothing is kept: the states live as long as
        `fn` holds on to them, so memory does not grow with depth. The hooks go when the block ends, by an error too.
        """
        hooks = []
        try:
            for site in self.sites(norms, layers):
                hooks.append(self._hook(site, fn))
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _hook(self, site: Site, fn: Watcher):
        def call(states: Tensor) -> None:
            fn(site, states if site.norm == "raw" else self.final_norm(states))

        if site.layer == 0:
            return self.blocks[0].register_forward_pre_hook(
                lambda block, args, kwargs: call(args[0] if args else kwargs["hidden_states"]),
                with_kwargs=True,
            )
        return self.blocks[site.layer - 1].register_forward_hook(
            lambda block, args, output: call(output[0] if isinstance(output, tuple) else output)
        )


def base_model(model: nn.Module) -> nn.Module:
    """The model without its head: what turns token ids into `last_hidden_state`."""
    return getattr(model, "base_model", model)


def forward(
    model: nn.Module, input_ids: Int[Tensor, "text token"], mask: Bool[Tensor, "text token"]
) -> Float[Tensor, "text token dim"]:
    """The last hidden state of padded texts, the same for every padding side.

    Runs the base model, without cache, with the attention mask and, where the model takes them, with position ids
    counted over real tokens only (RoBERTa's start after its padding index). Gradients and mode are the caller's.

    Raises ParameterError for a text longer than a learned position table, and for padding on the left of a model
    that takes no position ids (Mamba: a bias of its input projection would carry padding into the text).
    """
    base = base_model(model)
    accepted = inspect.signature(base.forward).parameters
    if "position_ids" not in accepted and not mask[:, 0].all():
        raise ParameterError(f"mask: {type(base).__name__} takes no position ids; pad its texts on the right")
    offered = {"position_ids": _position_ids(base, mask), "use_cache": False}
    options = {name: value for name, value in offered.items() if name in accepted}
    return base(input_ids=input_ids, attention_mask=mask.long(), **options).last_hidden_state


def _position_ids(base: nn.Module, mask: Bool[Tensor, "text token"]) -> Int[Tensor, "text token"]:
    positions = (mask.long().cumsum(dim=1) - 1).clamp(min=0)
    for name, table in base.named_modules():
        if name.endswith(POSITION_TABLE_NAMES) and isinstance(table, nn.Embedding):
            offset = 0 if table.padding_idx is None else table.padding_idx + 1
            room = table.num_embeddings - offset
            if positions.max() >= room:
                raise ParameterError(
                    f"max_tokens: a text has {positions.max() + 1} tokens, {type(base).__name__} takes at most {room}"
                )
            return positions + offset
    return positions


def _find_blocks(base: nn.Module) -> tuple[str, nn.ModuleList]:
    n_layers = getattr(getattr(base, "config", None), "num_hidden_layers", None)
    lists = {path: module for path, module in base.named_modules() if isinstance(module, nn.ModuleList)}
    outer = {path: m for path, m in lists.items() if not any(path.startswith(f"{other}.") for other in lists)}
    found = {path: module for path, module in outer.items() if len(module) == n_layers}
    if len(found) != 1:
        raise ArchitectureError(
            f"{type(base).__name__}: looked for one ModuleList of num_hidden_layers = {n_layers} blocks, "
            f"found {len(found)} ({', '.join(f'{path} of {len(m)}' for path, m in outer.items()) or 'no list at all'})"
        )
    return next(iter(found.items()))


def _find_final_norm(base: nn.Module, blocks_path: str) -> nn.Module:
    parents = blocks_path.split(".")[:-1]
    holders = [base.get_submodule(".".join(parents[:depth])) for depth in range(len(parents) + 1)]
    norms = {
        name: child
        for holder in holders
        for name, child in holder.named_children()
        if "Norm" in type(child).__name__
    }
    found = [child for name, child in norms.items() if name in FINAL_NORM_NAMES]
    if len(found) > 1 or (norms and not found):
        raise ArchitectureError(
            f"{type(base).__name__}: looked for one final norm named {', '.join(FINAL_NORM_NAMES)}, "
            f"found {', '.join(norms)}"
        )
    return found[0] if found else nn.Identity()
