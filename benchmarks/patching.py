"""Time patching at all layers in one pass beside one forward per layer, in one run.

    python benchmarks/patching.py

Prints a markdown table of seconds (best of several, interleaved) and ratios. Random weights, batches of 8 texts of
64 tokens, float32. Both ways give the same states, which is checked: the clean run, the corrupted run, and the
corrupted run patched at each of the L + 1 sites.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

from readout.states import ResidualStream, Site, forward
from readout.states.interventions import all_positions
from readout.states.patching import patch_sweep

REPEATS, N_TEXTS, N_TOKENS, VOCABULARY = 5, 8, 64, 1000
Tokens = tuple[Tensor, Tensor]


@torch.no_grad()
def one_forward_per_layer(model: nn.Module, clean: Tokens, corrupt: Tokens) -> Tensor:
    """The same by whole forwards: clean, corrupted, and one with a hook that overwrites for each site."""
    stream, kept = ResidualStream(model), {}
    with stream.watch(lambda site, states: kept.update({site: states})):
        forward(model, *clean)
    forward(model, *corrupt)
    patched = []
    for site in stream.sites():
        with overwriting(stream, site, kept[site]):
            patched.append(forward(model, *corrupt))
    return torch.stack(patched)


def overwriting(stream: ResidualStream, site: Site, states: Tensor):
    """All positions, as both texts are of one length."""
    if site.layer == 0:
        return stream.blocks[0].register_forward_pre_hook(
            lambda block, args, kwargs: ((states, *args[1:]), kwargs), with_kwargs=True
        )
    return stream.blocks[site.layer - 1].register_forward_hook(lambda block, args, output: states)


def models() -> dict[str, nn.Module]:
    """Each line of the table."""
    torch.manual_seed(0)
    bert = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    modern = {"hidden_size": 256, "num_hidden_layers": 22, "num_attention_heads": 4, "intermediate_size": 384}
    tokens = {"vocab_size": VOCABULARY, "pad_token_id": 0}
    return {
        "BERT, 6 layers, d 384": BertModel(BertConfig(**bert, **tokens)).eval(),
        "ModernBERT, 22 layers, d 256": ModernBertModel(ModernBertConfig(**modern, **tokens)).eval(),
    }


def best_seconds(ways: list[Callable[[], Tensor]]) -> list[float]:
    """Interleaved, so that what else the machine does falls on all ways alike."""
    seconds = [float("inf")] * len(ways)
    for _ in range(REPEATS):
        for i, way in enumerate(ways):
            start = time.perf_counter()
            way()
            seconds[i] = min(seconds[i], time.perf_counter() - start)
    return seconds


def main() -> None:
    """Print the table."""
    generator = torch.Generator().manual_seed(0)
    clean, corrupt = (
        (ids, torch.ones_like(ids, dtype=torch.bool))
        for ids in torch.randint(1, VOCABULARY, (2, N_TEXTS, N_TOKENS), generator=generator)
    )
    print("| model | one pass (s) | one forward per layer (s) | ratio |\n|---|---|---|---|")
    for name, model in models().items():
        ways = [
            lambda model=model: patch_sweep(model, clean, corrupt, all_positions).patched,
            lambda model=model: one_forward_per_layer(model, clean, corrupt),
        ]
        torch.testing.assert_close(ways[0](), ways[1](), rtol=1e-4, atol=1e-5)
        ours, theirs = best_seconds(ways)
        print(f"| {name} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
