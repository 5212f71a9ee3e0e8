"""What scorers compare: the token vectors of several texts, and which of them count."""

import string
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from readout.errors import ParameterError, TextError

_NOTHING = frozenset(string.punctuation + string.whitespace)


@dataclass(frozen=True)
class Tokens:
    """Token vectors of several texts, padded on either side.

    mask: real tokens, special ones too. content: those of them that are off the skip list (see `skip_list`).

    Raises ParameterError for masks of another shape, TextError for a text without a real token.

    >>> one = Tokens(torch.ones(1, 2, 3), torch.tensor([[True, True]]), torch.tensor([[True, False]]))
    >>> both = Tokens.cat([one, Tokens(torch.ones(1, 1, 3), *2 * [torch.tensor([[True]])])])
    >>> len(both), both.mask.tolist()
    (2, [[True, True], [True, False]])
    """

    states: Float[Tensor, "text token dim"]
    mask: Bool[Tensor, "text token"]
    content: Bool[Tensor, "text token"]

    def __post_init__(self):
        for name in ("mask", "content"):
            if getattr(self, name).shape != self.states.shape[:2]:
                raise ParameterError(
                    f"{name}: {tuple(getattr(self, name).shape)} for states {tuple(self.states.shape)}; "
                    "expected [text token]"
                )
        if (self.content & ~self.mask).any():
            raise ParameterError("content: marks padding; expected content & mask")
        empty = (~self.mask.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise TextError(f"mask: row {empty[0]} has no real token; leave empty texts out")

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: slice | Int[Tensor, " row"]) -> "Tokens":
        return Tokens(self.states[rows], self.mask[rows], self.content[rows])

    @classmethod
    def cat(cls, parts: list["Tokens"]) -> "Tokens":
        """The texts of all parts, in order, padded on the right to the longest."""
        longest = max(part.states.shape[1] for part in parts)

        def padded(values: Tensor) -> Tensor:
            room = longest - values.shape[1]
            return nn.functional.pad(values, (0, 0) * (values.ndim - 2) + (0, room)) if room else values

        columns = ([padded(getattr(part, name)) for part in parts] for name in ("states", "mask", "content"))
        return cls(*map(torch.cat, columns))


@cache  # a vocabulary takes a good part of a second to go through
def skip_list(tokenizer: PreTrainedTokenizerBase) -> Bool[Tensor, " vocab"]:
    """Which token ids are ASCII punctuation or white space alone; special tokens such as [CLS] are not.

    Late interaction leaves these out on the query's side (arXiv 2605.19908, after ColBERT's).
    """
    skipped = torch.zeros(len(tokenizer), dtype=torch.bool)
    special = set(tokenizer.all_special_ids)
    for token, index in tokenizer.get_vocab().items():
        if index not in special:
            skipped[index] = set(_written(tokenizer, token)) <= _NOTHING
    return skipped


def _written(tokenizer: PreTrainedTokenizerBase, token: str) -> str:
    """What a token stands for in a text; WordPiece's mark of a continuation, ##, is punctuation itself."""
    return tokenizer.convert_tokens_to_string([token])
