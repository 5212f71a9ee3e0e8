"""One training loop for scorers and small language models, on one process or many, resumed bit by bit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from accelerate import Accelerator
from safetensors import safe_open
from torch import nn

from readout.errors import NonFiniteError, ParameterError
from readout.progress import progress_bar
from readout.training.checkpoints import Checkpoints, save_resume_point
from readout.training.schedule import warm_up_cosine

RESUME = "resume.safetensors"


@runtime_checkable
class Objective(Protocol):
    """What is minimised. All randomness of a step must follow from the step, so that a resumed run is the same."""

    def backward(self, step: int) -> float:
        """Adds this process's share of the gradient at `step`; returns the loss of the whole batch."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: steps, AdamW's peak learning rate and weight decay, share of warm-up, what is kept.

    checkpoints: steps after which weights are kept, 0 for those before the first. resume_every: steps between
    points from which a killed run goes on; beside these it goes on from any checkpoint but the first.
    """

    n_steps: int
    learning_rate: float = 3e-5
    weight_decay: float = 0.1
    warm_up: float = 0.1
    checkpoints: tuple[int, ...] = (0,)
    resume_every: int = 500

    def __post_init__(self):
        if self.n_steps < 1 or self.resume_every < 1:
            raise ParameterError(
                f"n_steps: {self.n_steps}, resume_every: {self.resume_every}; both at least 1"
            )
        if not 0 < self.learning_rate < 1 or not 0 <= self.warm_up < 1:
            raise ParameterError(
                f"learning_rate: {self.learning_rate}, warm_up: {self.warm_up}; expected in (0, 1) and [0, 1)"
            )
        wrong = [step for step in self.checkpoints if not 0 <= step <= self.n_steps]
        if wrong or len(set(self.checkpoints)) < len(self.checkpoints) or not self.checkpoints:
            raise ParameterError(
                f"checkpoints: {list(self.checkpoints)} should be different steps in 0..{self.n_steps}"
            )


def fit(
    module: nn.Module,
    objective: Objective,
    schedule: Schedule,
    kept: Checkpoints,
    *,
    accelerator: Accelerator | None = None,
    what: str = "training",
) -> Checkpoints:
    """Trains `module` in place by AdamW, keeps the checkpoints that the schedule names, and returns them.

    A run that was killed goes on from its last resume point with the same bits as one that was not: weights and
    moments are in the point, learning rate and randomness follow from the step. A finished run is left alone, and
    `module` then stays as it is.

    Raises NonFiniteError that names the step at which the loss is no number; the last resume point stays.
    """
    if kept.finished:
        return kept
    accelerator = accelerator or Accelerator()
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    first = _resume(module, optimizer, kept, accelerator)
    module.train()
    with progress_bar(schedule.n_steps, what=what, unit="step", shown=accelerator.is_main_process) as bar:
        bar.update(first)
        for step in range(first, schedule.n_steps):
            if step == 0 and 0 in schedule.checkpoints:
                _on_main(accelerator, lambda: kept.save(0, module))
            kept.losses.append(_step(module, optimizer, objective, schedule, step, accelerator))
            _keep(module, optimizer, schedule, step + 1, kept, accelerator)
            bar.update()
    module.eval()
    return kept


def _step(module, optimizer, objective, schedule: Schedule, step: int, accelerator: Accelerator) -> float:
    share = warm_up_cosine(step, schedule.n_steps, schedule.warm_up)
    for group in optimizer.param_groups:
        group["lr"] = share * schedule.learning_rate
    optimizer.zero_grad()
    loss = objective.backward(step)
    if loss != loss or loss in (float("inf"), float("-inf")):
        raise NonFiniteError(f"loss at step {step} is {loss}; lower learning_rate or raise the temperature")
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad = accelerator.reduce(parameter.grad, reduction="sum")
    optimizer.step()
    return loss


def _keep(module, optimizer, schedule: Schedule, done: int, kept: Checkpoints, accelerator) -> None:
    """After `done` steps: the checkpoint, if one is due, and the point to go on from."""
    finished = done == schedule.n_steps
    due = done in schedule.checkpoints

    def write() -> None:
        if due:
            kept.save(done, module)
        if not (finished or due or done % schedule.resume_every == 0):
            return
        # The record first: a point that is ahead of its record would lose losses, the other way loses nothing.
        kept.finished = finished
        kept.write()
        if finished:
            (kept.folder / RESUME).unlink(missing_ok=True)
        else:
            save_resume_point(kept.folder / RESUME, done, module, optimizer)

    _on_main(accelerator, write)


def _on_main(accelerator: Accelerator, write: Callable[[], None]) -> None:
    if accelerator.is_main_process:
        write()
    accelerator.wait_for_everyone()


def _resume(module: nn.Module, optimizer, kept: Checkpoints, accelerator: Accelerator) -> int:
    """Fills module, optimizer and record from the resume point, if there is one; returns the steps already done."""
    path = kept.folder / RESUME
    if not path.exists():
        kept.losses, kept.sha256 = [], {}
        return 0
    with safe_open(path, "pt", device=str(accelerator.device)) as file:
        done = int(file.metadata()["step"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    module.load_state_dict(
        {n.removeprefix("module."): t for n, t in tensors.items() if n.startswith("module.")}
    )
    state: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, moment = name.split(".")
            state.setdefault(int(index), {})[moment] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    kept.losses = kept.losses[:done]
    kept.sha256 = {step: digest for step, digest in kept.sha256.items() if step <= done}
    return done
