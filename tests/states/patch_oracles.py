"""Texts in pairs, and whole forwards with the states at one module overwritten: what patching is compared with."""

import torch

from readout.states import forward

from .tiny_models import VOCABULARY, WINDOW

# Longer and shorter than the other text of the pair, and longer than the local windows.
CLEAN, CORRUPT = (3 * WINDOW, 5, 9), (7, 3 * WINDOW + 2, 9)


def batch(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    return ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def assert_same_states(states, expected, mask, scale=1e-6):
    """Real tokens alone: what stands in the padding is nobody's."""
    states, expected = states[..., mask, :], expected[..., mask, :]
    assert (states - expected).abs().max() <= scale * expected.abs().max().clamp(min=1)


def first(output):
    return output[0] if isinstance(output, tuple) else output


@torch.no_grad()
def run_with(model, tokens, module, change, before=False):
    """One whole forward with the states at a module overwritten."""

    def after_hook(module, args, output):
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    if before:
        hook = module.register_forward_pre_hook(
            lambda module, args, kwargs: ((change(args[0]), *args[1:]), kwargs), with_kwargs=True
        )
    else:
        hook = module.register_forward_hook(after_hook)
    with hook:
        return forward(model, *tokens)


@torch.no_grad()
def outputs_of(model, tokens, modules):
    seen = {}
    hooks = [
        m.register_forward_hook(lambda m, a, out, i=i: seen.update({i: first(out).clone()}))
        for i, m in enumerate(modules)
    ]
    forward(model, *tokens)
    for hook in hooks:
        hook.remove()
    return [seen[i] for i in range(len(modules))]


def overwritten(clean, states, lengths):
    """Position by position, text by text."""
    states = states.clone()
    for text, (s_p, s_n) in enumerate(lengths):
        for t in range(min(s_p, s_n)):
            states[text, t] = clean[text, t]
    return states
