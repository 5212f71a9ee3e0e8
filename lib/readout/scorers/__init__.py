import torch, re
from dataclasses import dataclass
from torch import Tensor, nn
import torch.nn.functional as F
from readout.errors import ParameterError, TooFewError, TextError
from readout.scorers.tokens import Tokens, skip_list
class Scorer: pass
def _maxsim(q, qm, k, km, red):
    s = torch.einsum("qad,kbd->qkab", F.normalize(q, dim=-1), F.normalize(k, dim=-1)).masked_fill(~km[None,:,None,:], float("-inf")).amax(-1)
    s = (s.masked_fill(~qm[:,None,:], 0)).sum(-1)
    return s / qm.sum(-1)[:,None] if red == "mean" else s
@dataclass(frozen=True)
class MeanPooling(Scorer):
    def score(self, q, k):
        m = lambda t: F.normalize((t.states * t.mask[..., None]).sum(1), dim=-1)
        return m(q) @ m(k).T
@dataclass(frozen=True)
class LateInteraction(Scorer):
    reduction: str = "sum"
    skip_punctuation: bool = True
    def score(self, q, k):
        return _maxsim(q.states, q.content if self.skip_punctuation else q.mask, k.states, k.mask, self.reduction)
def _patches(t, n):
    B, T, D = t.states.shape
    P = -(-T // n)
    w = F.pad(t.mask, (0, P*n - T)).float().view(B, P, n)
    s = F.pad(t.states * t.mask[..., None], (0,0,0, P*n-T)).view(B, P, n, D).sum(2)
    c = w.sum(2)
    return s / c.clamp(min=1)[..., None], c > 0
@dataclass(frozen=True)
class PatchLateInteraction(Scorer):
    n: int
    reduction: str = "sum"
    def score(self, q, k):
        (a, am), (b, bm) = _patches(q, self.n), _patches(k, self.n)
        return _maxsim(a, am, b, bm, self.reduction)
def scorer_of(name):
    if name in ("mean", "layerwise"): return MeanPooling()
    if name == "li": return LateInteraction()
    if name == "li-mean": return LateInteraction("mean")
    if name == "li-all": return LateInteraction(skip_punctuation=False)
    if m := re.fullmatch(r"pli-([1-9]\d*)(-mean)?", name): return PatchLateInteraction(int(m[1]), "mean" if m[2] else "sum")
    raise ParameterError(f"scorer {name!r}")
def query_terms(scorer, t):
    if isinstance(scorer, MeanPooling) or scorer.reduction == "mean": return torch.ones(len(t))
    if isinstance(scorer, LateInteraction): return (t.content if scorer.skip_punctuation else t.mask).sum(1).float()
    return _patches(t, scorer.n)[1].sum(1).float()
class Head(nn.Sequential):
    def __init__(self, dim, hidden=None, dropout=.1):
        hidden = hidden or 4*dim
        super().__init__(nn.Dropout(dropout), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
class ScalarMix(nn.Module):
    def __init__(self, n):
        super().__init__(); self.w = nn.Parameter(torch.zeros(n)); self.gamma = nn.Parameter(torch.ones(()))
    @property
    def weights(self): return self.w.softmax(0).detach()
    def forward(self, states): 
        w = self.w.softmax(0)
        return self.gamma * sum(a * s for a, s in zip(w, states))
def infonce_loss(scores, target, temperature, excluded=None):
    if not temperature > 0: raise ParameterError(f"temperature: {temperature}")
    logits = scores / temperature
    if excluded is not None: logits = logits.masked_fill(excluded, float("-inf"))
    if ((~torch.isinf(logits)).sum(1) < 2).any(): raise TooFewError("no negative")
    return F.cross_entropy(logits, target)
