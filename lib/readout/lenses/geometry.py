"""Two views on how vectors lie on the unit sphere: do pairs stay together, and does the whole fill the sphere?

Wang and Isola 2020, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
Hypersphere", arXiv 2005.10242. Contrastive training pulls towards both: low alignment and low uniformity.
"""

from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.preprocess import unit_rows


def alignment(x: Float[Tensor, "pair dim"], y: Float[Tensor, "other dim"]) -> Float[Tensor, ""]:
    """How far apart the two vectors of a positive pair lie: the mean squared distance of their directions.

    `mean_i |x_i/|x_i| - y_i/|y_i||²` = 2 - 2 mean cos, in [0, 4]; 0 if the pairs coincide, 2 if they are
    orthogonal. Eq. 2 of Wang and Isola with α = 2. float64; time and memory N D.

    Raises ParameterError for shapes that differ, TooFewError without a pair, DegenerateError for a row of zeros,
    NonFiniteError.

    >>> import torch
    >>> float(alignment(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 1.0], [0.0, 5.0]])))
    1.0
    """
    if x.shape != y.shape:
        raise ParameterError(f"x is {tuple(x.shape)} and y is {tuple(y.shape)}; one shape is needed")
    return (unit_rows(x) - unit_rows(y)).square().sum(-1).mean()


def uniformity(x: Float[Tensor, "text dim"]) -> Float[Tensor, ""]:
    """How evenly the directions of vectors fill the sphere: the log of their mean Gaussian potential.

    `log mean_{i<j} exp(-2 |x_i/|x_i| - x_j/|x_j||²)` over distinct pairs, in [-8, 0] nats; 0 if all directions
    are the same, lower if they are spread: near -4 for random directions in many dimensions. Eq. 3 of Wang and
    Isola with t = 2. float64; time N² D, memory N D.

    Raises TooFewError for fewer than two vectors, DegenerateError for a row of zeros, NonFiniteError.

    >>> import torch
    >>> round(float(uniformity(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))), 12)  # one pair, |x - y|² = 2
    -4.0
    """
    if len(x) < 2:
        raise TooFewError(f"x has {len(x)} vectors; at least 2 are needed for a pair")
    x = unit_rows(x)
    total = sum((-2 * (x[i + 1 :] - x[i]).square().sum(-1)).exp().sum() for i in range(len(x) - 1))
    return (total / (len(x) * (len(x) - 1) / 2)).log()
