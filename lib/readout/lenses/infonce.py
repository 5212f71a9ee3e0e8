"""InfoNCE between two views of the same texts: can the second view be told from the others by the first?"""

import math

from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.preprocess import as_states


def infonce(
    a: Float[Tensor, "text dim"], b: Float[Tensor, "text dim"], temperature: float = 0.1
) -> Float[Tensor, ""]:
    """How hard it is to find each text's second view among all, by its first: the loss in nats.

    `-mean_i log( exp(a_i·b_i/τ) / Σ_j exp(a_i·b_j/τ) )`: one direction, a to b; the denominator holds
    the pair itself and no pair within a. Lower means more invariant; `log N` for features that tell
    nothing. Takes features as given: `unit_rows(center(x))` first for the paper's scale, and τ = 0.1 is
    the public code's (arXiv 2502.02013). float64, O(N² D). Raises `TooFewError` for fewer than two
    texts, `ParameterError` for shapes that differ or temperature <= 0, `NonFiniteError`.

    >>> import torch
    >>> a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(infonce(a, a, temperature=1.0)), 4)  # log(1 + e^-1)
    0.3133
    """
    a, b = as_states("a", a, ndim=2), as_states("b", b, ndim=2)
    if a.shape != b.shape:
        raise ParameterError(f"a is {tuple(a.shape)} and b is {tuple(b.shape)}; one shape is needed")
    if not temperature > 0:
        raise ParameterError(f"temperature={temperature} is out of range; temperature > 0 is needed")
    if len(a) < 2:
        raise TooFewError(f"a has {len(a)} text; at least 2 are needed")
    logits = a @ b.T / temperature
    return (logits.logsumexp(-1) - logits.diagonal()).mean()


def mutual_information_bound(
    a: Float[Tensor, "text dim"], b: Float[Tensor, "text dim"], temperature: float = 0.1
) -> Float[Tensor, ""]:
    """A lower bound on the mutual information of the two views in nats: `log N - infonce(a, b)`.

    At most `log N`; below 0 if the features mislead (van den Oord et al. 2018). Raises as `infonce`.

    >>> import torch
    >>> a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(mutual_information_bound(a, a, temperature=1.0)), 4)  # log 2 - 0.3133
    0.3799
    """
    return math.log(len(a)) - infonce(a, b, temperature)
