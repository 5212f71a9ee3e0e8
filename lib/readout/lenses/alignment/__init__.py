"""Alignment of two feature sets over the same texts: CKA and its kin, intervals, mixtures and the averaging null."""

from readout.lenses.alignment.cka import (
    CkaTarget,
    biased_cka,
    cka_as_published,
    debiased_cka,
    debiased_cka_many,
)
from readout.lenses.alignment.clip import clip_quantile, corrected_steps, published_steps
from readout.lenses.alignment.hsic import (
    HsicStream,
    biased_hsic,
    debiased_hsic,
    debiased_hsic_of_grams,
    u_center,
)
from readout.lenses.alignment.mixtures import (
    HsicBlocks,
    hsic_blocks,
    mixture_cka,
    segment_bounds,
    simplex_grid,
)
from readout.lenses.alignment.neighbours import cknna, mutual_knn
from readout.lenses.alignment.noise import AveragingNull, fit_averaging_null
from readout.lenses.alignment.rsa import rsa
from readout.lenses.alignment.selection import held_out_best
from readout.lenses.alignment.uncertainty import (
    CkaInterval,
    PermutationTest,
    cka_combination,
    cka_difference,
    cka_interval,
    half_sample_interval,
    permutation_test,
)

__all__ = [
    "AveragingNull",
    "CkaInterval",
    "CkaTarget",
    "HsicBlocks",
    "HsicStream",
    "PermutationTest",
    "biased_cka",
    "biased_hsic",
    "cka_as_published",
    "cka_combination",
    "cka_difference",
    "cka_interval",
    "cknna",
    "clip_quantile",
    "corrected_steps",
    "debiased_cka",
    "debiased_cka_many",
    "debiased_hsic",
    "debiased_hsic_of_grams",
    "fit_averaging_null",
    "half_sample_interval",
    "held_out_best",
    "hsic_blocks",
    "mixture_cka",
    "mutual_knn",
    "permutation_test",
    "published_steps",
    "rsa",
    "segment_bounds",
    "simplex_grid",
    "u_center",
]
