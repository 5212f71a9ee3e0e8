"""What the paper on generated tokens claims, and how each claim is judged.

The paper's values are of Qwen3-14B with 128 tokens on WIT-1024 against DINOv2. Claims that it does not make say so.
"""

from readout.report.claims import Claim

_CKA = "CKA"

ALIGNMENT = {
    "B-mean-token": Claim("the mean beats the best single token, held out", ".410, .291", _CKA, above=0.0),
    "B-mean-last": Claim("the mean beats the last token", "yes", _CKA, above=0.0),
    "B-gen-prompt": Claim("generated tokens beat the prompt, both averaged", ".410, .184", _CKA, above=0.0),
    "B-prompt-mean": Claim("averaging prompt tokens does not beat the last one", "yes", _CKA, below=0.0),
    "B-pool": Claim("the mean beats maximum, attention and last token", "yes", _CKA, above=0.0),
    "B-seeds": Claim("best and worst decoding seed are about the same", "stable", _CKA, within=0.03),
    "B-mix3": Claim("the mixture of thirds beats the best third", "yes", _CKA, above=0.0),
    "B-mix-rec": Claim("and that of eighths the best eighth", "yes", _CKA, above=0.0),
    "B-mix-seed": Claim("the mean over decoding seeds beats the best seed", "yes", _CKA, above=0.0),
    "B-math": Claim("problems: the mean beats the best single token", "yes", _CKA, above=0.0),
    "B-science": Claim("GPQA-Diamond: the same", "yes", _CKA, above=0.0),
    "B-protein": Claim("proteins: the mean beats the best single token", "yes", _CKA, above=0.0),
    "B-phase": Claim("tokens of content beat those of the preamble", "yes", _CKA, above=0.0),
    "B-cumul": Claim("the mean of all tokens beats that of the first quarter", "yes", _CKA, above=0.0),
    "B-recall": Claim("a recall phrase aligns more than phrases as long", "jumps", _CKA, above=0.0),
    "B-cross": Claim("another model's text: the phases are gone", "yes", _CKA, below=0.0),
    "B-cross-halluc": Claim("another model's hallucination degrades", "yes", _CKA, below=0.0),
    "B-shuf-pair": Claim("shuffled pairs: no alignment", "0", _CKA, within=0.05),
    "B-shuf-order": Claim("words in order beat the same words shuffled", "not given", _CKA, above=0.0),
    "B-layer-avg": Claim("averaging layers does not beat the best layer", "about equal", _CKA, below=0.0),
    "B-layer-last": Claim("generated: the last layer is the best", "yes", _CKA, above=0.0),
    "B-layer-mid": Claim("prompt: an inner layer beats the last", "often", _CKA, above=0.0),
    "B-noise": Claim("averaging gains more than independent noise explains", "not asked", _CKA, above=0.0),
    "B-length": Claim("the gain over the prompt falls with caption length", "others: yes", _CKA, below=0.0),
    "B-debias": Claim("biased CKA reports alignment for shuffled pairs", "others: .60", _CKA, above=0.1),
}
