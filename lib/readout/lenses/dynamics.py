"""The estimates behind the claims on gradients and on the ways that training takes."""

from collections.abc import Mapping, Sequence

import numpy as np

from readout.lenses.intervals import cluster_bootstrap
from readout.lenses.probe_scores import R2Accumulator, r2_difference
from readout.lenses.recovery import PatchScores
from readout.lenses.recovery_contrasts import centre_shift, patch_contrast


def dynamics_claims(
    shares: Mapping[str, Mapping[str, Sequence[float]]],
    pair_sets: Sequence[str],
    patched: Mapping[tuple[str, int], PatchScores],
    triplet_sets: Sequence[str],
    style: Mapping[tuple[str, int], Sequence[R2Accumulator]],
    **resampling,
) -> dict[str, dict[str, float]]:
    """value, low, high, level and n of each claim.

    shares: share of tokens with gradient of every pair, by scorer and side. patched and style: by scorer and step, from
    which the first and the last step are compared, style at the middle of the depth of the scorer that changed most.
    """

    def mean(values: Sequence[float]) -> dict[str, float]:
        found = cluster_bootstrap(np.asarray(values, float)[None], list(pair_sets), **resampling)
        limits = {name: getattr(found, name)[0].item() for name in ("value", "low", "high", "n")}
        return limits | {"level": resampling.get("level", 0.95)}

    def moved(name: str) -> dict[str, float] | None:
        ends = (patched[name, step] for step in (max(steps), min(steps)))
        return patch_contrast(centre_shift, *ends, author_sets=list(triplet_sets), **resampling)

    steps = {step for _, step in patched}
    one, patch = (np.asarray(shares[name]["candidate"]) for name in ("li", "pli-2"))
    found = {
        "A-grad-mean": mean(shares["mean"]["candidate"]),
        "A-grad-li": mean(one),
        "A-grad-pli": mean(patch - one),
        "A-grad-union": mean(shares["li"]["candidate, union"]),
        "A-dyn-mean": moved("mean"),
        "A-dyn-li": moved("li"),
        "A-dyn-style": _style_change(style, steps, **resampling),
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _style_change(
    style: Mapping[tuple[str, int], Sequence[R2Accumulator]], steps: set[int], **resampling
) -> dict[str, float]:
    """R2 of all groups at the end less that at the start, at mid-depth, where it changed most."""
    changes = []
    for name in dict.fromkeys(name for name, _ in style):
        last, first = (style[name, step] for step in (max(steps), min(steps)))
        middle = len(last) // 2
        labels = ["all groups"] * len(last[middle].names)
        changes.append(r2_difference(last[middle], first[middle], labels, **resampling).interval)
    largest = max(changes, key=lambda interval: abs(interval.value[0]))
    limits = {name: getattr(largest, name)[0].item() for name in ("value", "low", "high", "n")}
    return limits | {"level": resampling.get("level", 0.95)}
