"""Token vectors of many texts, as a scorer compares them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from readout.errors import ParameterError
from readout.scorers import Tokens, skip_list
from readout.states import Reading, Site, read
from readout.training import Encoder


class TokenVectors:
    """Collects what a scorer compares, while `read` runs: 4 * tokens * dim bytes, whatever the number of layers.

    exit_layer: take the states there, after the final norm, in place of the last ones (early exit).
    """

    def __init__(self, encoder: Encoder, n_texts: int, exit_layer: int | None = None):
        if exit_layer is not None and encoder.mix is not None:
            raise ParameterError(f"exit_layer: {exit_layer}, but this encoder mixes all layers")
        self.encoder = encoder
        self.norm = encoder.norm
        self.layers = encoder.layers if exit_layer is None else [exit_layer]
        self._waiting: list[Tensor] = []
        self._texts: list[Tensor | None] = [None] * n_texts

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch at one site; a mix of layers waits for all of them."""
        if site.norm != self.norm or site.layer not in self.layers:
            return
        self._waiting.append(states)
        if site.layer < self.layers[-1]:
            return
        vectors = self.encoder.from_sites(self._waiting)
        self._waiting = []
        for row, text, real in zip(rows.tolist(), vectors, mask, strict=True):
            self._texts[row] = text[real].cpu()

    def texts(self) -> list[Float[Tensor, "token dim"]]:
        """The vectors of each text's real tokens, in the order of the texts."""
        return self._texts


@dataclass(frozen=True)
class Vectors:
    """The token vectors of some texts, ready to be padded into `Tokens`, and what reading them came to."""

    # Texts differ in length: a name for it would be bound to that of one text.
    texts: list[Float[Tensor, "_ dim"]]
    content: list[Bool[Tensor, " _"]]
    reading: Reading
    device: torch.device

    def __len__(self) -> int:
        return len(self.texts)

    def tokens(self, rows: Sequence[int] | None = None) -> Tokens:
        """The texts at `rows` (all by default), padded to the longest of them, on the encoder's device."""
        rows = range(len(self)) if rows is None else rows
        states = nn.utils.rnn.pad_sequence([self.texts[row] for row in rows], batch_first=True)
        content = nn.utils.rnn.pad_sequence([self.content[row] for row in rows], batch_first=True)
        lengths = torch.tensor([len(self.texts[row]) for row in rows])
        mask = torch.arange(states.shape[1]) < lengths[:, None]
        return Tokens(states.to(self.device), mask.to(self.device), content.to(self.device))


def read_vectors(
    encoder: Encoder,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    max_tokens: int = 128,
    precision: str = "float32",
    progress: bool = False,
) -> Vectors:
    """Token vectors of `texts`, in one pass. See `TokenVectors`.

    Raises what `read` raises.
    """
    options = {"max_tokens": max_tokens, "precision": precision, "progress": progress}
    return _read(encoder, tokenizer, texts, [TokenVectors(encoder, len(texts))], **options)[0]


def read_exits(
    encoder: Encoder,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    exit_layers: Sequence[int],
    *,
    max_tokens: int = 128,
    precision: str = "float32",
    progress: bool = False,
) -> list[Vectors]:
    """`read_vectors` with an early exit at each of some layers, all in one pass: 4 * exits * tokens * dim bytes.

    Raises ParameterError for an encoder that mixes layers, and what `read` raises.
    """
    exits = [TokenVectors(encoder, len(texts), layer) for layer in exit_layers]
    options = {"max_tokens": max_tokens, "precision": precision, "progress": progress}
    return _read(encoder, tokenizer, texts, exits, **options)


def _read(
    encoder: Encoder,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    wanted: Sequence[TokenVectors],
    *,
    max_tokens: int,
    **options,
) -> list[Vectors]:
    layers = sorted({layer for one in wanted for layer in one.layers})
    options |= {"norms": (encoder.norm,), "layers": layers, "max_tokens": max_tokens}
    reading = read(encoder.backbone, tokenizer, texts, wanted, **options)
    content = content_flags(tokenizer, texts, max_tokens)
    return [Vectors(one.texts(), content, reading, encoder.device) for one in wanted]


def content_flags(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> list[Bool[Tensor, " token"]]:
    """For each text, which of its tokens are off the skip list."""
    skipped = skip_list(tokenizer)
    ids = tokenizer(list(texts), truncation=True, max_length=max_tokens, verbose=False)["input_ids"]
    return [~skipped[torch.tensor(of_text)] for of_text in ids]
