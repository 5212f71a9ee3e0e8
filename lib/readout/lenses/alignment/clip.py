"""Steps before alignment is measured: clip outlying entries, then compare directions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.preprocess import as_states, center, unit_rows


def clip_quantile(z: Float[Tensor, "*batch text dim"], q: float = 0.95) -> Float[Tensor, "*batch text dim"]:
    """What is left of features once a few huge entries no longer decide every similarity.

    `clamp(z, -b, b)` with `b = mean_i quantile_q(|z_i|)`: the q-quantile over the entries of a row (linear
    interpolation), averaged over the rows; one bound for each leading index. `q = 1` still clips at the mean
    of the rows' maxima; leave the step out to keep all. float64, O(n d log d). The result is not invariant to
    rotation. Raises `ParameterError` for q outside (0, 1], `TooFewError` for no entry, `NonFiniteError`.
    Source: the public code of arXiv 2605.09969.

    >>> clip_quantile(torch.tensor([[1.0, 2.0, 9.0], [-4.0, 0.0, 3.0]]), q=0.5)  # medians 2 and 3, b = 2.5
    tensor([[ 1.0000,  2.0000,  2.5000],
            [-2.5000,  0.0000,  2.5000]], dtype=torch.float64)
    """
    return clip_in_own_precision(as_states("z", z, ndim=z.ndim), q)


def clip_in_own_precision(z: Float[Tensor, "*batch text dim"], q: float) -> Float[Tensor, "*batch text dim"]:
    """`clip_quantile` without the step to float64, for the published form, which computes in float32."""
    if not 0 < q <= 1:
        raise ParameterError(f"q={q} is out of range; 0 < q <= 1 is needed")
    if 0 in z.shape:
        raise TooFewError(f"z has shape {tuple(z.shape)}; at least one row and one entry are needed")
    # torch.quantile refuses more than 2**24 entries at once.
    magnitudes = z.abs().sort(-1).values
    place = q * (z.shape[-1] - 1)
    below, above = magnitudes[..., math.floor(place)], magnitudes[..., math.ceil(place)]
    bound = torch.lerp(below, above, place - math.floor(place)).mean(-1)[..., None, None]
    return z.clamp(-bound, bound)


def published_steps(z: Float[Tensor, "*batch text dim"]) -> Float[Tensor, "*batch text dim"]:
    """The paper's features: `unit_rows(clip_quantile(z, 0.95))`, so that inner products are cosines.

    float64 (`cka_as_published` repeats it in float32). Raises as the two steps do.

    >>> published_steps(torch.tensor([[3.0, 4.0], [4.0, 3.0]]))  # b = 3.95 clips the 4s
    tensor([[0.6048, 0.7964],
            [0.7964, 0.6048]], dtype=torch.float64)
    """
    return unit_rows(clip_quantile(z))


def corrected_steps(z: Float[Tensor, "*batch text dim"]) -> Float[Tensor, "*batch text dim"]:
    """The paper's features with their mean taken off: `center(published_steps(z))`.

    Debiased and biased CKA are the same with and without the last step in exact arithmetic; with it, kernels of
    near-identical states keep their digits. Raises as `published_steps`.

    >>> corrected_steps(torch.tensor([[3.0, 4.0], [4.0, 3.0]]))
    tensor([[-0.0958,  0.0958],
            [ 0.0958, -0.0958]], dtype=torch.float64)
    """
    return center(published_steps(z))
