"""Estimators: pure functions and streaming accumulators on tensors. No model, file, tokenizer or global seed."""

from readout.lenses.curvature import curvature_rad, curvature_rad_per_text, undefined_angles_per_text
from readout.lenses.dime import dime, dime_order_two
from readout.lenses.entropy import effective_rank, matrix_entropy, max_entropy, renyi_entropy, spectrum
from readout.lenses.infonce import infonce, mutual_information_bound
from readout.lenses.lidar import lidar, lidar_effective_rank
from readout.lenses.pooled import pooled_quality
from readout.lenses.preprocess import center, unit_rows
from readout.lenses.prompt import (
    dataset_entropy,
    prompt_entropy,
    prompt_entropy_per_text,
    token_rank_per_text,
)
from readout.lenses.quality import TokenQuality
from readout.lenses.values import Absent, PerText, Why

__all__ = [
    "Absent",
    "PerText",
    "TokenQuality",
    "Why",
    "center",
    "curvature_rad",
    "curvature_rad_per_text",
    "dataset_entropy",
    "dime",
    "dime_order_two",
    "effective_rank",
    "infonce",
    "lidar",
    "lidar_effective_rank",
    "matrix_entropy",
    "max_entropy",
    "mutual_information_bound",
    "pooled_quality",
    "prompt_entropy",
    "prompt_entropy_per_text",
    "renyi_entropy",
    "spectrum",
    "token_rank_per_text",
    "undefined_angles_per_text",
    "unit_rows",
]
