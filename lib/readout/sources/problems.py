"""Problems with a worked solution and an answer, from four sources behind one schema.

`champ`: competition problems solved in steps. `gsm_symbolic`: word problems of grade school, made from templates, as
many as wanted. `math-500` and `gpqa-diamond`: the sets of the published alignment (arXiv 2605.09969), from the hub.
"""

import csv
import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import datasets
import numpy as np

from readout.errors import AssetError, ParameterError, TextError
from readout.sources.assets import locate

SOURCES = ("champ", "gsm_symbolic", "math-500", "gpqa-diamond")
MOST_MADE = 20_000

_FEATURES = datasets.Features(
    {name: datasets.Value("string") for name in ("id", "source", "text", "solution", "answer")}
)
_WRONG = tuple(f"Incorrect Answer {i}" for i in (1, 2, 3))
# The generator adds it to each of its questions, and a part that all texts share would make them more alike.
_REQUEST = " Give the result as your final answer. Do not include units."


def problems(source: str, n: int | None = None, *, seed: int = 0) -> datasets.Dataset:
    """`n` problems in an order that `seed` draws, all of them for None; the first k are those of a call with n = k.

    Columns: id; source; text, the problem; solution, the gold steps, one a line; answer. Of problems whose texts
    are the same but for white space and case the first stays, and `info.description` says how many were left out.
    `gsm_symbolic` makes its problems, so it needs an n, and `seed` draws the problems themselves. The choices of
    `gpqa-diamond` are part of the text, shuffled for each question by `seed`, and the answer is a letter.

    Raises ParameterError for an unknown source, a seed below 0, or an n that the source does not hold; TextError for
    a problem without text or answer; AssetError where a set is not fetched or not as it should be.
    """
    if source not in SOURCES:
        raise ParameterError(f"source is {source!r}; it must be one of {', '.join(SOURCES)}")
    if seed < 0:
        raise ParameterError(f"seed is {seed}; it must be at least 0")
    if source == "gsm_symbolic":
        if n is None or not 1 <= n <= MOST_MADE // 2:
            raise ParameterError(f"n is {n}; gsm_symbolic makes from 1 to {MOST_MADE // 2} problems")
        return _distinct(gsm_symbolic(seed), n)
    found = _distinct(_stored(source, seed))
    if n is not None and not 1 <= n <= len(found):
        raise ParameterError(f"n is {n}; {source} holds {len(found)} problems")
    return found.select(np.random.default_rng(seed).permutation(len(found))[:n])


def _stored(source: str, seed: int) -> Iterator[dict]:
    if source == "champ":
        return champ(locate("champ"))
    return math_500(locate("math-500")) if source == "math-500" else gpqa_diamond(locate("gpqa"), seed)


def champ(folder: Path) -> Iterator[dict]:
    """The 270 problems of CHAMP in stored order, with the steps of their solutions."""
    path = folder / "v0.json"
    for id, problem in json.loads(_text_of(path))["problems"].items():
        solution = "\n".join(step["_text"] for step in problem["solution"]["steps"])
        yield _row("champ", id, problem["_text"], solution, problem["_answer"])


def gsm_symbolic(seed: int) -> Iterator[dict]:
    """`MOST_MADE` word problems in the order in which the generator of reasoning-gym draws them from `seed`.

    Fewer than 100 templates make them all, and problems of one template are near copies: an id is
    `template/seed/index`. The solution is the chain of thought without its last line, which repeats the answer.
    Raises AssetError where the package is not installed: it has code to compile and is left out by default.
    """
    try:
        import reasoning_gym
    except ImportError:
        raise AssetError("gsm_symbolic needs reasoning-gym: run `pip install -e '.[problems]'`") from None
    # The generator draws problem i from seed + i, so neighbouring seeds would share problems.
    made = reasoning_gym.create_dataset("gsm_symbolic", size=MOST_MADE, seed=seed * MOST_MADE)
    for i in range(MOST_MADE):
        problem = made[i]
        solution = problem["metadata"]["answer_cot"].rpartition("\n#### ")[0]
        id, text = f"{made.task_indices[i]}/{seed}/{i}", problem["question"].removesuffix(_REQUEST)
        yield _row("gsm_symbolic", id, text, solution, problem["answer"])


def math_500(folder: Path) -> Iterator[dict]:
    """The rows of `test.jsonl` in stored order; the solution is the worked one, the answer its boxed result."""
    rows = [json.loads(line) for line in _text_of(folder / "test.jsonl").splitlines() if line.strip()]
    _check_columns("math-500", rows, ("unique_id", "problem", "solution", "answer"))
    for row in rows:
        yield _row("math-500", row["unique_id"], row["problem"], row["solution"], row["answer"])


def gpqa_diamond(folder: Path, seed: int) -> Iterator[dict]:
    """The rows of `gpqa_diamond.csv` in stored order, each question followed by its four choices, A to D.

    The choices of row i are shuffled by `random.Random(seed + i)`; the answer is the letter of the right one, the
    solution the author's explanation.
    """
    rows = list(csv.DictReader(_text_of(folder / "gpqa_diamond.csv").splitlines(keepends=True)))
    _check_columns("gpqa-diamond", rows, ("Question", "Explanation", "Correct Answer", *_WRONG))
    for i, row in enumerate(rows):
        order = [0, 1, 2, 3]
        random.Random(seed + i).shuffle(order)
        choices = [row[column].strip() for column in ("Correct Answer", *_WRONG)]
        lines = [f"{letter}. {choices[k]}" for letter, k in zip("ABCD", order, strict=True)]
        text = "\n".join([row["Question"].strip(), *lines])
        yield _row("gpqa-diamond", str(i), text, row["Explanation"].strip(), "ABCD"[order.index(0)])


def _row(source: str, id: str, text: str, solution: str, answer: str) -> dict:
    for name, value in (("text", text), ("answer", answer)):
        if not value.strip():
            raise TextError(f"{name} of {source} {id} is {value!r}; every problem needs one")
    return {"id": id, "source": source, "text": text, "solution": solution, "answer": answer}


def _distinct(rows: Iterable[dict], n: int | None = None) -> datasets.Dataset:
    """The first n problems whose texts no earlier one has, all of them for None."""
    seen: set[str] = set()
    repeated = 0

    def unseen() -> Iterator[dict]:
        nonlocal repeated
        for row in rows:
            key = " ".join(row["text"].lower().split())
            repeated += key in seen
            if key not in seen:
                seen.add(key)
                yield row

    kept = list(islice(unseen(), n))
    info = datasets.DatasetInfo(f"{repeated} repeated problems left out", features=_FEATURES)
    return datasets.Dataset.from_list(kept, info=info)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        raise AssetError(f"'{path}' cannot be read; fetch the data set again") from None


def _check_columns(source: str, rows: list[dict], needed: tuple[str, ...]) -> None:
    if not rows:
        raise AssetError(f"{source} holds no row; fetch the data set again")
    if missing := [column for column in needed if any(row.get(column) is None for row in rows)]:
        raise AssetError(f"{source} lacks the columns {', '.join(missing)}")
