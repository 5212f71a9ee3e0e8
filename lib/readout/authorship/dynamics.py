"""What a scorer's training has brought at one checkpoint: style at every layer, depth of use, retrieval."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from readout.authorship.gallery import Gallery
from readout.authorship.patching import ALL_POSITIONS, Patched, ProbeTexts, patch_scores, patch_table
from readout.authorship.probing import ALL_GROUPS, StyleTexts, mean_states, probe_style, style_table
from readout.authorship.runs import Training
from readout.authorship.vectors import read_vectors
from readout.lenses.probe_scores import R2Accumulator
from readout.lenses.retrieval_table import retrieval_table

DISCRIMINATING = "mean shift"


@dataclass(frozen=True)
class Checkpoint:
    """The measurements of one scorer after `step` steps, and the parts that comparisons need."""

    table: pd.DataFrame
    style: list[R2Accumulator]
    shifted: Patched


def measure(
    training: Training,
    name: str,
    step: int,
    gallery: Gallery,
    texts: StyleTexts,
    triplets: ProbeTexts,
    *,
    max_tokens: int,
    alphas: Sequence[float] = (1.0,),
    **resampling,
) -> Checkpoint:
    """Retrieval, probe R2 (mean over groups), and patch profiles, as published and by a mean shift, at one checkpoint.

    Rows: R@20 and the other retrieval metrics; R2 of every layer; rank recovery and consolidation of the published
    operation; recovery ratio of the mean shift on pairs of equal length. alphas: penalties of the probes, see
    `probe_style`.
    """
    encoder, scorer = training.encoder(name, training.plan.seeds[0], step), training.plan.scorer(name)
    tokenizer, reading = (
        training.reader.tokenizer,
        {"max_tokens": max_tokens, "precision": training.precision},
    )
    vectors = read_vectors(encoder, tokenizer, gallery.texts, **reading)
    found = retrieval_table([gallery.evaluate(gallery.scores(scorer, vectors))], **resampling)
    sites, states = mean_states(encoder.backbone, tokenizer, texts.read, **reading)
    style = probe_style(states, texts, alphas)
    read = style_table(sites, style, **resampling)
    published = patch_scores(encoder, scorer, triplets, ALL_POSITIONS, precision=training.precision)
    shifted = patch_scores(
        encoder, scorer, triplets.equal_lengths(), DISCRIMINATING, precision=training.precision
    )
    profile = patch_table(published, triplets.author_sets, **resampling)
    discriminating = patch_table(shifted, triplets.author_sets, **resampling)
    parts = [
        found,
        read[read["group"] == ALL_GROUPS],
        profile[profile["metric"].isin(["rank_recovery", "consolidation_layer"])],
        discriminating[discriminating["metric"] == "recovery_ratio"].assign(intervention=DISCRIMINATING),
    ]
    return Checkpoint(pd.concat(parts, ignore_index=True).assign(readout=name, step=step), style, shifted)
