"""How much does CKA rise merely because averaging tokens averages noise away?

The null model: the state of text i at any token, in any decoding seed, is `s_i + e`, a signal that all share
and noise that is independent over tokens and seeds. The mean of T tokens has covariance Σ_s + Σ_e / T, its
covariance with any target is that of s, and so

    CKA(T) = CKA_s ||Σ_s||_F / ||Σ_s + Σ_e / T||_F.

Seeds identify the parts: HSIC_u of two seeds sees only what they share, that of their difference only the noise.
A measured curve above the prediction is gain that averaging independent noise does not explain. Noise that lasts
over the tokens of one seed does not average away; a measured curve then stays below.
"""

from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.alignment.cka import CkaTarget
from readout.lenses.alignment.hsic import center_fully, hsic_of_centered, self_hsic_of_centered
from readout.lenses.preprocess import as_states


@dataclass(frozen=True)
class AveragingNull:
    """The fitted null: second moments of signal and noise, and the CKA of the signal alone.

    `signal` = ||Σ_s||_F², `cross` = <Σ_s, Σ_e>_F, `noise` = ||Σ_e||_F² of one token, in squared units of the
    states' variance; `signal_cka` is the limit of the curve for infinitely many tokens.
    """

    signal: float
    cross: float
    noise: float
    signal_cka: float

    def predict(self, n_tokens: Int[Tensor, " count"]) -> Float[Tensor, " count"]:
        """CKA of the mean of that many tokens: `CKA_s / sqrt(1 + 2 cross/(T signal) + noise/(T² signal))`.

        Raises `ParameterError` for counts below 1.

        >>> AveragingNull(signal=1.0, cross=0.0, noise=3.0, signal_cka=0.8).predict(torch.tensor([1]))
        tensor([0.4000], dtype=torch.float64)
        """
        if (n_tokens < 1).any():
            raise ParameterError(f"n_tokens holds {int(n_tokens.min())}; counts of at least 1 are needed")
        t = n_tokens.double()
        excess = (2 * self.cross / t + self.noise / t.square()) / self.signal
        return self.signal_cka / (1 + excess).sqrt()


def fit_averaging_null(
    states: Float[Tensor, "seed text token dim"], target: Float[Tensor, "text dim2"], tokens_each: int = 1
) -> AveragingNull:
    """Fit signal and noise from several decoding seeds of the same texts at the same positions.

    With h_a, h_b the states of two seeds at one position: `||Σ_s||² = HSIC_u(h_a, h_b)`, `||Σ_e||² =
    HSIC_u(d, d)` of `d = (h_a - h_b) / sqrt(2)`, `||Σ_s + Σ_e||² = HSIC_u(h_a, h_a)` and `||Σ_sy||² =
    HSIC_u(h_a, y)`; each is unbiased and averaged over positions and seeds or pairs of seeds. `states` may hold
    segment means of `tokens_each` tokens in place of tokens; the fitted noise is that of one token either way.
    Features as given: unit rows would make the noise depend on the signal. float64; O(positions pairs) times
    `debiased_hsic`. Raises `TooFewError` for fewer than two seeds, no position or n < 4, `DegenerateError` if
    the estimated signal is not positive (a positive one may still be chance: ask `permutation_test` of two seeds),
    `ParameterError`, `NonFiniteError`.

    >>> s = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> greedy = s[None, :, None].expand(2, 4, 3, 1)  # two equal seeds: no noise
    >>> fit = fit_averaging_null(greedy, s)
    >>> round(fit.signal, 6), fit.noise, round(fit.signal_cka, 6)
    (0.166667, 0.0, 1.0)
    """
    n_seeds, n, n_positions, _ = states.shape
    if n_seeds < 2 or n_positions < 1:
        raise TooFewError(f"states has {n_seeds} seeds and {n_positions} positions; 2 and 1 are the least")
    if tokens_each < 1:
        raise ParameterError(f"tokens_each={tokens_each} is out of range; tokens_each >= 1 is needed")
    if len(target) != n:
        raise ParameterError(f"states has {n} texts and target {len(target)}; as many are needed")
    reference = CkaTarget(target)
    moments = [_moments(states[:, :, t], reference.u) for t in range(n_positions)]
    signal, noise, total, shared = torch.stack(moments).mean(0).tolist()
    return _null(signal, noise, total, shared / float(reference.self_hsic) ** 0.5, tokens_each)


def _moments(states: Float[Tensor, "seed text dim"], u: Float[Tensor, "text text"]) -> Float[Tensor, "4"]:
    """Squared norms of Σ_s, Σ_e, Σ_s + Σ_e and Σ_sy at one position."""
    x = center_fully(as_states("states", states, ndim=3))
    n = x.shape[1]
    pairs = list(combinations(x, 2))
    signal = torch.stack([hsic_of_centered(a, b) for a, b in pairs]).mean()
    noise = torch.stack([self_hsic_of_centered(a - b) for a, b in pairs]).mean() / 4  # Σ of a - b is 2 Σ_e
    total = self_hsic_of_centered(x).mean()
    shared = (x * (u @ x)).sum((1, 2)).mean() / (n * (n - 3))
    return torch.stack([signal, noise, total, shared])


def _null(signal: float, noise: float, total: float, shared: float, tokens_each: int) -> AveragingNull:
    if signal <= 1e-13 * total:
        raise DegenerateError(
            f"states: HSIC between seeds is {signal:.3g}; seeds that share a signal are needed"
        )
    # Covariances have no negative inner product; an estimate may.
    cross = max(0.0, (total - signal - noise) / 2)
    return AveragingNull(signal, cross * tokens_each, noise * tokens_each**2, shared / signal**0.5)
