"""Reading: texts in, hidden states at every site out to whoever consumes them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from readout.errors import NonFiniteError, ParameterError, TextError, TooFewError
from readout.progress import progress_bar
from readout.states.sites import Norm, Site
from readout.states.stream import ResidualStream, forward

Precision = Literal["float32", "bfloat16"]


@runtime_checkable
class Consumer(Protocol):
    """What `read` hands states to: called once per batch and site, in order of depth within a batch."""

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """states: on the model's device, not to be changed; rows: each text's position in `texts`, on the CPU."""


@dataclass(frozen=True)
class Reading:
    """What was read: texts, real tokens (special ones too), texts cut to `max_tokens`, and the precision used."""

    n_texts: int
    n_tokens: int
    n_truncated: int
    precision: Precision


def read(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    consumers: Sequence[Consumer],
    *,
    norms: Sequence[Norm] = ("raw",),
    layers: Sequence[int] | None = None,
    max_tokens: int = 128,
    batch_size: int = 16,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> Reading:
    """Runs `texts` through the model once and gives the states at every site to every consumer.

    Texts are batched by length, longest first, and padded on the right; batch size and order change no result
    beyond rounding, and `rows` leads each text back to its place. The model runs without its head, in eval mode,
    without gradients, on its own device. Consumers are called outside autocast.

    norms, layers: which sites (see `ResidualStream.sites`).
    max_tokens: longer texts are cut as the tokenizer cuts them (its special tokens stay) and counted.
    progress: a bar with the time left (see `progress_bar`).
    precision: see `resolve_precision`; "bfloat16" rounds the inputs of matrix products, the residual stream of a
    float32 model stays float32. Time is one forward pass; memory one batch, plus what the consumers keep.

    Raises, before the model runs: TooFewError for no texts, TextError for a text without a token, ParameterError
    for numbers below 1, a text longer than the model's positions, token ids the model lacks, or "float32" on a
    half-precision model. Raises NonFiniteError, naming the site, for NaN or infinite states of a real token.

    >>> from readout.states import Pool, masked_mean
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "to": 1, "be": 2}, unk_token="[UNK]"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 4}
    >>> model = BertModel(BertConfig(vocab_size=3, **sizes))
    >>> pool = Pool(masked_mean, n_texts=2)
    >>> read(model, PreTrainedTokenizerFast(tokenizer_object=words), ["to be", "or not to be"], [pool])
    Reading(n_texts=2, n_tokens=6, n_truncated=0, precision='float32')
    >>> tuple(pool.states().shape)
    (3, 2, 4)
    """
    _check_numbers(max_tokens=max_tokens)
    ResidualStream(model).sites(norms, layers)  # refuses wrong ones before any work
    encoded, n_truncated = _encode(tokenizer, texts, max_tokens)
    options = {"norms": norms, "layers": layers, "batch_size": batch_size, "progress": progress}
    used = read_ids(model, encoded, consumers, pad_id=_pad_id(tokenizer), precision=precision, **options)
    return Reading(len(texts), sum(map(len, encoded)), n_truncated, used)


def read_ids(
    model: PreTrainedModel,
    ids: Sequence[Sequence[int]],
    consumers: Sequence[Consumer],
    *,
    pad_id: int = 0,
    norms: Sequence[Norm] = ("raw",),
    layers: Sequence[int] | None = None,
    batch_size: int = 16,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> Precision:
    """`read` for texts that are token ids already, such as a prompt and what a model wrote to it.

    Returns the precision used. Raises as `read` does. pad_id: any token of the vocabulary, since the mask hides it.
    """
    _check_numbers(batch_size=batch_size)
    stream, used = ResidualStream(model), resolve_precision(precision, model)
    stream.sites(norms, layers)
    ids = [list(text) for text in ids]
    if empty := [index for index, text in enumerate(ids) if not text]:
        raise TextError(f"ids[{empty[0]}]: has no token; leave it out")
    _check_vocabulary(model, ids)
    n_tokens = sum(map(len, ids))
    with (
        progress_bar(n_tokens, what="states", unit="token", shown=progress) as bar,
        running(model, used),
    ):
        for input_ids, mask, rows in _batches(ids, batch_size, pad_id, model.device):
            with stream.watch(_deliver(consumers, mask, rows), norms, layers):
                forward(model, input_ids, mask)
            bar.update(int(mask.sum()))
    return used


def resolve_precision(precision: str, model: PreTrainedModel) -> Precision:
    """The precision to run `model` in: "auto" is bfloat16 where its device multiplies that natively, else float32.

    Natively: a CUDA device with bfloat16, or a CPU with AVX512-BF16 (others would emulate it, slower).

    Raises ParameterError for another name, and for "float32" on a model whose weights are half precision.
    """
    if precision not in ("float32", "bfloat16", "auto"):
        raise ParameterError(f"precision: {precision!r} is not one of float32, bfloat16, auto")
    half = model.dtype in (torch.bfloat16, torch.float16)
    if precision == "float32" and half:
        raise ParameterError(f"precision: 'float32', but the weights are {model.dtype}; load them in float32")
    if precision == "auto":
        return "bfloat16" if half or _native_bfloat16(model.device) else "float32"
    return precision


def _native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()


@contextmanager
def running(model: nn.Module, precision: Precision) -> Iterator[None]:
    """Evaluation mode, no gradients and the precision, inside the `with`; modes come back after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    # One autocast around all batches casts each weight once. no_grad rather than inference_mode: tensors that a
    # consumer makes under the latter could never enter a gradient, so no probe could be trained on them.
    try:
        with (
            torch.no_grad(),
            torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bfloat16"),
        ):
            yield
    finally:
        for module, training in modes:
            module.training = training


def _deliver(
    consumers: Sequence[Consumer], mask: Bool[Tensor, "text token"], rows: Int[Tensor, " text"]
) -> Callable[[Site, Tensor], None]:
    def deliver(site: Site, states: Tensor) -> None:
        real = mask.to(states.device)
        # The sum is cheap and carries any NaN or infinity along; only then is it worth asking where it stands.
        if not states.sum().isfinite() and not states[real].isfinite().all():
            raise NonFiniteError(
                f"states: {site.name} holds NaN or infinite values; check the weights and precision"
            )
        with torch.autocast(states.device.type, enabled=False):
            for consumer in consumers:
                consumer.update(site, states, real, rows)

    return deliver


def _encode(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> tuple[list[list[int]], int]:
    if isinstance(texts, str):
        raise ParameterError("texts: is one string; give a list of texts")
    if not texts:
        raise TooFewError("texts: is empty; give at least one")
    for index, text in enumerate(texts):
        if not text.strip():
            raise TextError(f"texts[{index}]: {text!r} is empty; leave it out")
    # One token of slack tells a text that fits from one that is cut; only the latter are tokenized again.
    ids = _tokenize(tokenizer, dict(enumerate(texts)), max_tokens + 1)
    long = {index: texts[index] for index, text_ids in ids.items() if len(text_ids) > max_tokens}
    ids |= _tokenize(tokenizer, long, max_tokens)
    return [ids[index] for index in range(len(texts))], len(long)


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: dict[int, str], max_tokens: int
) -> dict[int, list[int]]:
    if not texts:
        return {}
    encoding = tokenizer(
        list(texts.values()),
        truncation=True,
        max_length=max_tokens,
        return_special_tokens_mask=True,
        verbose=False,
    )
    for index, special in zip(texts, encoding["special_tokens_mask"], strict=True):
        if all(special):
            raise TextError(
                f"texts[{index}]: {texts[index][:40]!r} gives no token but special ones in {max_tokens}; leave it out"
            )
    return dict(zip(texts, encoding["input_ids"], strict=True))


def _batches(
    ids: list[list[int]], batch_size: int, pad_id: int, device: torch.device
) -> Iterator[tuple[Int[Tensor, "text token"], Bool[Tensor, "text token"], Int[Tensor, " text"]]]:
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]), reverse=True)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        texts = [torch.tensor(ids[row], device=device) for row in rows]
        lengths = torch.tensor([len(text) for text in texts], device=device)
        input_ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad_id)
        mask = torch.arange(input_ids.shape[1], device=device) < lengths[:, None]
        yield input_ids, mask, torch.tensor(rows)


def _pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Any token will do, since the mask hides it."""
    return next(i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if i is not None)


def _check_numbers(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ParameterError(f"{name}: {number} should be at least 1")


def _check_vocabulary(model: PreTrainedModel, ids: list[list[int]]) -> None:
    known, largest = model.get_input_embeddings().weight.shape[0], max(map(max, ids))
    if largest >= known:
        raise ParameterError(f"tokenizer: gives token id {largest}, but the model knows ids below {known}")
