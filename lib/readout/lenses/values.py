"""Values that may not exist: a scalar is a tensor or an `Absent`; a batch is a `PerText`. Never NaN."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int8
from torch import Tensor

from readout.errors import DegenerateError, ParameterError

CONVENTIONS = ("corrected", "as_published")
"""The formula as the paper's text defines it, and what the authors' public code computes."""


class Why(IntEnum):
    """Why a text has no value, as a code that fits one byte per text; `reason` is the sentence."""

    DEFINED = 0
    NOT_READ = 1
    NO_TOKEN = 2
    ONE_TOKEN = 3
    NO_ROOM = 4
    IDENTICAL = 5
    NO_DIRECTION = 6
    FEW_TOKENS = 7
    NO_STEP = 8

    @property
    def reason(self) -> str:
        """The sentence for a table or a message; empty where the value is defined."""
        return _REASONS[self]


_REASONS = {
    Why.DEFINED: "",
    Why.NOT_READ: "the text has not been read",
    Why.NO_TOKEN: "no token",
    Why.ONE_TOKEN: "one token: nothing is left after centring",
    Why.NO_ROOM: "two tokens or one dimension: the greatest possible entropy is 0",
    Why.IDENTICAL: "all tokens are identical",
    Why.NO_DIRECTION: "a token equals the mean of its text and has no direction",
    Why.FEW_TOKENS: "fewer than three tokens make no angle",
    Why.NO_STEP: "every angle touches a step of zero length",
}


@dataclass(frozen=True)
class Absent:
    """A value that is undefined, and the reason."""

    reason: str


@dataclass(frozen=True)
class PerText:
    """One value for each text, or the reason why there is none.

    >>> result = PerText(torch.tensor([0.5, 0.0]), torch.tensor([0, 3], dtype=torch.int8))
    >>> list(result)
    [0.5, Absent(reason='one token: nothing is left after centring')]
    >>> result.values
    tensor([0.5000])
    """

    filled: Float[Tensor, "text"]
    """The values, with 0 where there is none; read `values` unless the places are needed."""
    why: Int8[Tensor, "text"]
    """A `Why` code for each text."""

    @property
    def defined(self) -> Bool[Tensor, "text"]:
        """True for the texts that have a value."""
        return self.why == Why.DEFINED

    @property
    def values(self) -> Float[Tensor, "defined"]:
        """The defined values alone, in the order of the texts."""
        return self.filled[self.defined]

    def __len__(self) -> int:
        return len(self.filled)

    def __getitem__(self, text: int) -> float | Absent:
        why = Why(int(self.why[text]))
        return Absent(why.reason) if why else float(self.filled[text])

    @classmethod
    def masked(cls, values: Float[Tensor, "text"], why: Int8[Tensor, "text"]) -> "PerText":
        """Values computed for all texts at once, cleared wherever `why` says that they mean nothing."""
        return cls(values.masked_fill(why != Why.DEFINED, 0.0), why)

    @classmethod
    def cat(cls, parts: list["PerText"]) -> "PerText":
        """The texts of several batches, in order."""
        return cls(torch.cat([p.filled for p in parts]), torch.cat([p.why for p in parts]))


def single(result: PerText, name: str) -> Float[Tensor, ""] | Absent:
    """The value of a batch of one text, for a metric that was called on one tensor.

    Degenerate tokens are a `DegenerateError` there, while in a batch one such text must not end the run;
    a text too short to have the value is absent in both.
    """
    why = Why(int(result.why[0]))
    if why in (Why.IDENTICAL, Why.NO_DIRECTION):
        raise DegenerateError(f"{name}: {why.reason}")
    return Absent(why.reason) if why else result.filled[0]


def check_choice(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse anything but a sequence of some of the known words, by `ParameterError`."""
    if isinstance(given, str) or not given or not set(given) <= set(known):
        raise ParameterError(f"{name}={given!r}; a sequence of some of {', '.join(known)} is needed")
