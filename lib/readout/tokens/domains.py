"""The three domains of alignment: texts to write about, and what their states are compared with.

A domain is texts, the prompt that asks for them, and targets: one vector an item that no part of the generation has
seen. Targets are read once and hold nothing of a language model's answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from readout.errors import AssetError, ParameterError
from readout.generation.prompts import PROMPTS
from readout.sources.captions import captions
from readout.sources.composition import composition
from readout.sources.models import Reader
from readout.sources.problems import problems
from readout.sources.proteinmpnn import structure_features
from readout.sources.structures import backbones, proteins
from readout.sources.vision import image_features
from readout.states import Pool, masked_mean, read
from readout.training.checkpoints import save_tensors


@dataclass(frozen=True)
class Domain:
    """Items of one kind. prompt: a name of `PROMPTS`. targets: by name, a row an item. left_out: what was, and why."""

    name: str
    ids: list[str]
    texts: list[str]
    prompt: str
    targets: dict[str, Float[Tensor, "item _"]]
    left_out: str = ""

    def __post_init__(self):
        sizes = {len(self.ids), len(self.texts), *(len(target) for target in self.targets.values())}
        if len(sizes) > 1:
            raise ParameterError(f"domain {self.name!r}: ids, texts and targets are of {sorted(sizes)} items")
        if self.prompt not in PROMPTS:
            raise ParameterError(f"prompt {self.prompt!r}: expected one of {', '.join(PROMPTS)}")

    def __len__(self) -> int:
        return len(self.ids)

    def worded(self, name: str, texts: Sequence[str]) -> "Domain":
        """The same items under other texts."""
        return replace(self, name=f"{self.name}, {name}", texts=list(texts))

    def take(self, rows: Sequence[int]) -> "Domain":
        """Some of the items."""
        index = torch.tensor(list(rows))
        return Domain(
            self.name,
            [self.ids[row] for row in rows],
            [self.texts[row] for row in rows],
            self.prompt,
            {name: target[index] for name, target in self.targets.items()},
            self.left_out,
        )


def save_domain(domain: Domain, path: Path) -> None:
    """Put a domain into one safetensors file, its texts beside the targets."""
    about = {name: getattr(domain, name) for name in ("name", "ids", "texts", "prompt", "left_out")}
    about["targets"] = list(domain.targets)
    save_tensors(domain.targets, path, {"domain": json.dumps(about)})


def load_domain(path: Path) -> Domain:
    """What `save_domain` put there; AssetError where it cannot be read."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["domain"])
            # In the order in which they were given: the first target is the main one.
            targets = {name: file.get_tensor(name) for name in about.pop("targets")}
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise AssetError(f"domain '{path.name}' cannot be read ({error}); delete it and run again") from None
    return Domain(**about, targets=targets)


def caption_domain(
    n: int,
    *,
    corpus: str = "openmoji",
    wording: str = "short",
    encoder: str = "efficientnet-lite0",
    seed: int = 0,
) -> Domain:
    """Captions against the features of their images."""
    pairs = captions(n, corpus=corpus, wording=wording, seed=seed)
    features = image_features(pairs["image"][:], encoder, progress=True)
    return Domain(
        "captions", pairs["id"][:], pairs["text"][:], "imagine_see", {f"image, {encoder}": features}
    )


def problem_domain(
    n: int, readers: Sequence[Reader], *, corpora: Sequence[str] = ("champ",), seed: int = 0, **reading
) -> Domain:
    """Problems against their gold solutions, as each of some models reads them: mean state at its last layer.

    A solution read by the model that generates shares its space, so a second reader stands beside it.
    """
    share = [n // len(corpora) + (i < n % len(corpora)) for i in range(len(corpora))]
    drawn = [problems(source, k, seed=seed) for source, k in zip(corpora, share, strict=True) if k]
    ids = [f"{row['source']}/{row['id']}" for part in drawn for row in part]
    texts = [row["text"] for part in drawn for row in part]
    solutions = [row["solution"] for part in drawn for row in part]
    targets = {f"solution, {reader.name}": mean_at_end(reader, solutions, **reading) for reader in readers}
    prompt = "gpqa_solve" if set(corpora) == {"gpqa-diamond"} else "math_solve"
    left_out = "; ".join(part.info.description for part in drawn)
    return Domain("problems", ids, texts, prompt, targets, left_out)


def mean_at_end(reader: Reader, texts: Sequence[str], **reading) -> Float[Tensor, "text dim"]:
    """The mean over tokens of what the model gives out, one vector a text."""
    pool = Pool(masked_mean, len(texts))
    options = {"norms": ("final",), "layers": [reader.n_layers], "max_tokens": 256} | reading
    read(reader.model, reader.tokenizer, texts, [pool], **options)
    return pool.states("final")[0]


def protein_domain(n: int, *, seed: int = 0) -> Domain:
    """Proteins, described by name, keywords and organism, against the states of a structure encoder.

    Beside it stands what needs no model: how often each amino acid occurs in the chain.
    """
    found = proteins(n, seed=seed)
    targets = {
        "structure, proteinmpnn": structure_features(backbones(found), progress=True),
        "amino-acid composition": composition(found["sequence"][:]),
    }
    return Domain("proteins", found["id"][:], found["text"][:], "protein", targets, found.info.description)
