"""Stitching: the lower blocks of one model under the upper blocks of another of the same architecture.

Where fine-tuning has written what a scorer uses is asked by giving a fine-tuned model the pretrained layers back,
from below or from above, and looking at how well it still retrieves. Early exit needs no function of its own:
read the sites with `norms=("final",)`.
"""

from copy import deepcopy
from itertools import chain

from torch import nn

from readout.errors import ArchitectureError, ParameterError
from readout.states.stream import ResidualStream, base_model

# What a saved configuration says beside the shape of the base model.
PROVENANCE = {
    "_name_or_path",
    "architectures",
    "dtype",
    "id2label",
    "label2id",
    "problem_type",
    "transformers_version",
}


def stitched(lower: nn.Module, upper: nn.Module, n_lower: int) -> nn.Module:
    """A base model: embeddings and the first `n_lower` blocks of `lower`; blocks above and final norm of `upper`.

    n_lower: 0 leaves only the embeddings to `lower`, L only the final norm (and, where there is one, the pooler) to
    `upper`. Weights are shared with both models, not copied, so training one trains the other; the models
    themselves, their hooks and modes stay as they are. Without heads. Source: our own.

    Raises ParameterError for `n_lower` outside 0..L, and ArchitectureError, naming the difference, where the models
    are not of one class and configuration.

    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> a, b = (BertModel(BertConfig(vocab_size=9, **sizes)) for _ in range(2))
    >>> blocks = ResidualStream(stitched(a, b, 1)).blocks
    >>> [block.output.dense.weight is m.encoder.layer[i].output.dense.weight
    ...  for i, (block, m) in enumerate(zip(blocks, (a, b)))]
    [True, True]
    """
    lower, upper = base_model(lower), base_model(upper)
    _require_same(lower, upper)
    model, above = _with_shared_weights(lower), _with_shared_weights(upper)
    blocks, upper_stream = ResidualStream(model).blocks, ResidualStream(above)
    if not 0 <= n_lower <= len(blocks):
        raise ParameterError(f"n_lower={n_lower}: should be in 0..{len(blocks)}, the number of blocks")
    for layer in range(n_lower, len(blocks)):
        blocks[layer] = upper_stream.blocks[layer]
    for path, module in above.named_modules():
        if module is upper_stream._final_norm or path == "pooler":
            model.set_submodule(path, module)
    return model


def _with_shared_weights(model: nn.Module) -> nn.Module:
    """New modules around the same parameters and buffers."""
    return deepcopy(model, {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())})


def _require_same(lower: nn.Module, upper: nn.Module) -> None:
    if type(lower) is not type(upper):
        raise ArchitectureError(
            f"lower is a {type(lower).__name__}, upper a {type(upper).__name__}; both should be of one class"
        )
    first, second = lower.config.to_dict(), upper.config.to_dict()
    for name in sorted((first.keys() | second.keys()) - PROVENANCE):
        if first.get(name) != second.get(name):
            raise ArchitectureError(
                f"{name}: {first.get(name)!r} in lower, {second.get(name)!r} in upper; they should be equal"
            )
