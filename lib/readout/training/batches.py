"""Triplets as token ids, dealt into batches that depend on the step alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from datasets import Dataset
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from readout.errors import ParameterError, TextError, TooFewError
from readout.scorers import skip_list

PARTS = ("anchor", "positive", "negative")


@dataclass(frozen=True)
class Padded:
    """Token ids of several texts, padded on the right."""

    input_ids: Int[Tensor, "text token"]
    mask: Bool[Tensor, "text token"]
    content: Bool[Tensor, "text token"]


@dataclass(frozen=True)
class TripletBatches:
    """Tokenized triplets in their order of training.

    ids[part][row]: token ids; sets[part, row]: a number for each author-set; skipped: the vocabulary's skip list;
    n_truncated: texts that were cut to `max_tokens`. Without hard negatives there are two parts.
    """

    ids: list[list[list[int]]]
    sets: Int[Tensor, "part row"]
    skipped: Bool[Tensor, " vocab"]
    n_truncated: int

    @classmethod
    def of(
        cls, triplets: Dataset, tokenizer: PreTrainedTokenizerBase, max_tokens: int = 128
    ) -> "TripletBatches":
        """Tokenize; a data set without the column `negative` has only the other positives as negatives.

        Raises TextError, naming part and row, for a text that is missing, empty or without a token; ParameterError
        for `max_tokens` below 3.
        """
        if max_tokens < 3:
            raise ParameterError(f"max_tokens: {max_tokens} leaves no room beside special tokens; at least 3")
        parts = [part for part in PARTS if part in triplets.column_names]
        tokenized = [_tokenize(tokenizer, part, triplets[part][:], max_tokens) for part in parts]
        names = [triplets[f"{part}_author_set"][:] for part in parts]
        codes = {name: code for code, name in enumerate(sorted({n for of_part in names for n in of_part}))}
        sets = torch.tensor([[codes[name] for name in of_part] for of_part in names])
        cut = sum(n_cut for _, n_cut in tokenized)
        return cls([ids for ids, _ in tokenized], sets, skip_list(tokenizer), cut)

    def __len__(self) -> int:
        return len(self.ids[0])

    def rows(self, step: int, batch_size: int) -> range:
        """The triplets of a step: the next `batch_size`, from the start again once all are used.

        Raises TooFewError where one batch is more than there is.
        """
        if batch_size > len(self):
            raise TooFewError(
                f"batch_size: {batch_size} is more than the {len(self)} triplets there are; draw more"
            )
        start = step % (len(self) // batch_size) * batch_size
        return range(start, start + batch_size)

    def padded(self, part_rows: Sequence[tuple[int, int]], device: torch.device | str = "cpu") -> Padded:
        """The texts at (part, row), padded to the longest of them."""
        texts = [torch.tensor(self.ids[part][row]) for part, row in part_rows]
        input_ids = nn.utils.rnn.pad_sequence(texts, batch_first=True)
        lengths = torch.tensor([len(text) for text in texts])
        mask = torch.arange(input_ids.shape[1]) < lengths[:, None]
        content = mask & ~self.skipped[input_ids]
        return Padded(input_ids.to(device), mask.to(device), content.to(device))


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, part: str, texts: Sequence[str | None], max_tokens: int
) -> tuple[list[list[int]], int]:
    for row, text in enumerate(texts):
        if not (text or "").strip():
            raise TextError(f"{part} of triplet {row}: {text!r} is no text; leave the triplet out")
    # One token of slack tells a text that fits from one that is cut.
    options = {"truncation": True, "verbose": False, "return_attention_mask": False}
    full = tokenizer(list(texts), max_length=max_tokens + 1, **options)["input_ids"]
    long = [row for row, ids in enumerate(full) if len(ids) > max_tokens]
    if long:
        cut = tokenizer([texts[row] for row in long], max_length=max_tokens, **options)["input_ids"]
        for row, ids in zip(long, cut, strict=True):
            full[row] = ids
    return full, len(long)
