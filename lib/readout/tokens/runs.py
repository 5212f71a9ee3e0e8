"""What is generated, under which conditions, and where it lies: the plan that `generate` and `align` share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from readout.errors import ParameterError
from readout.generation.prompts import Prompt, ask
from readout.generation.sample import generate
from readout.generation.sampling import Sampling
from readout.generation.shards import ATTENTION
from readout.generation.shards import Plan as ShardPlan
from readout.paths import folders, root
from readout.pipeline.files import replace_text
from readout.sources.models import Reader, load_causal, load_model
from readout.states import Site, resolve_precision
from readout.tokens.domains import (
    Domain,
    caption_domain,
    load_domain,
    problem_domain,
    protein_domain,
    save_domain,
)
from readout.tokens.measures import Answers
from readout.tokens.phases import PHASES, phases
from readout.tokens.store import Written, write
from readout.training.checkpoints import content_address

DOMAINS = ("captions", "problems", "proteins")
RECALL = "Let me recall what I know"
CONTROLS = ("Let me think about it now", "Here is the answer to it")
"""Injected phrases: the paper's, and two of as many words that recall nothing."""


@dataclass(frozen=True)
class Plan:
    """Sizes, model and sampling of both stages; the defaults are the tiny profile. See `tokens/generate` for units."""

    model: str = "smollm2-135m-instruct"
    reader: str = "all-minilm-l6-v2"
    encoder: str = "efficientnet-lite0"
    captions: str = "openmoji"
    problems: Sequence[str] = ("champ",)
    n_captions: int = 16
    n_problems: int = 8
    n_proteins: int = 8
    n_controls: int = 8
    seeds: Sequence[int] = (0, 1)
    max_new_tokens: int = 8
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: bool = True
    layers: Sequence[int] = (15, 30)
    batch_size: int = 8
    precision: str = "float32"

    def __post_init__(self):
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(value))
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ParameterError(f"seeds = {list(self.seeds)}: name at least one, each once")

    @property
    def corpora(self) -> dict[str, str]:
        """What the items of each domain come from."""
        return {"captions": self.captions, "problems": " + ".join(self.problems), "proteins": "PDB"}


class Study:
    """The generations of a plan: `answers` gives those of a domain and condition, written if they are not there yet."""

    def __init__(self, plan: Plan, store: Path | None = None):
        self.plan = plan
        self.store = store or root() / "results" / "generations"

    @cached_property
    def reader(self) -> Reader:
        """The model that writes."""
        return load_causal(self.plan.model)

    @cached_property
    def other(self) -> Reader:
        """A model that only reads."""
        return load_model(self.plan.reader)

    @cached_property
    def precision(self) -> str:
        """What `precision` comes down to on this machine."""
        return resolve_precision(self.plan.precision, self.reader.model)

    @cached_property
    def layers(self) -> list[int]:
        """The layers whose tokens are kept, the last one among them."""
        return sorted({*self.plan.layers, self.reader.n_layers})

    @property
    def final(self) -> Site:
        """What the model gives out."""
        return Site(self.reader.n_layers, self.reader.n_layers, "final")

    @cached_property
    def sampling(self) -> Sampling:
        """The checkpoint's own sampling, with what the plan says instead."""
        own = Sampling.of_checkpoint(self.reader.model)
        given = {name: getattr(self.plan, name) for name in ("temperature", "top_p", "top_k")}
        return Sampling(**asdict(own) | {name: value for name, value in given.items() if value is not None})

    def domain(self, name: str) -> Domain:
        """The items of a domain with their targets, which are read once and kept in the store.

        Raises ParameterError for an unknown domain.
        """
        if name not in DOMAINS:
            raise ParameterError(f"domain {name!r}: expected one of {', '.join(DOMAINS)}")
        path = self.store / f"{name}-{content_address(self._about(name))}.safetensors"
        if not path.exists():
            save_domain(self._domain(name), path)
        return load_domain(path)

    def _domain(self, name: str) -> Domain:
        plan, reading = self.plan, {"precision": self.precision, "progress": True}
        if name == "captions":
            return caption_domain(plan.n_captions, corpus=plan.captions, encoder=plan.encoder)
        if name == "problems":
            return problem_domain(
                plan.n_problems, [self.other, self.reader], corpora=plan.problems, **reading
            )
        return protein_domain(plan.n_proteins)

    def _about(self, name: str) -> dict:
        """What decides the items of a domain and their targets, code aside."""
        plan = self.plan
        if name == "captions":
            return {"n": plan.n_captions, "corpus": plan.captions, "encoder": plan.encoder}
        if name == "proteins":
            return {"n": plan.n_proteins}
        readers = [self.other.digest, self.reader.digest]
        return {
            "n": plan.n_problems,
            "corpora": plan.problems,
            "readers": readers,
            "precision": self.precision,
        }

    def prompts(self, domain: Domain) -> list[Prompt]:
        """The domain's prompt about each of its items."""
        tokenizer, thinking = self.reader.tokenizer, self.plan.thinking
        return [ask(tokenizer, domain.prompt, text, thinking=thinking) for text in domain.texts]

    def written(self, domain: Domain, *, seed: int) -> Written:
        """What the model writes about each item, with the states of its tokens at `layers`."""
        return self._write(domain, self.prompts(domain), seeds=[seed], what=f"{domain.name}, seed {seed}")[
            seed
        ]

    def all_seeds(self, domain: Domain) -> list[Written]:
        """`written` for every seed of the plan; `echo` is read along."""
        options = {"given": {"echo": self._echoes(domain)}, "what": domain.name}
        found = self._write(domain, self.prompts(domain), seeds=self.plan.seeds, **options)
        return [found[seed] for seed in self.plan.seeds]

    def echo(self, domain: Domain) -> Written:
        """Each item's own text, over and over, in place of an answer to its prompt."""
        return self.read(domain, {"echo": self._echoes(domain)})["echo"]

    def read(
        self,
        domain: Domain,
        given: Mapping[str, Sequence[Sequence[int]]],
        *,
        begun: Sequence[Sequence[int]] | None = None,
        bare: bool = False,
        n_tokens: int | None = None,
    ) -> dict[str, Written]:
        """Continuations of the domain's prompts, by name, read and not written; their states are as of `written`.

        begun: tokens between each prompt and its continuations. bare: continuations of a start token alone.
        """
        tokenizer, prompts = self.reader.tokenizer, self.prompts(domain)
        if bare:
            start = next(i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id, 0) if i is not None)
            prompts = [Prompt((start,), 0, 1)] * len(domain)
        if begun is not None:
            prompts = [_longer(prompt, tokens) for prompt, tokens in zip(prompts, begun, strict=True)]
        return self._write(domain, prompts, given=given, n_tokens=n_tokens, what=", ".join(given))

    def injected(
        self, domain: Domain, phrases: Sequence[str], begun: Sequence[Sequence[int]], n_after: int, seed: int
    ) -> dict[str, Written]:
        """Answers that begin with `begun`, go on with a phrase, and then for `n_after` tokens as the model likes.

        Their tokens are those of the phrase and what follows. Every phrase meets the same random numbers.
        """
        model, tokenizer, prompts = self.reader.model, self.reader.tokenizer, self.prompts(domain)
        added = {p: tokenizer(f" {p}", add_special_tokens=False)["input_ids"] for p in phrases}
        led = [
            (*prompt.ids, *b, *added[phrase])
            for phrase in phrases
            for prompt, b in zip(prompts, begun, strict=True)
        ]
        options = {"sampling": self.sampling, "seed": seed, "max_new_tokens": n_after}
        options |= {"batch_size": self.plan.batch_size, "precision": self.precision}
        samples = iter(generate(model, tokenizer, led, ids=domain.ids * len(phrases), **options))
        after = {phrase: [[*added[phrase], *next(samples).tokens] for _ in prompts] for phrase in phrases}
        return self.read(domain, after, begun=begun, n_tokens=n_after + max(self.phrase_lengths.values()))

    def answers(
        self,
        domain: Domain,
        written: Written,
        target: str,
        rows: torch.Tensor | None = None,
        *,
        site: Site | None = None,
        echo: Written | None = None,
        attention: bool = False,
    ) -> Answers:
        """The states of some samples (by default all with content) beside their targets.

        site: by default the final one. echo: what stands beside the prompts as their echo. attention: with the final
        states pooled by the model's attention.
        """
        rows = written.has_content if rows is None else rows
        site = site or self.final
        names = {"mean": "prompt_mean", "text mean": "caption_mean", "last": "prompt_last"}
        states, mask = written.states(site)[rows], written.mask[rows]
        longest = int(mask.sum(dim=1).max())
        prompts = {name: written.pooled(site, pooling)[rows] for name, pooling in names.items()}
        if echo is not None:
            prompts["echo"] = echo.pooled(site, "generated_mean")[rows]
        return Answers(
            states[:, :longest],
            mask[:, :longest],
            prompts,
            domain.targets[target][rows].double(),
            written.pooled(self.final, ATTENTION)[rows].double() if attention else None,
        )

    def of_seeds(
        self, domain: Domain, written: Sequence[Written], target: str, rows: torch.Tensor
    ) -> list[Answers]:
        """`answers` of several decoding seeds on the same items, pooled by attention too and with the echo."""
        echo = self.echo(domain)
        return [self.answers(domain, one, target, rows, echo=echo, attention=True) for one in written]

    @cached_property
    def phrase_lengths(self) -> dict[str, int]:
        """How many tokens each injected phrase has."""
        encode = self.reader.tokenizer
        return {p: len(encode(f" {p}", add_special_tokens=False)["input_ids"]) for p in (RECALL, *CONTROLS)}

    def by_site(
        self, domain: Domain, written: Sequence[Written], target: str, rows: torch.Tensor
    ) -> list[dict[Site, Answers]]:
        """For each seed `answers` at every layer whose tokens were kept, after the final norm, from the lowest up."""
        sites = [Site(layer, self.reader.n_layers, "final") for layer in self.layers]
        echo = self.echo(domain)
        return [
            {site: self.answers(domain, one, target, rows, site=site, echo=echo) for site in sites}
            for one in written
        ]

    def phases(self, domain: Domain, written: Written, rows: torch.Tensor | None = None) -> np.ndarray:
        """The phase of every token of some samples, by default of those with content."""
        kept = (written.has_content if rows is None else rows).nonzero()[:, 0].tolist()
        prompts, tokens = self.prompts(domain), written.tokens
        own = [prompts[row].ids[prompts[row].start : prompts[row].stop] for row in kept]
        return phases([tokens[row] for row in kept], own)

    def marked(self, domain: Domain, written: Written, row: int) -> str:
        """One text with its tokens of preamble in (round) and of repetition in [square] brackets, escaped."""
        marks = {"preamble": "({})", "repetition": "[{}]", "content": "{}"}
        rows, found = written.has_content.nonzero()[:, 0].tolist(), self.phases(domain, written)
        pieces = (self.reader.tokenizer.decode([token]) for token in written.tokens[rows[row]])
        said = (marks[PHASES[p]].format(piece) for piece, p in zip(pieces, found[row], strict=False))
        return repr("".join(said))

    def _echoes(self, domain: Domain) -> list[list[int]]:
        length = self.plan.max_new_tokens
        own = self.reader.tokenizer([f" {text}" for text in domain.texts], add_special_tokens=False)[
            "input_ids"
        ]
        return [(text * length)[:length] for text in own]

    def _write(
        self, domain: Domain, prompts: Sequence[Prompt], *, n_tokens: int | None = None, **options
    ) -> dict[int | str, Written]:
        layers = tuple(self.layers)
        shards = ShardPlan(
            self.sampling,
            n_tokens or self.plan.max_new_tokens,
            layers=layers,
            token_layers=layers,
            attention=True,
            dtype="float32",
            batch_size=self.plan.batch_size,
            precision=self.precision,
        )
        return write(self.reader, prompts, domain.ids, shards, self.store, **options)


def common(written: Sequence[Written]) -> torch.Tensor:
    """The items to which every one of some runs has written something."""
    return torch.stack([one.has_content for one in written]).all(dim=0)


def _longer(prompt: Prompt, tokens: Sequence[int]) -> Prompt:
    return Prompt((*prompt.ids, *tokens), prompt.start, prompt.stop)


def write_plan(plan: Plan, profile: str, texts: str) -> None:
    """Leave the plan, and the digest of all that was written, for the stage that reads it."""
    path = folders(profile, "generate")[0] / "plan.json"
    replace_text(path, json.dumps({"plan": asdict(plan), "texts": texts}, indent=1, sort_keys=True) + "\n")


def read_plan(profile: str) -> Plan:
    """The plan that `generate` left in this profile; in `scratch`, where it may never have run, the default."""
    path = folders(profile, "generate")[0] / "plan.json"
    if not path.exists():
        if profile == "scratch":
            return Plan()
        raise ParameterError(f"profile = {profile!r}: run `dvc repro generate@{profile}` first")
    return Plan(**json.loads(path.read_text(encoding="utf-8"))["plan"])


def texts_table(written: dict[str, list[Written]]) -> pd.DataFrame:
    """Every text with its domain, id, seed, tokens, stop and counts, in one table."""
    tables = [w.table.drop(columns="key").assign(domain=name) for name, ws in written.items() for w in ws]
    return pd.concat(tables, ignore_index=True)
