"""How the next token is drawn: filtered probabilities, and one number in [0, 1) that belongs to the sample alone.

A generator that is seeded once gives a sample another text when it runs in another batch or after a resume. Here
token t of a sample is decided by a hash of (seed, sample id, t), through the inverse of the distribution function.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel, TemperatureLogitsWarper, TopPLogitsWarper

from readout.errors import ParameterError

# What `transformers.generate` fills in where a checkpoint is silent.
HUB_TOP_K = 50
# Settings of a checkpoint that move its distribution and that are not followed here, with the value that does nothing.
_NOT_FOLLOWED = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_p": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}


@dataclass(frozen=True)
class Sampling:
    """Which distribution the next token is drawn from.

    temperature: logits are divided by it; 0 takes the likeliest token (see `GREEDY`).
    top_k: only the k likeliest tokens stay; None keeps all.
    top_p: of these only the smallest set whose probabilities sum to at least p stays; 1 keeps all.

    Raises ParameterError for a temperature below 0, a top_k below 1 or a top_p outside (0, 1].

    >>> Sampling(temperature=0.6, top_k=20, top_p=0.95).probabilities(torch.tensor([[0.0, 9.0, -9.0]]))
    tensor([[0., 1., 0.]], dtype=torch.float64)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self):
        if not 0 <= self.temperature < float("inf"):
            raise ParameterError(f"temperature: {self.temperature} should be 0 (greedy) or a positive number")
        if self.top_k is not None and self.top_k < 1:
            raise ParameterError(f"top_k: {self.top_k} should be at least 1, or None to keep all tokens")
        if not 0 < self.top_p <= 1:
            raise ParameterError(f"top_p: {self.top_p} should lie in (0, 1]")

    @classmethod
    def of_checkpoint(cls, model: PreTrainedModel) -> "Sampling":
        """What the checkpoint's generation config samples from, as the published runs do, which force sampling.

        A setting that the checkpoint leaves out is what transformers fills in: temperature 1, top-k 50, top-p 1.

        Raises ParameterError for a setting that is not followed here, such as a repetition penalty.
        """
        config = model.generation_config
        for name, neutral in _NOT_FOLLOWED.items():
            value = getattr(config, name, None)
            if value is not None and value != neutral:
                raise ParameterError(f"generation_config: {name} = {value} is not followed; give a Sampling")
        top_k = HUB_TOP_K if config.top_k is None else config.top_k
        return cls(
            temperature=1.0 if config.temperature is None else float(config.temperature),
            top_k=top_k or None,
            top_p=1.0 if config.top_p is None else float(config.top_p),
        )

    def probabilities(self, logits: Float[Tensor, "text token"]) -> Float[Tensor, "text token"]:
        """The filtered probabilities of the next token, over the vocabulary, in float64."""
        probabilities, tokens = self._candidates(logits)
        return torch.zeros(logits.shape, dtype=torch.float64, device=logits.device).scatter(
            1, tokens, probabilities
        )

    def draw(
        self, logits: Float[Tensor, "text token"], numbers: Float[Tensor, " text"]
    ) -> Int[Tensor, " text"]:
        """The token of each row at which the distribution function passes the row's number in [0, 1).

        Tokens stand in order of falling logit where top_k is set, else in order of their ids.

        >>> logits = torch.tensor([[0.25, 0.5, 0.25]]).log().expand(3, 3)
        >>> Sampling().draw(logits, torch.tensor([0.2, 0.3, 0.9]))
        tensor([0, 1, 2])
        """
        probabilities, tokens = self._candidates(logits)
        reached = probabilities.cumsum(dim=1)
        total = reached[:, -1:]
        # Below the total, so that a number next to 1 cannot fall on the tokens of probability 0 at the end.
        target = torch.minimum(numbers.double()[:, None] * total, torch.nextafter(total, -total))
        return tokens.gather(1, torch.searchsorted(reached, target, right=True))[:, 0]

    def _candidates(
        self, logits: Float[Tensor, "text token"]
    ) -> tuple[Float[Tensor, "text kept"], Int[Tensor, "text kept"]]:
        k = 1 if self.temperature == 0 else self.top_k
        if k is None:
            scores, tokens = logits, torch.arange(logits.shape[1], device=logits.device).expand_as(logits)
        else:
            # Taken first, since top-p sorts what it is given: 50 numbers a text instead of a vocabulary.
            scores, tokens = logits.topk(min(k, logits.shape[1]), dim=1)
        scores = scores.double()
        if self.temperature > 0:
            scores = TemperatureLogitsWarper(float(self.temperature))(None, scores)
        if self.top_p < 1:
            scores = TopPLogitsWarper(float(self.top_p))(None, scores)
        return scores.softmax(dim=1), tokens


GREEDY = Sampling(temperature=0.0)


def uniform(seed: int, sample: str, token: int) -> float:
    """The number in [0, 1) that decides token t of a sample: the top 53 bits of a BLAKE2b hash of the three.

    >>> round(uniform(0, "caption-1", 1), 6)
    0.041417
    >>> uniform(0, "caption-1", 1) == uniform(0, "caption-1", 1) != uniform(1, "caption-1", 1)
    True
    """
    name = json.dumps([seed, sample, token]).encode()
    return (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 11) * 2.0**-53


def uniforms(seed: int, samples: Sequence[str], token: int) -> Float[Tensor, " text"]:
    """`uniform` of several samples at one token, in float64."""
    return torch.tensor([uniform(seed, sample, token) for sample in samples], dtype=torch.float64)
