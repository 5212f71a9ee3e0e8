"""The corpus is played by two small files with the columns, names and quirks of the real ones."""

import tomllib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from readout import paths
from readout.errors import AssetError, ParameterError
from readout.sources import assets, wikitext
from readout.sources.texts import passages

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["text", "author", "document", "year", "medium", "position"]


def sentence(article, i):
    return f"S{article} v{i} <unk> role @-@ playing 1 @,@ 500 , d e f ."


def article(a, sentences):
    """Title, section and formula in rows, one sentence a paragraph; empty rows where the corpus has them."""
    first, *more = [f" {sentence(a, i)} \n" for i in range(sentences)]
    return ["", f" = Title @-@ {a} = \n", "", first, " = 2 + 2 = \n", "", " = = Plot = = \n", "", *more]


@pytest.fixture
def corpus(project, monkeypatch, tmp_path_factory):
    """Forty articles of 1 to 4 sentences of ten words; one lies across both files and row groups hold seven rows."""
    registry = tomllib.loads((ROOT / "assets.toml").read_text())["wikitext"]
    lines = [f"{key} = {value!r}\n" for key, value in registry.items()]
    (project.root / "assets.toml").write_text("[wikitext]\n" + "".join(lines))
    monkeypatch.setenv("READOUT_ASSETS", str(tmp_path_factory.mktemp("disk")))
    asset = assets.find("wikitext")
    data = assets.assets_root() / asset.folder / "wikitext-103-v1"
    data.mkdir(parents=True)
    rows = [row for a in range(40) for row in article(a, 1 + a % 4)]
    for i, part in enumerate((rows[:101], rows[101:])):
        table = pa.table({"text": pa.array(part, pa.string())})
        pyarrow.parquet.write_table(table, data / f"train-0000{i}-of-00002.parquet", row_group_size=7)
    assets.write_manifest(data.parent, asset.pin, {})


def test_passages_are_contiguous_and_say_where_they_come_from(corpus):
    drawn = passages(100, words=10, corpus="wikitext")
    assert drawn.column_names == COLUMNS
    for row in drawn:
        a, i = int(row["author"].removeprefix("Title-")), row["position"] // 10
        assert row["text"] == f"S{a} v{i} <unk> role-playing 1,500 , d e f ."
        assert (row["document"], row["year"], row["medium"]) == (f"Title-{a}", None, "article")
    assert Counter(drawn["author"]) == {f"Title-{a}": 1 + a % 4 for a in range(40)}


def test_passages_are_dealt_round_by_round_over_the_articles(corpus):
    documents = passages(70, words=10, corpus="wikitext")["document"]
    assert len(set(documents[:40])) == 40
    assert len(set(documents[40:])) == 30
    assert sorted(documents[:20]) != sorted(documents[20:40])


def test_fewer_passages_are_the_first_of_more_and_the_seed_decides_which(corpus):
    more = passages(100, words=10, seed=5, corpus="wikitext").to_list()
    for n in (1, 7, 39, 41, 99):
        assert passages(n, words=10, seed=5, corpus="wikitext").to_list() == more[:n]
    assert passages(7, words=10, seed=6, corpus="wikitext").to_list() != more[:7]


def test_articles_too_short_for_a_passage_are_passed_over(corpus):
    drawn = passages(10, words=40, corpus="wikitext")
    assert {int(title.removeprefix("Title-")) % 4 for title in drawn["author"]} == {3}
    assert set(drawn["position"]) == {0}
    with pytest.raises(ParameterError, match="n is 11; wikitext holds 10 passages of 40 words"):
        passages(11, words=40, corpus="wikitext")


def test_documents_are_whole_articles_across_row_groups_and_files(corpus):
    articles = list(wikitext.documents(assets.locate("wikitext")))
    assert [about["document"] for _, about in articles] == [f"Title-{a}" for a in range(40)]
    for a, (text, _) in enumerate(articles):
        sentences = [sentence(a, i) for i in range(1 + a % 4)]
        assert text.split("\n") == [sentences[0], "= 2 + 2 =", "= = Plot = =", *sentences[1:]]


def test_headings_of_every_depth_go_and_prose_with_equals_signs_stays():
    kept = "The sum a = b + c is one ."
    assert wikitext.clean(f"{kept}\n= = A = =\n= = = B C = = =\n= 2 + 2 =\n{kept}") == f"{kept} {kept}"


def test_without_the_corpus_the_message_says_what_to_do(corpus, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("READOUT_ASSETS", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(AssetError, match="asset 'wikitext' is not fetched: run `make assets`"):
        passages(1, corpus="wikitext")


def test_the_paper_profile_takes_the_train_split_of_the_tokenised_configuration():
    paths.root.cache_clear()
    asset = assets.find("wikitext")
    assert asset.wanted == "wikitext-103-v1/train-*.parquet"
    assert asset.profiles == ("paper",)
