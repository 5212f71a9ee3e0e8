"""What the paper on authorship claims, notebook by notebook, and how each claim is judged.

The paper's values are of ModernBERT-base on HALvest-Contrastive. Claims that it does not make say so.
"""

from readout.report.claims import Claim

_SHARE = "share of R@20"

RETRIEVAL = {
    "A-bench-li": Claim(
        "late interaction finds several times what mean pooling finds", "4.0", "ratio of R@20", above=2.0
    ),
    "A-scorer-only": Claim("late interaction finds more than mean pooling", ".364", _SHARE, above=0.0),
    "A-bench-pli": Claim("patches of two tokens are on a par with single ones", ".012", _SHARE, within=0.05),
    "A-bench-zero": Claim(
        "trained late interaction beats the untrained encoder", ".318 (E5)", _SHARE, above=0.0
    ),
    "A-bench-zero-mean": Claim(
        "the untrained encoder beats trained mean pooling", ".046 (E5)", _SHARE, above=0.0
    ),
    "A-mean-by-li": Claim("the mean-trained encoder finds more if scored by LI", ".026", _SHARE, above=0.0),
    "A-layerwise": Claim(
        "a layerwise mix finds about what mean pooling finds", "little more", _SHARE, within=0.05
    ),
    "A-temp": Claim("at one temperature for both, LI still finds more", "not asked", _SHARE, above=0.0),
    "A-n3": Claim("patches of eight tokens find less than single ones", "-.007 at n = 5", _SHARE, below=0.0),
}

STYLE = {
    "A-avail-all": Claim("all nine groups are read at every layer: lowest R2", "above 0", "share", above=0.0),
    "A-avail-same": Claim(
        "training changes little of what can be read: largest change", "0", "share", within=0.05
    ),
    "A-avail-best": Claim(
        "word length, capitals, types, punctuation are read best", "these four", "share", above=0.0
    ),
    "A-avail-token": Claim("tokens hold what their text's mean has lost", "yes", "share", above=0.0),
    "A-cut": Claim("200 characters against whole texts lowers R2", "not seen", "share", below=0.0),
}

DEPTH = {
    "A-patch-identity": Claim(
        "equal lengths: lowest recovery of any layer and scorer", "not seen", "percent", above=99.9
    ),
    "A-consol-li": Claim(
        "as published: LI consolidates later than mean pooling", "7 of 22", "of depth", above=0.0
    ),
    "A-consol-pli": Claim(
        "as published: patches of two later than mean pooling", "5 of 22", "of depth", above=0.0
    ),
    "A-rank-mean": Claim(
        "as published: at the embedding, mean pooling is at chance", "about 0", "share", within=0.1
    ),
    "A-true-shift": Claim(
        "mean shift: LI recovers deeper than mean pooling", "not asked", "of depth", above=0.0
    ),
    "A-true-random": Claim(
        "random positions: LI recovers deeper than mean pooling", "not asked", "of depth", above=0.0
    ),
    "A-sens": Claim("raw scores: LI is the more sensitive", "yes", "log ratio", above=0.0),
    "A-sens-unit": Claim(
        "in units of the gap, LI is the more sensitive", "not asked", "log ratio", above=0.0
    ),
    "A-tier-b": Claim("tier B fails more often than tier A, all scorers", "yes", "share", above=0.0),
    "A-tier-robust": Claim("in tier B, LI fails less often than mean pooling", "yes", "share", below=0.0),
}

DYNAMICS = {
    "A-grad-mean": Claim("mean pooling: share of candidate tokens with gradient", "1", "share", above=0.999),
    "A-grad-li": Claim("LI: share of candidate tokens with gradient, one pair", "sparse", "share", below=0.9),
    "A-grad-pli": Claim("patches reach more of a candidate's tokens than LI", "yes", "share", above=0.0),
    "A-grad-union": Claim(
        "LI: share once all queries of a batch are counted", "not asked", "share", above=0.9
    ),
    "A-dyn-mean": Claim("mean pooling: recovery sinks into lower layers", "yes", "of depth", below=0.0),
    "A-dyn-li": Claim("LI: recovery climbs into higher layers", "yes", "of depth", above=0.0),
    "A-dyn-style": Claim("style stays as readable as before training", "yes", "share", within=0.05),
}
