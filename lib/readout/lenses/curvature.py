"""Curvature: how sharply the path that the tokens of a text draw turns from step to step."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import ParameterError
from readout.lenses.preprocess import as_batch_of_one, as_padded
from readout.lenses.threads import over_texts
from readout.lenses.values import Absent, PerText, Why, single


def step_angles(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> tuple[Float[Tensor, "text angle"], Bool[Tensor, "text angle"], Bool[Tensor, "text angle"]]:
    """Angles between successive steps in radians, which of them lie within real tokens, which are defined.

    Angle k is between `z[k+1] - z[k]` and `z[k+2] - z[k+1]`; it is undefined if a step has length 0.
    `states` are checked and have 0 for padding.
    """
    steps = states[:, 1:] - states[:, :-1]
    lengths = torch.linalg.vector_norm(steps, dim=-1)
    products = (steps[:, 1:] * steps[:, :-1]).sum(-1)
    scale = lengths[:, 1:] * lengths[:, :-1]
    defined = scale > 0
    # Rounding lifts a cosine above 1, whose arc cosine is NaN.
    cosines = (products / scale.masked_fill(~defined, 1.0)).clamp(-1.0, 1.0)
    within = mask[:, 2:] & mask[:, 1:-1] & mask[:, :-2]
    return cosines.arccos(), within, within & defined


def mean_angle(
    angles: Float[Tensor, "text angle"],
    within: Bool[Tensor, "text angle"],
    defined: Bool[Tensor, "text angle"],
) -> PerText:
    """The mean of the defined angles of each text, or the reason why there is none."""
    count = defined.sum(-1)
    why = torch.zeros_like(count, dtype=torch.int8)
    why[count == 0] = Why.NO_STEP
    why[~within.any(-1)] = Why.FEW_TOKENS
    return PerText.masked((angles * defined).sum(-1) / count.clamp(min=1), why)


def curvature_rad(z: Float[Tensor, "token dim"]) -> Float[Tensor, ""] | Absent:
    """How sharply the path of a text's token states turns: 0 (straight) to π (back and forth), in radians.

    `mean_k arccos(v_{k+1}·v_k / |v_{k+1}||v_k|)`, `v_k = z_{k+1} - z_k` (arXiv 2502.02013, curvature;
    after Hosseini and Fedorenko 2023). States with no order at all give 2π/3 in high dimension. A step of
    length 0 has no direction: the two angles beside it are left out (`undefined_angles_per_text` counts
    them). float64, O(T D). Absent for fewer than three tokens and where no angle is left.
    Raises `NonFiniteError`, `ParameterError`.

    >>> corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> round(float(curvature_rad(corner)), 4)  # a right angle
    1.5708
    >>> curvature_rad(corner[:2])
    Absent(reason='fewer than three tokens make no angle')
    """
    return single(curvature_rad_per_text(*as_batch_of_one(z)), "z")


def curvature_rad_per_text(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> PerText:
    """`curvature_rad` of every text of a batch padded left or right.

    Raises `ParameterError` for a mask with holes, `NonFiniteError`.

    >>> line = torch.arange(4.0)[None, :, None]
    >>> list(curvature_rad_per_text(line, torch.tensor([[True, True, True, False]])))
    [0.0]
    """
    check_no_holes(mask)
    return PerText.cat(over_texts(lambda z, m: mean_angle(*step_angles(z, m)), as_padded(states, mask), mask))


def undefined_angles_per_text(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> Int[Tensor, "text"]:
    """How many angles of each text `curvature_rad_per_text` leaves out because they touch a zero step."""
    check_no_holes(mask)
    _, within, defined = step_angles(as_padded(states, mask), mask)
    return (within & ~defined).sum(-1)


def check_no_holes(mask: Bool[Tensor, "text token"]) -> None:
    """Refuse padding between real tokens: a step across it would be no step of the text."""
    edges = mask[:, 1:].int() - mask[:, :-1].int()
    starts = (edges == 1).sum(-1) + (mask[:, :1]).sum(-1)
    if (starts > 1).any():
        text = int((starts > 1).nonzero()[0])
        raise ParameterError(f"mask of text {text} has padding between real tokens; left or right is needed")
