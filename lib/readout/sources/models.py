"""One way to load a model: float32, in evaluation mode, complete, offline, and never running foreign code.

A model comes as the bare stack of blocks (`AutoModel`), since a lens reads states and no head, or with its head where
it has to write (`load_causal`). The same architecture with random weights is the control that every depth curve is
shown beside.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from readout.errors import AssetError, ParameterError
from readout.sources.assets import find, locate, sha256
from readout.sources.convert import quiet_transformers

WEIGHTS = ("pretrained", "random")

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_OFFLINE = {"trust_remote_code": False, "local_files_only": True}


@dataclass(frozen=True)
class Reader:
    """A model to read states from, with what identifies it.

    `digest` is the sha256 of its weight files (`sha256sum *.safetensors | sha256sum`), or `random:<seed>`.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    digest: str
    n_layers: int
    weights: str


def load_model(name: str | Path, *, weights: str = "pretrained", seed: int = 0) -> Reader:
    """The model of an asset or of a local folder, as float32 in evaluation mode.

    A name without a path separator is an id of `assets.toml`; write `./name` for a folder. `weights="random"`
    gives the same architecture as its own initialisation draws it from `seed`; the caller's random state is left
    as it was. Needs 4 bytes of memory a parameter.

    Raises ParameterError for other `weights`, and AssetError where the folder lacks a config, safetensors or a
    tokenizer, asks for code to be run, or does not fill every weight of the architecture.
    """
    if weights not in WEIGHTS:
        raise ParameterError(f"weights is {weights!r}; it must be 'pretrained' or 'random'")
    return _reader(name, AutoModel, weights, seed, torch.float32)


def load_causal(name: str | Path, *, dtype: torch.dtype | str = torch.float32) -> Reader:
    """The model of an asset or of a local folder with its language-modelling head, to generate with.

    dtype: of the weights; "auto" keeps the folder's, which a model of billions of parameters needs. Otherwise, and in
    what it raises, as `load_model`.
    """
    return _reader(name, AutoModelForCausalLM, "pretrained", 0, dtype)


def _reader(name: str | Path, auto: type, weights: str, seed: int, dtype: torch.dtype | str) -> Reader:
    folder = _folder(name)
    _refuse_what_cannot_be_trusted(folder)
    # fork_rng: initialising a part that the folder does not fill would otherwise move the caller's random state.
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        model = _pretrained(folder, auto, dtype) if weights == "pretrained" else _random(folder, seed)
        tokenizer = _loaded(folder, AutoTokenizer.from_pretrained)
    digest = _weights_digest(folder) if weights == "pretrained" else f"random:{seed}"
    n_layers = model.config.get_text_config().num_hidden_layers
    shown = name if _is_id(name) else folder.resolve().name
    return Reader(shown, model.eval(), tokenizer, digest, n_layers, weights)


def _is_id(name: str | Path) -> bool:
    return isinstance(name, str) and not {os.sep, "/"} & set(name)


def _folder(name: str | Path) -> Path:
    if _is_id(name):
        if find(name).kind != "model":
            raise AssetError(f"asset '{name}' is data, not a model")
        return locate(name)
    folder = Path(name)
    if not folder.is_dir():
        raise AssetError(f"model folder '{folder}' does not exist")
    return folder


def _refuse_what_cannot_be_trusted(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise AssetError(f"model folder '{folder}' has no config.json")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(p.name for pattern in _PICKLES for p in folder.glob(pattern))
        if pickles:
            raise AssetError(
                f"'{folder / pickles[0]}' is a pickle, which can run code: convert it to safetensors"
            )
        raise AssetError(f"model folder '{folder}' has no *.safetensors")
    if code := sorted(p.name for p in folder.glob("*.py")):
        raise AssetError(
            f"model folder '{folder}' brings code ({code[0]}): only architectures of transformers load"
        )
    for config in sorted(folder.glob("*config.json")):
        _refuse_code_in(config)
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise AssetError(f"model folder '{folder}' has no tokenizer (one of {', '.join(_TOKENIZER_FILES)})")


def _refuse_code_in(config: Path) -> None:
    try:
        entries = list(_entries(json.loads(config.read_text(encoding="utf-8"))))
    except ValueError as error:
        raise AssetError(f"'{config}' is not valid JSON: {error}") from None
    for key, value in entries:
        # An attention implementation with a slash names a hub repository whose kernel code would be run.
        kernel = key.lstrip("_") == "attn_implementation" and "/" in str(value)
        if key in ("auto_map", "_attn_implementation_internal") or kernel:
            raise AssetError(
                f"'{config}' asks for code to be run ({key}): only architectures of transformers load"
            )


def _entries(node: object) -> Iterator[tuple[str, object]]:
    for key, value in node.items() if isinstance(node, dict) else ():
        yield key, value
        yield from _entries(value)


def _pretrained(folder: Path, auto: type, dtype: torch.dtype | str) -> PreTrainedModel:
    options = {"use_safetensors": True, "dtype": dtype, "output_loading_info": True}
    model, info = _loaded(folder, auto.from_pretrained, **options)
    missing = sorted(info["missing_keys"])
    # Nothing reads the pooler, and a folder saved from a masked language model has none.
    pooler = [key for key in missing if key.startswith("pooler.")]
    if pooler:
        model.pooler = None
    if len(pooler) < len(missing):
        first = next(key for key in missing if key not in pooler)
        raise AssetError(
            f"model folder '{folder}' lacks {len(missing) - len(pooler)} weights, among them {first}"
        )
    return model


def _random(folder: Path, seed: int) -> PreTrainedModel:
    config = _loaded(folder, AutoConfig.from_pretrained)
    torch.manual_seed(seed)
    return AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)


def _loaded(folder: Path, load, **options):
    try:
        return load(folder, **_OFFLINE, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AssetError(f"model folder '{folder}' could not be loaded: {reason}") from None


def _weights_digest(folder: Path) -> str:
    lines = (f"{sha256(path)}  {path.name}\n" for path in sorted(folder.glob("*.safetensors")))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
