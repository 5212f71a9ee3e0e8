"""A quantised GGUF file or a pickled checkpoint made into a safetensors folder, once, when it is fetched.

Dequantising takes seconds at every load and needs the `gguf` package; the folder written here holds the same
numbers in float32 with the config, tokenizer, chat template and generation config that the file carried.
The rounding of the quantisation stays: the result is near the original weights, not equal to them.

A checkpoint of PyTorch is a pickle, which can run code when it is read; it is read here alone, by the reader that
knows tensors and plain containers and nothing else, and its tensors go on without it.
"""

import json
from contextlib import contextmanager
from pathlib import Path

from readout.errors import AssetError
from readout.sources.assets import sha256

_NOT_THE_MODELS = {
    "config.json": ("_model_name_or_path", "transformers_version"),
    "generation_config.json": ("_from_model_config", "transformers_version"),
    "tokenizer_config.json": ("is_local", "local_files_only"),
}


def to_safetensors(file: Path, folder: Path) -> dict[str, str]:
    """Write the weights of a `.gguf`, `.pt` or `.pth` file to `folder` as safetensors; return their origin."""
    return (gguf_to_safetensors if file.suffix == ".gguf" else pickle_to_safetensors)(file, folder)


def pickle_to_safetensors(pickle: Path, folder: Path) -> dict[str, str]:
    """Write the tensors of a pickled state dict to `folder`, names, shapes and types kept; return their origin.

    A checkpoint that holds more than the state dict has it under `model_state_dict`. Raises AssetError where the
    file holds anything but tensors and plain containers, or no tensor by name.
    """
    import torch
    from safetensors.torch import save_file

    try:
        loaded = torch.load(pickle, map_location="cpu", weights_only=True)
    # Its errors for a damaged file are of many classes, and each of them means that nothing can be used.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise AssetError(f"'{pickle.name}' is no checkpoint of tensors alone: {reason}") from None
    state = loaded.get("model_state_dict", loaded) if isinstance(loaded, dict) else {}
    # The copies stand apart, since safetensors refuses tensors that share memory.
    tensors = {k: v.clone().contiguous() for k, v in state.items() if isinstance(v, torch.Tensor)}
    if not tensors:
        raise AssetError(f"'{pickle.name}' holds no tensor by name; a state dict is needed")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return {"pickle": pickle.name, "sha256": sha256(pickle)}


def gguf_to_safetensors(gguf: Path, folder: Path) -> dict[str, str]:
    """Write the causal language model of a GGUF file to `folder` as float32 safetensors; return its origin.

    The origin names the file, its sha256 and its quantisation, such as `Q4_1`. Two conversions by the same
    versions write the same bytes.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    with quiet_transformers():
        loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32, local_files_only=True)
        _without_quantisation(loaded).save_pretrained(folder)
        AutoTokenizer.from_pretrained(**source, local_files_only=True).save_pretrained(folder)
    for name, keys in _NOT_THE_MODELS.items():
        _drop(folder / name, keys)
    for path in folder.iterdir():
        path.chmod(0o644)
    return _origin(gguf)


@contextmanager
def quiet_transformers():
    """No progress bars and no reports from transformers inside the block: they would end up in notebooks."""
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _without_quantisation(loaded):
    # A model loaded from GGUF refuses to be saved, so its weights move into a fresh one of the same class.
    config = loaded.config.to_dict()
    config.pop("quantization_config", None)
    fresh = type(loaded)(type(loaded.config)(**config))
    fresh.load_state_dict(loaded.state_dict())
    fresh.generation_config = loaded.generation_config
    return fresh


def _drop(path: Path, keys: tuple[str, ...]) -> None:
    if path.exists():
        kept = {k: v for k, v in json.loads(path.read_text(encoding="utf-8")).items() if k not in keys}
        path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _origin(gguf: Path) -> dict[str, str]:
    from gguf import GGUFReader, LlamaFileType

    file_type = LlamaFileType(GGUFReader(gguf).fields["general.file_type"].contents())
    return {"gguf": gguf.name, "sha256": sha256(gguf), "quantisation": file_type.name.removeprefix("MOSTLY_")}
