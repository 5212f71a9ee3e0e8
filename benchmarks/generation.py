"""Batched generation and reading beside one prompt at a time, in one run.

    python benchmarks/generation.py --texts 64 --tokens 48

One at a time is what the published code does: `model.generate` for each prompt, then a second full pass over prompt
and generation. Prints a markdown table of tokens a second and the ratio. The slow way runs on every `--every`-th
prompt, in float32 too, since a single row gains nothing from bfloat16 on some processors; the faster one counts.
Both do the same work: no text may end early, and what is kept is the mean state of the generated tokens.
"""

import argparse
import time

import torch
from torch import Tensor
from transformers import GenerationConfig

from readout.generation.collect import Pooled
from readout.generation.forced import read_generated
from readout.generation.prompts import Prompt, ask
from readout.generation.sample import generate
from readout.generation.sampling import Sampling
from readout.sources.models import Reader, load_causal
from readout.states import resolve_precision
from readout.states.read import running

THINGS = ("a red bicycle", "an old station", "two dogs", "a glass of water", "the moon", "a wooden boat")
PLACES = ("in the snow", "near the sea after a storm", "on a table", "in Dublin", "behind a tall brick wall")


def one_at_a_time(reader: Reader, prompts: list[Prompt], n_tokens: int, precision: str) -> Tensor:
    """The mean state of what is generated, one row a prompt."""
    config = GenerationConfig(do_sample=True, top_k=50, max_new_tokens=n_tokens, pad_token_id=0)
    means = []
    with running(reader.model, precision):
        for prompt in prompts:
            ids = torch.tensor([prompt.ids])
            written = reader.model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config
            )
            states = reader.model(written, use_cache=False, output_hidden_states=True).hidden_states[-1]
            means.append(states[0, ids.shape[1] :].float().mean(dim=0))
    return torch.stack(means)


def batched(reader: Reader, prompts: list[Prompt], n_tokens: int, batch_size: int, precision: str) -> Tensor:
    """The same by this library."""
    token_ids, names = [prompt.ids for prompt in prompts], [str(i) for i in range(len(prompts))]
    options = {"batch_size": batch_size, "precision": precision}
    samples = generate(
        reader.model,
        reader.tokenizer,
        token_ids,
        ids=names,
        sampling=Sampling(top_k=50),
        max_new_tokens=n_tokens,
        **options,
    )
    pooled = Pooled([(prompt.start, prompt.stop) for prompt in prompts])
    read_generated(reader.model, samples, token_ids, [pooled], layers=[reader.n_layers], **options)
    return pooled.states(pooled.sites()[0], "generated_mean")


def seconds(way, *args) -> float:
    start = time.perf_counter()
    way(*args)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--precision", default="auto")
    given = parser.parse_args()
    reader = load_causal(given.model)
    reader.model.generation_config.eos_token_id = reader.tokenizer.eos_token = None
    precision = resolve_precision(given.precision, reader.model)
    texts = [f"{thing} {place}" for thing in THINGS for place in PLACES]
    prompts = [ask(reader.tokenizer, "imagine_see", texts[i % len(texts)]) for i in range(given.texts)]
    some = prompts[:: given.every]
    batched(reader, some[:2], 2, 2, precision)
    fast = (
        given.tokens
        * len(prompts)
        / seconds(batched, reader, prompts, given.tokens, given.batch_size, precision)
    )
    rates = {
        name: given.tokens * len(some) / seconds(one_at_a_time, reader, some, given.tokens, name)
        for name in sorted({"float32", precision})
    }
    best = max(rates, key=rates.get)
    slow, threads = rates[best], torch.get_num_threads()
    print("| threads | batched (tokens/s) | one at a time, faster precision (tokens/s) | ratio |")
    print("|---|---|---|---|")
    print(f"| {threads} | {fast:.1f} ({precision}) | {slow:.1f} ({best}) | {fast / slow:.1f} |")


if __name__ == "__main__":
    main()
