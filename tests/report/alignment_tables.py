"""Toy tables of every kind of figure on generated tokens: three domains, numbers that a reader can follow."""

from itertools import product

import numpy as np
import pandas as pd

COMMON = {
    "model": "tiny-llm",
    "metric": "CKA",
    "n": 117,
    "profile": "tiny",
    "paper": "B",
    "provenance": "abc",
}
DOMAINS = {"captions": "openmoji", "problems": "champ", "proteins": "pdb chains"}
SHIFT = {"captions": 0.0, "problems": 0.1, "proteins": -0.1}
TARGETS = {
    "captions": ("image, efficientnet-lite0",),
    "problems": ("solution, all-minilm-l6-v2", "solution, smollm2-135m-instruct"),
    "proteins": ("structure, proteinmpnn", "amino-acid composition"),
}
POOLED = {
    "generated mean": 0.41,
    "generated last": 0.25,
    "best token": 0.31,
    "best token, held out": 0.29,
    "generated max": 0.33,
    "generated attention": 0.36,
    "prompt mean": 0.18,
    "prompt text mean": 0.21,
    "prompt last": 0.2,
    "echo": 0.3,
}
CONTROLS = {
    "generated mean": 0.41,
    "pairs shuffled": 0.0,
    "words shuffled": 0.3,
    "tokens shuffled": 0.41,
    "without the prompt": 0.37,
    "unrelated continuation": 0.1,
    "echo": 0.3,
    "read by all-minilm": 0.44,
    "caption read by all-minilm": 0.48,
}
MEASURES = ("debiased CKA, clipped", "debiased CKA, not clipped", "biased CKA", "as published")
MEASURES += ("mutual k-NN", "CKNNA", "RSA")
PHRASES = {
    "Let me recall what I know": 0.1,
    "Let me think about it now": 0.02,
    "Here is the answer to it": 0.04,
}
TOKENS = range(1, 25)


def _table(rows, margin=None):
    """A table of `rows` in the columns that all tables have; with an interval only where there is a `margin`."""
    table = pd.DataFrame([COMMON | {"data": DOMAINS[row["domain"]]} | row for row in rows])
    if margin is None:
        return table
    limits = {"low": table["value"] - margin, "high": table["value"] + margin, "level": 0.95}
    return table.assign(**limits)


def _readouts():
    pairs = [(domain, target) for domain, targets in TARGETS.items() for target in targets]
    whole = [
        {"domain": d, "target": t, "readout": r, "value": v + SHIFT[d]}
        for (d, t), (r, v) in product(pairs, POOLED.items())
    ]
    seeds = [
        row | {"metric": "CKA of one seed", "value": row["value"] + 0.015 * (seed - 1), "seed": seed}
        for row, seed in product(whole, range(3))
        if row["readout"].startswith(("generated", "prompt"))
    ]
    return pd.concat([_table(whole, 0.04), _table(seeds)])


def _rise(token):
    """A curve that is 0.1 at the first of 24 tokens and 0.3 from the twelfth on."""
    return 0.1 + 0.2 * min(1.0, (token - 1) / 11)


def _trajectory():
    for domain, token in product(DOMAINS, TOKENS):
        for seed in range(2):
            single = _rise(token) + SHIFT[domain] + 0.02 * (seed - 0.5) + 0.01 * (-1) ** token
            yield {"domain": domain, "readout": "single token", "token": token, "seed": seed, "value": single}
            mean = 0.1 + 0.3 * (token - 1) / 23 + SHIFT[domain] + 0.02 * (seed - 0.5)
            yield {
                "domain": domain,
                "readout": "cumulative mean",
                "token": token,
                "seed": seed,
                "value": mean,
            }
        for readout, value in (
            ("single token", _rise(token) + 0.01 * (-1) ** token),
            ("cumulative mean", 0.1 + 0.3 * (token - 1) / 23),
        ):
            value += SHIFT[domain]
            limits = {"low": value - 0.03, "high": value + 0.03, "level": 0.95}
            yield {"domain": domain, "readout": readout, "token": token, "value": value} | limits
        late = 0.08 + 0.3 * (token - 1) / 23 + SHIFT[domain]
        yield {"domain": domain, "readout": "cumulative mean, as published", "token": token, "value": late}
        null = 0.2 + SHIFT[domain] + 0.1 * token / 24
        yield {"domain": domain, "readout": "averaging null", "token": token, "value": null}
    for domain in DOMAINS:
        yield {"domain": domain, "readout": "prompt mean", "value": 0.18 + SHIFT[domain]}
        for phase, token in (("preamble", 4.5), ("repetition", 6)):
            yield {"domain": domain, "readout": "phase", "phase": phase, "token": token, "value": token}


def _depth():
    start = {"generated mean": 0.2, "generated last": 0.15, "prompt mean": 0.18, "prompt last": 0.1}
    for domain, readout, layer in product(DOMAINS, start, range(7)):
        falls = 0.08 * max(0, layer - 4) if readout.startswith("prompt") else 0
        value = start[readout] + 0.035 * layer - falls + SHIFT[domain]
        place = {"layer": layer, "depth": layer / 6}
        yield {"domain": domain, "readout": readout, "value": value, **place}
    for domain, pooled in product(DOMAINS, ("generated mean", "prompt mean")):
        value = start[pooled] + 0.13 + SHIFT[domain]
        yield {"domain": domain, "readout": f"{pooled}, layers averaged", "value": value}


def _token_depth():
    for domain, layer, token in product(DOMAINS, range(7), TOKENS):
        value = _rise(token) * (layer + 1) / 7 + SHIFT[domain] / 2 - 0.001 * token
        place = {"layer": layer, "depth": layer / 6, "token": token}
        yield {"domain": domain, "readout": "single token", "value": value, **place}


def _simplex():
    for domain, a, b in product(DOMAINS, range(11), range(11)):
        if a + b <= 10:
            w = np.array([a, b, 10 - a - b]) / 10
            value = 0.4 + SHIFT[domain] - 0.2 * float(((w - [0.2, 0.3, 0.5]) ** 2).sum())
            yield {"domain": domain, "readout": "mixture", "w1": w[0], "w2": w[1], "w3": w[2], "value": value}


def _segments():
    for domain, k in product(("captions", "problems"), (1, 2, 4, 8, 16)):
        drop = {"uniform mixture": 0, "best segment": 0.02, "mean of segments": 0.04}
        for readout, step in drop.items():
            value = 0.41 + SHIFT[domain] - step * np.log2(k)
            yield {"domain": domain, "readout": readout, "segments": k, "value": value}
    gain = {"same segment, other seeds": 0.03, "other segments, same seed": 0.05, "averaging null": 0.025}
    for domain, (readout, step), count in product(("captions", "problems"), gain.items(), (1, 2, 3)):
        value = 0.28 + SHIFT[domain] + step * (count - 1)
        yield {"domain": domain, "readout": readout, "segments": count, "value": value}


def _injection():
    for place, (phrase, jump), token in product((8, 24), PHRASES.items(), range(1, 17)):
        value = 0.15 + jump * np.exp(-abs(token - 6) / 3) + 0.001 * place
        yield {
            "domain": "captions",
            "readout": "single token",
            "phrase": phrase,
            "step": place,
            "token": token,
            "value": value,
        }
    first, *others = PHRASES
    for place, token in product((8, 24), range(1, 17)):
        jump = PHRASES[first] - np.mean([PHRASES[phrase] for phrase in others])
        about = {"domain": "captions", "readout": "lead over other phrases", "phrase": first}
        yield about | {"step": place, "token": token, "value": jump * np.exp(-abs(token - 6) / 3)}


def _length():
    wordings = {"short": (2.4, 0.4, 0.2), "middle": (10.1, 0.38, 0.32), "long": (42.7, 0.35, 0.45)}
    for wording, (words, made, asked) in wordings.items():
        about = {"domain": "captions", "wording": wording, "words": words}
        yield about | {"readout": "generated mean", "value": made}
        yield about | {"readout": "prompt mean", "value": asked}
        yield about | {"readout": "generated less prompt", "value": made - asked}


def _metrics():
    values = {"generated mean": 0.4, "prompt mean": 0.2, "pairs shuffled": 0.01}
    for domain, (at, measure), (readout, value) in product(DOMAINS, enumerate(MEASURES), values.items()):
        biased = 0.5 * (measure == "biased CKA")
        value = value + SHIFT[domain] * (readout != "pairs shuffled") + 0.01 * at + biased
        yield {"domain": domain, "estimator": measure, "readout": readout, "value": value, "metric": measure}


def _generations():
    for domain, token in product(DOMAINS, range(4, 49, 4)):
        stop = "length" if token == 48 else "eos"
        count = 40 if token == 48 else 5 + (token * 7 + len(domain)) % 6
        yield {"domain": domain, "stop": stop, "token": token, "value": count, "metric": "generations"}


TABLES = {
    "readouts": _readouts(),
    "controls": _table(({"domain": "captions", "readout": r, "value": v} for r, v in CONTROLS.items()), 0.03),
    "metrics": _table(_metrics()),
    "length": _table(_length(), 0.05),
    "segments": _table(_segments()),
    "trajectory": _table(_trajectory()),
    "depth": _table(_depth(), 0.02),
    "token-depth": _table(_token_depth()),
    "simplex": _table(_simplex()),
    "injection": _table(_injection(), 0.02),
    "generations": _table(_generations()),
}
