"""What a table rests on: code, versions, models, data, precision, device, threads, parameters.

The record holds what decides the numbers and nothing that changes from run to run, so that two runs on one
machine write the same bytes; commit, wall time and peak memory are in the runner's own record of the run.
"""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

from readout.paths import root

PACKAGES = ("torch", "transformers", "numpy", "scipy", "pandas", "readout")


def digest(record: dict) -> str:
    """First 12 hex digits of the SHA-256 of a record, whatever the order of its keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]


def provenance(
    notebook: str, *, parameters: dict, models: dict[str, str], data: dict[str, str], **more
) -> dict:
    """The record for the tables of one notebook.

    `notebook` is its path below `notebooks/` without the ending; `models` and `data` map names to digests;
    `more` adds fields such as the precision that a run came down to.
    """
    import torch

    from readout.pipeline.fingerprint import fingerprint

    path = root() / "notebooks" / f"{notebook}.ipynb"
    return {
        "notebook": notebook,
        "code": digest(fingerprint(Path(path))),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "models": models,
        "data": data,
        **more,
    }
