"""Spans by three authors in words that the small tokenizer knows or not, and encoders with random weights."""

import random

import torch
from datasets import Dataset

from readout.sources.authors import FEATURES
from readout.training import Encoder

from ..training.small import backbone, tokenizer

__all__ = ["AUTHORS", "backbone", "encoder_of", "ids_and_mask", "spans_of", "text_of", "tokenizer"]

AUTHORS = ["ann", "bob", "cid"]
STRANGE = ["The", "of", "However", "perhaps", "nevertheless"]  # to the tokenizer all the same [UNK]


def text_of(author: int, draw: random.Random) -> str:
    words = [f"w{draw.randrange(12) + 9 * author}" for _ in range(draw.randrange(3, 9))]
    words += draw.sample(STRANGE, draw.randrange(1, 4))
    draw.shuffle(words)
    return " ".join(words).replace(" w", " , w", draw.randrange(3)) + " ."


def spans_of(n_documents=4, per_document=3, config="base-2", split="train", seed=0) -> Dataset:
    draw = random.Random(seed)
    about = {"corpus": "c", "config": config, "domain": "d", "year": None, "split": split}
    rows = [
        about
        | {"text": text_of(author, draw), "authors": [name], "author_set": name}
        | {"document": f"{name}/{split}/{document}", "position": at}
        for author, name in enumerate(AUTHORS)
        for document in range(n_documents)
        for at in range(per_document)
    ]
    return Dataset.from_list(rows, features=FEATURES)


def encoder_of(model=None, **options) -> Encoder:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        encoder = Encoder(model or backbone(), **options).eval()
        for parameter in encoder.parameters():  # as initialised, norms and mixing weights do nothing
            parameter.add_(0.2 * torch.randn_like(parameter))
    return encoder


def ids_and_mask(text: str, max_tokens: int = 128):
    ids = torch.tensor([tokenizer()(text, truncation=True, max_length=max_tokens)["input_ids"]])
    return ids, torch.ones_like(ids, dtype=torch.bool)
