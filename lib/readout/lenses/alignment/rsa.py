"""Representational similarity analysis: do two feature sets rank the pairs of texts alike?"""

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from readout.errors import DegenerateError
from readout.lenses.alignment.hsic import as_pair
from readout.lenses.preprocess import unit_rows


def rsa(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """Spearman correlation of the cosine distances `1 - cos(x_i, x_j)` and `1 - cos(y_i, y_j)`, i < j.

    In [-1, 1]; 1 if every pair of texts has the same rank. Ties share the mean rank. Invariant to rotation and to
    any positive scale per row. float64, O(n² (d + d2 + log n)). Raises `DegenerateError` for a row of zeros or
    equal distances, `TooFewError` for n < 4, `ParameterError`, `NonFiniteError`. Source: Kriegeskorte et al.
    2008 (Frontiers in Systems Neuroscience 2:4).

    >>> x = torch.tensor([[1.0, 0.0], [2.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    >>> round(float(rsa(x, x)), 6), round(float(rsa(x, x[[0, 2, 1, 3]])), 6)  # 1 - 9/34
    (1.0, 0.735294)
    """
    x, y = as_pair(x, y)
    distances = [_upper_distances(name, z) for name, z in (("x", x), ("y", y))]
    return torch.tensor(spearmanr(*distances).statistic, dtype=torch.float64)


def _upper_distances(name: str, z: Float[Tensor, "text dim"]) -> Float[np.ndarray, " pair"]:
    z = unit_rows(z)
    # Rounding would rank pairs that are equally far apart.
    distances = (1 - z @ z.T).cpu().numpy()[np.triu_indices(len(z), 1)].round(12)
    if np.ptp(distances) == 0:
        raise DegenerateError(f"{name} has equal distances between all texts; distances that vary are needed")
    return distances
