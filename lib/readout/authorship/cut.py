"""Texts cut to what a model reads of them, so that features of a text and its states speak of the same words."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from readout.errors import ParameterError


def cut_to_tokens(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> tuple[list[str], int]:
    """Each text up to the end of its last token within `max_tokens` (special ones counted), and how many were cut.

    Raises ParameterError for a tokenizer that gives no character offsets.
    """
    if not tokenizer.is_fast:
        raise ParameterError(f"tokenizer: {type(tokenizer).__name__} gives no offsets; load its fast version")
    options = {"truncation": True, "max_length": max_tokens, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(list(texts), **options)["offset_mapping"]
    kept = [text[: max(end for _, end in spans)] for text, spans in zip(texts, offsets, strict=True)]
    return kept, sum(short != text.rstrip() for short, text in zip(kept, texts, strict=True))


def token_lengths(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The number of tokens of each text, special ones counted."""
    ids = tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
    return [len(of_text) for of_text in ids]
