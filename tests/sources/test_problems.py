import csv
import json
import random
import sys

import pytest

from readout import paths
from readout.errors import AssetError, ParameterError, TextError
from readout.sources import problems as module
from readout.sources.problems import champ, gpqa_diamond, gsm_symbolic, math_500, problems

COLUMNS = ["id", "source", "text", "solution", "answer"]


def write_champ(folder, texts):
    """Problems as the package stores them, among what is not read."""
    stored = {
        f"P_{i}": {
            "_raw_text": f"@@{text}@@",
            "_text": text,
            "category": "Sequence",
            "solution": {
                "steps": [{"_raw_text": "@@s@@", "_text": f"step {k}", "ch_idxs": []} for k in (1, 2)]
            },
            "_answer": str(i),
        }
        for i, text in enumerate(texts)
    }
    (folder / "v0.json").write_text(json.dumps({"problems": stored, "concepts": {}, "hints": {}}))
    return folder


def write_math(folder, rows):
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def math_row(i=0, **changes):
    row = {"problem": f"What is {i} + 1?", "solution": f"It is\n\\boxed{{{i + 1}}}.", "answer": str(i + 1)}
    return row | {"subject": "Algebra", "level": 1, "unique_id": f"test/algebra/{i}.json"} | changes


def write_gpqa(folder, rows):
    with (folder / "gpqa_diamond.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def gpqa_row(i=0):
    return {
        "Record ID": f"rec{i}",
        "Question": f"Which, of\nthe four, is {i}?\n",
        "Correct Answer": f"right {i}\n",
        **{f"Incorrect Answer {k}": f"wrong {k}, {i}" for k in (1, 2, 3)},
        "Explanation": "Because.",
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "locate", lambda id: tmp_path)
    return tmp_path


def test_champ_has_its_steps_on_lines(folder):
    (row,) = champ(write_champ(folder, ["Find x."]))
    assert row == {
        "id": "P_0",
        "source": "champ",
        "text": "Find x.",
        "solution": "step 1\nstep 2",
        "answer": "0",
    }


def test_repeated_problems_are_counted_and_left_out(folder):
    write_champ(folder, ["Find x.", "find  X.", "Find y.", "Find x.\n"])
    found = problems("champ")
    assert sorted(found["id"]) == ["P_0", "P_2"]
    assert found.info.description == "2 repeated problems left out"
    assert problems("champ", 1).info.description == "2 repeated problems left out"


@pytest.mark.parametrize("source", ["champ", "math-500", "gpqa-diamond"])
def test_a_draw_follows_the_seed_and_its_start_is_that_of_a_smaller_one(folder, source):
    write_champ(folder, [f"Find x_{i}." for i in range(9)])
    write_math(folder, [math_row(i) for i in range(9)])
    write_gpqa(folder, [gpqa_row(i) for i in range(9)])
    whole = problems(source, seed=5)
    assert whole.column_names == COLUMNS
    assert set(whole["source"]) == {source}
    assert len(set(whole["id"])) == 9
    assert problems(source, 4, seed=5).to_list() == whole.to_list()[:4]
    assert problems(source, seed=6)["id"][:] != whole["id"][:]


def test_math_500_is_read_by_its_real_columns(folder):
    (row,) = math_500(write_math(folder, [math_row(1)]))
    assert [row[c] for c in COLUMNS] == [
        "test/algebra/1.json",
        "math-500",
        "What is 1 + 1?",
        "It is\n\\boxed{2}.",
        "2",
    ]


def test_the_choices_of_gpqa_are_shuffled_by_seed_plus_row_and_the_letter_is_right(folder):
    write_gpqa(folder, [gpqa_row(i) for i in range(30)])
    rows = list(gpqa_diamond(folder, seed=7))
    for i, row in enumerate(rows):
        question, choices = row["text"].split("?\n")
        assert question == f"Which, of\nthe four, is {i}"
        by_letter = dict(line.split(". ") for line in choices.splitlines())
        assert list(by_letter) == ["A", "B", "C", "D"]
        assert by_letter[row["answer"]] == f"right {i}"
        expected = [f"right {i}", *(f"wrong {k}, {i}" for k in (1, 2, 3))]
        random.Random(7 + i).shuffle(expected)
        assert list(by_letter.values()) == expected
        assert row["solution"] == "Because."
    assert {row["answer"] for row in rows} == {"A", "B", "C", "D"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"source": "gsm8k"}, "source is 'gsm8k'; it must be one of champ, gsm_symbolic, math-500, gpqa-dia"),
        ({"source": "champ", "seed": -1}, "seed is -1; it must be at least 0"),
        ({"source": "champ", "n": 3}, "n is 3; champ holds 2 problems"),
        ({"source": "champ", "n": 0}, "n is 0; champ holds 2 problems"),
        ({"source": "gsm_symbolic"}, "n is None; gsm_symbolic makes from 1 to 10000 problems"),
        ({"source": "gsm_symbolic", "n": 0}, "n is 0; gsm_symbolic makes from 1 to 10000 problems"),
    ],
)
def test_what_cannot_be_had_is_named(folder, arguments, named):
    write_champ(folder, ["Find x.", "Find y."])
    with pytest.raises(ParameterError, match=named):
        problems(**arguments)


def test_missing_files_columns_and_fields_are_named(folder):
    for source, file in [
        ("champ", "v0.json"),
        ("math-500", "test.jsonl"),
        ("gpqa-diamond", "gpqa_diamond.csv"),
    ]:
        with pytest.raises(AssetError, match=f"{file}' cannot be read; fetch the data set again"):
            problems(source)
    lacking = math_row()
    del lacking["solution"]
    write_math(folder, [math_row(), lacking])
    with pytest.raises(AssetError, match="math-500 lacks the columns solution"):
        problems("math-500")
    write_gpqa(folder, [{"Question": "?", "Explanation": "", "Correct Answer": "1"}])
    with pytest.raises(AssetError, match="gpqa-diamond lacks the columns Incorrect Answer 1, Incorrect"):
        problems("gpqa-diamond")
    (folder / "test.jsonl").write_text("")
    with pytest.raises(AssetError, match="math-500 holds no row"):
        problems("math-500")
    write_math(folder, [math_row(3, answer=" ")])
    with pytest.raises(TextError, match=r"answer of math-500 test/algebra/3.json is ' '; every problem"):
        problems("math-500")
    write_champ(folder, ["Find x.", ""])
    with pytest.raises(TextError, match="text of champ P_1 is ''; every problem needs one"):
        problems("champ")


def test_word_problems_follow_the_seed_and_are_all_different():
    pytest.importorskip("reasoning_gym", reason="the extra `problems` is not installed")
    whole = problems("gsm_symbolic", 60, seed=1)
    assert whole.column_names == COLUMNS
    assert len(set(whole["text"])) == 60
    assert problems("gsm_symbolic", 20, seed=1).to_list() == whole.to_list()[:20]
    assert not set(problems("gsm_symbolic", 60, seed=2)["text"]) & set(whole["text"])
    assert {int(id.split("/")[0]) for id in whole["id"]} <= set(range(100))
    assert [int(id.split("/")[2]) for id in whole["id"]] == sorted(
        int(id.split("/")[2]) for id in whole["id"]
    )
    for row in whole:
        assert "Give the result as" not in row["text"]
        assert "####" not in row["solution"]
        assert row["solution"].replace(",", "").count(row["answer"]) >= 1


def test_without_the_generator_it_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(AssetError, match=r"gsm_symbolic needs reasoning-gym: run `pip install -e '.\[prob"):
        next(gsm_symbolic(0))


@pytest.mark.assets
def test_the_real_champ_is_whole():
    paths.root.cache_clear()
    found = problems("champ")
    assert len(found) == 270
    assert found.info.description == "0 repeated problems left out"
    assert sum(len(text.splitlines()) for text in found["solution"]) / 270 == pytest.approx(6.0, abs=0.05)
    by_id = dict(zip(found["id"], found, strict=True))
    assert by_id["P_Combinatorics_1"]["answer"] == "239"
    assert not any("@@" in row["text"] + row["solution"] + row["answer"] for row in found)
