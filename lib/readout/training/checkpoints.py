"""Weights on disk: safetensors beside JSON, written whole or not at all, and checked whenever they are read."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from readout.errors import AssetError
from readout.pipeline.files import replace_text
from readout.sources.assets import sha256

RECORD = "run.json"


def save_tensors(tensors: dict[str, Tensor], path: Path, about: dict[str, str] | None = None) -> None:
    """One safetensors file at one stroke: a reader sees the old file, the new one or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, part, about)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@dataclass
class Checkpoints:
    """The checkpoints of one training run, in a folder named after everything that decides its weights.

    spec: what was trained, and how; `sha256` by step and `losses` by step (nats) fill while it trains.
    """

    folder: Path
    spec: dict
    sha256: dict[int, str] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    finished: bool = False

    @classmethod
    def read(cls, folder: Path) -> "Checkpoints":
        """The run in `folder`; AssetError where there is none or its record is damaged."""
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            steps = {int(step): digest for step, digest in record.pop("sha256").items()}
            return cls(folder, sha256=steps, **record)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise AssetError(f"no training run in '{folder}' ({error}); train it again") from None

    def write(self) -> None:
        """Put the record in place."""
        record = {name: value for name, value in asdict(self).items() if name != "folder"}
        replace_text(self.folder / RECORD, json.dumps(record, indent=1) + "\n")

    def path(self, step: int) -> Path:
        """The file of one step's weights."""
        return self.folder / f"step-{step:06d}.safetensors"

    def save(self, step: int, module: nn.Module) -> None:
        """Write the weights at `step` and note their digest.

        Raises AssetError where they equal those of an earlier step: nothing was learned in between, or the same
        file went out twice.
        """
        save_tensors(module.state_dict(), self.path(step))
        digest = sha256(self.path(step))
        self.refuse_duplicates({**self.sha256, step: digest})
        self.sha256[step] = digest

    def refuse_duplicates(self, digests: dict[int, str]) -> None:
        """AssetError that names two steps with the same weights."""
        seen: dict[str, int] = {}
        for step, digest in sorted(digests.items()):
            if digest in seen:
                raise AssetError(
                    f"checkpoints of steps {seen[digest]} and {step} in '{self.folder.name}' hold the same weights"
                )
            seen[digest] = step

    def load_into(self, module: nn.Module, step: int | None = None, **expected: object) -> None:
        """Fill `module` with the weights of `step` (by default the last).

        expected: parts of the spec that the caller relies on, such as model="all-minilm-l6-v2", scorer="li".
        Raises AssetError for another model or scorer, a step that was not kept, a file that is missing or changed,
        or weights that do not fit the module.
        """
        for name, value in expected.items():
            if self.spec.get(name) != value:
                raise AssetError(
                    f"checkpoint '{self.folder.name}' has {name} {self.spec.get(name)!r}, not {value!r}"
                )
        step = max(self.sha256, default=None) if step is None else step
        if step not in self.sha256:
            raise AssetError(f"checkpoint of step {step} was not kept; there are {sorted(self.sha256)}")
        self.refuse_duplicates(self.sha256)
        path = self.path(step)
        if not path.exists() or sha256(path) != self.sha256[step]:
            raise AssetError(
                f"'{path.name}' of '{self.folder.name}' is missing or was changed; train it again"
            )
        missing, unexpected = module.load_state_dict(load_file(path), strict=False)
        if missing or unexpected:
            raise AssetError(
                f"'{path.name}' of '{self.folder.name}' does not fit: {len(missing)} weights missing, "
                f"{len(unexpected)} unexpected, among them {[*missing, *unexpected][0]}"
            )


def content_address(spec: dict) -> str:
    """The name of a run's folder: first 16 hex digits of the SHA-256 of its spec.

    >>> content_address({"a": 1, "b": 2}) == content_address({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def save_resume_point(path: Path, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Everything needed to go on after `step` steps, in one file: weights and the optimizer's moments."""
    moments = {
        f"optimizer.{index}.{name}": tensor
        for index, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    weights = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    save_tensors(weights | moments, path, {"step": str(step)})
