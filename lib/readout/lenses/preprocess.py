"""Checks of the input, and the two steps that the metrics share: centring and scaling rows to length 1."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError

# A centred row shorter than this share of the text's scale is the rounding of float64, not variation:
# float32 states that differ at all differ by more than 1e-9 of their length.
ROUNDING = 1e-12


def as_states(name: str, z: Tensor, ndim: int) -> Tensor:
    """`z` in float64, detached; refuses another number of axes, whole numbers, NaN and infinity.

    Raises `ParameterError` and `NonFiniteError`.
    """
    if z.ndim != ndim or not z.is_floating_point():
        shape = tuple(z.shape)
        raise ParameterError(
            f"{name} is {z.dtype} of shape {shape}; floating point with {ndim} axes is needed"
        )
    z = z.detach().double()
    # A sum is finite only if every entry is, and reads the states once without writing anything.
    if not z.sum().isfinite():
        raise NonFiniteError(f"{name} holds NaN or infinite values")
    return z


def as_padded(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> Float[Tensor, "text token dim"]:
    """`states` in float64 with zeros in place of padding, whatever stood there (NaN too).

    Raises `ParameterError` for a mask that does not fit, `NonFiniteError` for real tokens.
    """
    if mask.dtype != torch.bool or mask.shape != states.shape[:2]:
        raise ParameterError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; bool of shape {tuple(states.shape[:2])} is needed"
        )
    if states.shape[1] == 0:
        raise TooFewError(f"states has shape {tuple(states.shape)}; at least one token is needed")
    if not mask.all():
        states = states.masked_fill(~mask[..., None], 0.0)
    return as_states("states", states, ndim=3)


def as_batch_of_one(
    z: Float[Tensor, "token dim"],
) -> tuple[Float[Tensor, "1 token dim"], Bool[Tensor, "1 token"]]:
    """One text as a checked batch, with its mask. Raises as `as_states`, and `TooFewError` for no token."""
    z = as_states("z", z, ndim=2)
    if 0 in z.shape:
        raise TooFewError(f"z has shape {tuple(z.shape)}; at least one token is needed")
    return z[None], torch.ones(1, len(z), dtype=torch.bool, device=z.device)


def center(
    z: Float[Tensor, "*batch row dim"], mask: Bool[Tensor, "*batch row"] | None = None
) -> Float[Tensor, "*batch row dim"]:
    """Subtract the mean over rows (tokens of a text, or texts), in float64.

    `z - mean(z, rows)`. With a mask, the mean is over real rows and padding comes out as 0. A row that
    equals the mean up to rounding comes out as exactly 0. Raises `NonFiniteError`, `ParameterError`.

    >>> center(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    tensor([[-1., -2.],
            [ 1.,  2.]], dtype=torch.float64)
    """
    z, mask = _masked(z, mask)
    return centered(z, mask)[0]


def unit_rows(
    z: Float[Tensor, "*batch row dim"], mask: Bool[Tensor, "*batch row"] | None = None
) -> Float[Tensor, "*batch row dim"]:
    """Scale every row to Euclidean length 1, in float64; padding, by the mask, comes out as 0.

    Raises `DegenerateError` for a real row of zeros, which has no direction; `NonFiniteError`.

    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    z, mask = _masked(z, mask)
    norms = torch.linalg.vector_norm(z, dim=-1)
    if (zero := (norms == 0) & mask).any():
        raise DegenerateError(f"z has {int(zero.sum())} rows of length 0; every row needs a direction")
    return scaled(z, norms)


def _masked(z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Checked rows with zeros for padding, and the mask (all real if there is none)."""
    if 0 in z.shape:
        raise TooFewError(f"z has shape {tuple(z.shape)}; at least one row is needed")
    if mask is None:
        return as_states("z", z, ndim=z.ndim), torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
    return as_states("z", z.masked_fill(~mask[..., None], 0.0), ndim=z.ndim), mask


def centered(
    z: Float[Tensor, "*batch row dim"], mask: Bool[Tensor, "*batch row"]
) -> tuple[Float[Tensor, "*batch row dim"], Float[Tensor, "*batch row"]]:
    """Centred rows of checked states whose padding is 0, and their lengths (0 exactly, if only rounding)."""
    count = mask.sum(-1).clamp(min=1)[..., None]
    mean = z.sum(-2) / count
    z = z - mean[..., None, :]
    if not mask.all():
        z.masked_fill_(~mask[..., None], 0.0)
    norms = torch.linalg.vector_norm(z, dim=-1)
    scale = norms.amax(-1, keepdim=True) + torch.linalg.vector_norm(mean, dim=-1)[..., None]
    rounding = norms <= ROUNDING * scale
    if (rounding & mask).any():
        z.masked_fill_(rounding[..., None], 0.0)
    return z, norms.masked_fill(rounding, 0.0)


def scaled(
    z: Float[Tensor, "*batch row dim"], norms: Float[Tensor, "*batch row"]
) -> Float[Tensor, "*batch row dim"]:
    """Rows divided by their lengths; a row of zeros stays."""
    return z / norms.masked_fill(norms == 0, 1.0)[..., None]
