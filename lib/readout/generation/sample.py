"""Writing: prompts in, sampled tokens out, the same tokens in whatever company a sample is computed.

One rounding error can turn a sampled token, and with it the rest of a text. How a matrix product rounds depends on
its shape, so here the shape belongs to the sample: its prompt is padded on the left to one of a few widths that its
own length decides, samples of one width share a batch, and a batch of that width always has the same number of rows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from readout.errors import ParameterError, TextError, TooFewError
from readout.generation.cache import Begun
from readout.generation.sampling import Sampling, uniforms
from readout.lenses.threads import spread
from readout.progress import progress_bar
from readout.states.read import _check_numbers, _check_vocabulary, _pad_id, resolve_precision, running

SHORTEST, FULL_WIDTH = 16, 64

Stop = Literal["eos", "length"]


@dataclass(frozen=True)
class Generated:
    """What a model wrote for one prompt.

    tokens: ids of the generated tokens; the end-of-text token stays, as in the published runs.
    text: the tokens before it, decoded with special tokens written out.
    stop: "eos" where the model ended the text, "length" where `max_new_tokens` did.

    >>> written = Generated("caption-1", 0, (7, 2), "cat", "eos")
    >>> written.n_tokens, written.n_content_tokens
    (2, 1)
    """

    id: str
    seed: int
    tokens: tuple[int, ...]
    text: str
    stop: Stop

    @property
    def n_tokens(self) -> int:
        """T, the end-of-text token included."""
        return len(self.tokens)

    @property
    def n_content_tokens(self) -> int:
        """Tokens before the end-of-text token; 0 where the model stopped at once and there is nothing to align."""
        return len(self.tokens) - (self.stop == "eos")


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    *,
    ids: Sequence[str],
    sampling: Sampling,
    seed: int | Sequence[int] = 0,
    max_new_tokens: int = 128,
    batch_size: int = 32,
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    progress: bool = False,
) -> list[Generated]:
    """Samples one continuation of each prompt (token ids, see `chat_ids`), in the order of the prompts.

    Several seeds share the pass over the prompt; the samples of the first come first, then those of the next.
    Prompts under one id meet the same random numbers.

    A sample's tokens depend on the model, its prompt, its id, `seed`, `sampling`, `batch_size` and `precision`, not
    on the other samples or seeds; `max_new_tokens` only cuts. (Mixture-of-experts models keep this only as far as their
    experts round a token alike in any company.) `batch_size` belongs to the result as the number of rows of every
    product: it moves a token where two candidates are within rounding of each other.

    Time is one pass over the prompt and one step a seed and token for each full or part-full batch of a padded
    length; memory the keys and values of `batch_size` texts, twice for several seeds, on a CPU for each thread of
    torch.

    Raises, before the model runs: TooFewError for no prompts or seeds, TextError for an empty prompt, ParameterError
    for ids of another number, seeds that repeat, numbers below 1, unknown token ids, and a prompt
    that leaves no room for `max_new_tokens` in the model's context.

    >>> from tokenizers import Tokenizer, models
    >>> from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    >>> words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2})))
    >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=3, eos_token_id=None, bos_token_id=None, **sizes))
    >>> both = generate(model, words, [[0, 1], [2]], ids=["x", "y"], sampling=Sampling(), max_new_tokens=4)
    >>> alone = generate(model, words, [[2]], ids=["y"], sampling=Sampling(), max_new_tokens=4)
    >>> both[1] == alone[0], alone[0].n_tokens, alone[0].stop
    (True, 4, 'length')
    """
    _check_numbers(max_new_tokens=max_new_tokens, batch_size=batch_size)
    _check_prompts(model, prompts, ids, max_new_tokens)
    seeds = as_seeds(seed)
    ends = end_tokens(model, tokenizer)
    used = resolve_precision(precision, model)
    total = len(prompts) * len(seeds) * max_new_tokens
    with (
        progress_bar(total, what="generation", unit="token", shown=progress) as bar,
        running(model, used),
    ):

        def of_batch(rows: list[int]) -> list[list[list[int]]]:
            n_rows = _n_rows(_width(prompts[rows[0]]), batch_size)
            filled = rows + rows[:1] * (n_rows - len(rows))
            named = [ids[row] for row in filled]
            texts = [prompts[row] for row in filled]
            input_ids, mask = _left_padded(texts, _width(texts[0]), _pad_id(tokenizer))
            found = []
            # Entered again, since gradients and autocast are switched per thread.
            with running(model, used):
                begun, logits = Begun.read(model, input_ids, mask, logits_to_keep=1)
                for one in seeds:
                    numbers = torch.stack([uniforms(one, named, t) for t in range(1, max_new_tokens + 1)])
                    own = begun if one == seeds[-1] else begun.copy()
                    tokens = _write(own, logits, sampling, numbers.to(model.device), ends)
                    bar.update(len(rows) * max_new_tokens)
                    found.append(tokens[: len(rows)].tolist())
            return [list(of_row) for of_row in zip(*found, strict=True)]

        batches = list(_batches(prompts, batch_size))
        texts = chain.from_iterable(_each(of_batch, batches, model))
    written = dict(zip(chain.from_iterable(batches), texts, strict=True))
    return [
        _cut(tokenizer, ids[row], one, written[row][place], ends)
        for place, one in enumerate(seeds)
        for row in range(len(prompts))
    ]


def as_seeds(seed: int | Sequence[int]) -> tuple[int, ...]:
    """One or several seeds of decoding; TooFewError for none, ParameterError for one that stands twice."""
    seeds = (seed,) if isinstance(seed, int) else tuple(seed)
    if not seeds:
        raise TooFewError("seed: is empty; give at least one")
    if len(set(seeds)) < len(seeds):
        raise ParameterError(f"seed: {list(seeds)} names one twice; name each once")
    return seeds


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a text: those of the generation config, else the tokenizer's; perhaps none."""
    given = model.generation_config.eos_token_id
    given = tokenizer.eos_token_id if given is None else given
    return frozenset() if given is None else frozenset(given if isinstance(given, list) else [given])


def _each(
    of_batch: Callable[[list[int]], list[list[list[int]]]], batches: list[list[int]], model: PreTrainedModel
) -> list[list[list[list[int]]]]:
    if model.device.type != "cpu":
        return [of_batch(batch) for batch in batches]
    # A product that is split over threads rounds a row by where the split falls (3e-5 in SmolLM2's float32 logits).
    # So every batch has one thread, and the batches share the cores.
    return spread(of_batch, batches, item_size=model.num_parameters())


def _write(
    begun: Begun,
    logits: Float[Tensor, "text 1 vocabulary"],
    sampling: Sampling,
    numbers: Tensor,
    ends: frozenset[int],
) -> Int[Tensor, "text written"]:
    device = numbers.device
    stops = torch.tensor(sorted(ends), device=device)
    ended = torch.zeros(numbers.shape[1], dtype=bool, device=device)
    written = []
    for number in numbers:
        if written:
            logits = begun.go_on(written[-1][:, None], logits_to_keep=1)
        written.append(sampling.draw(logits[:, -1].float(), number))
        # Rows that ended stay, writing what nobody reads: fewer rows would be another shape.
        ended |= torch.isin(written[-1], stops)
        if ended.all():
            break
    return torch.stack(written, dim=1).cpu()


def _batches(prompts: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    buckets = defaultdict(list)
    for row, prompt in enumerate(prompts):
        buckets[_width(prompt)].append(row)
    for width, rows in sorted(buckets.items(), reverse=True):
        n_rows = _n_rows(width, batch_size)
        for start in range(0, len(rows), n_rows):
            yield rows[start : start + n_rows]


def _width(prompt: Sequence[int]) -> int:
    """The padded width: 16, 24, 32, 48, 64, 96 ..., so that few widths serve prompts of all lengths."""
    width = SHORTEST
    # At least one token of padding: attention takes another path for a batch that happens to have none.
    while width <= len(prompt):
        width = width * 3 // 2 if width & (width - 1) == 0 else width * 4 // 3
    return width


def _n_rows(width: int, batch_size: int) -> int:
    """Rows of a batch: `batch_size` up to a width of 64, beyond that as many as hold the same number of tokens."""
    return max(1, batch_size * FULL_WIDTH // max(width, FULL_WIDTH))


def _left_padded(
    prompts: Sequence[Sequence[int]], width: int | None = None, pad_id: int = 0
) -> tuple[Int[Tensor, "text token"], Bool[Tensor, "text token"]]:
    width = max(map(len, prompts)) if width is None else width
    input_ids = torch.tensor([[pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    return input_ids, torch.arange(width) >= (width - lengths)[:, None]


def _cut(
    tokenizer: PreTrainedTokenizerBase, sample: str, seed: int, tokens: list[int], ends: frozenset[int]
) -> Generated:
    end = next((i for i, token in enumerate(tokens) if token in ends), None)
    content = tokens if end is None else tokens[:end]
    kept = tokens if end is None else tokens[: end + 1]
    text = tokenizer.decode(content, skip_special_tokens=False)
    return Generated(sample, seed, tuple(kept), text, "length" if end is None else "eos")


def _check_prompts(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], ids: Sequence[str], max_new_tokens: int
) -> None:
    if not prompts:
        raise TooFewError("prompts: is empty; give at least one")
    if len(ids) != len(prompts):
        raise ParameterError(f"ids: {len(ids)} for {len(prompts)} prompts; give each one")
    room = getattr(model.config.get_text_config(), "max_position_embeddings", float("inf")) - max_new_tokens
    for sample, prompt in zip(ids, prompts, strict=True):
        if not prompt:
            raise TextError(f"prompts: that of {sample!r} has no token; leave it out")
        if len(prompt) > room:
            raise ParameterError(
                f"prompts: that of {sample!r} has {len(prompt)} tokens; with max_new_tokens = {max_new_tokens} "
                f"the model takes at most {room}"
            )
    _check_vocabulary(model, [list(prompt) for prompt in prompts])
