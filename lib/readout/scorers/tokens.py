from dataclasses import dataclass
import torch, string
from torch import Tensor, nn
@dataclass(frozen=True)
class Tokens:
    states: Tensor
    mask: Tensor
    content: Tensor
    def __len__(self): return len(self.states)
    def __getitem__(self, rows): return Tokens(self.states[rows], self.mask[rows], self.content[rows])
    @classmethod
    def cat(cls, parts):
        T = max(p.states.shape[1] for p in parts)
        pad = lambda x: nn.functional.pad(x, (0,0)*(x.ndim-2) + (0, T - x.shape[1]))
        return cls(*(torch.cat([pad(getattr(p, n)) for p in parts]) for n in ("states","mask","content")))
def skip_list(tokenizer):
    skip = torch.zeros(len(tokenizer), dtype=torch.bool)
    special = set(tokenizer.all_special_ids)
    for tok, i in tokenizer.get_vocab().items():
        t = tokenizer.convert_tokens_to_string([tok]).strip().removeprefix("##")
        if i not in special and all(c in string.punctuation + string.whitespace for c in t): skip[i] = True
    return skip
