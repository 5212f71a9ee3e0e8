"""A quantised GGUF file made into an ordinary safetensors folder, once, so that a model loads in a moment.

Dequantising takes seconds at every load and needs the `gguf` package; the folder written here holds the same
numbers in float32 with the config, tokenizer, chat template and generation config that the file carried.
The rounding of the quantisation stays: the result is near the original weights, not equal to them.
"""

import json
from contextlib import contextmanager
from pathlib import Path

from readout.sources.assets import sha256

_NOT_THE_MODELS = {
    "config.json": ("_model_name_or_path", "transformers_version"),
    "generation_config.json": ("_from_model_config", "transformers_version"),
    "tokenizer_config.json": ("is_local", "local_files_only"),
}


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
