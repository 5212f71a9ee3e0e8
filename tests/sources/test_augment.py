import difflib
import random
import string

import pytest

from readout.errors import ParameterError, TextError
from readout.sources.augment import NEIGHBOURS, keyboard, random_char, split_words, views

TEXT = "My fellow citizens, the state of our union is strong and every part of it is at work."


def test_views_are_distinct_and_none_is_the_text():
    made = views([TEXT], n_views=16, seed=0)[0]
    assert len({*made, TEXT}) == 17
    assert all(difflib.SequenceMatcher(None, TEXT, view).ratio() > 0.5 for view in made)


def test_views_depend_on_seed_and_content_alone():
    other = "Another text altogether, before or after."
    alone = views([TEXT], 4, seed=0)[0]
    assert views([other, TEXT, TEXT], 4, seed=0)[1:] == [alone, alone]
    assert views([TEXT], 2, seed=0)[0] == alone[:2]
    assert not set(views([TEXT], 4, seed=1)[0]) & set(alone)
    longer = views([TEXT + " Thanks."], 4, seed=0)[0]
    assert all(a[:40] != b[:40] for a, b in zip(longer, alone, strict=True))


def test_global_random_state_is_neither_read_nor_moved():
    random.seed(5)
    first, state = views([TEXT], 2, seed=0), random.getstate()
    random.seed(6)
    assert views([TEXT], 2, seed=0) == first
    random.setstate(state)


def test_views_are_text_and_not_the_print_of_a_list():
    for view in views([TEXT], 8, seed=0)[0]:
        assert isinstance(view, str)
        assert not set("[]'\"") & set(view)


def test_each_step_changes_what_it_says():
    rng = random.Random(0)
    assert split_words(TEXT, rng).replace(" ", "") == TEXT.replace(" ", "")
    assert split_words(TEXT, rng, p=1.0).count(" ") > TEXT.count(" ") + 10
    for step, allowed in ((random_char, lambda c: string.ascii_lowercase), (keyboard, NEIGHBOURS.get)):
        changed = step(TEXT, rng)
        assert len(changed) == len(TEXT)
        differing = [(a, b) for a, b in zip(TEXT, changed, strict=True) if a != b]
        assert differing
        assert all(a.isalpha() and b.lower() in allowed(a.lower()) for a, b in differing)
        assert all(a.isupper() == b.isupper() for a, b in differing)


def test_rates_are_the_documented_ones():
    rng, text = random.Random(0), "fellow " * 4000
    for step in (random_char, keyboard):
        changed = step(text, rng, p=0.3)
        words = [a != "fellow" for a in changed.split()]
        assert sum(words) / len(words) == pytest.approx(0.3, abs=0.03)
    assert split_words(text, rng, p=0.3).count(" ") / 4000 == pytest.approx(1.3, abs=0.03)


def test_the_keyboard_is_symmetric():
    assert NEIGHBOURS["g"] == "tyfhvb"
    assert all(a in NEIGHBOURS[b] for a in NEIGHBOURS for b in NEIGHBOURS[a])


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_named_before_any_work(text):
    with pytest.raises(TextError, match="text 1 is empty"):
        views([TEXT, text], 2, seed=0)


@pytest.mark.parametrize("text", ["7", "!", "日"])
def test_a_text_too_short_for_views_is_an_error_and_not_a_loop(text):
    with pytest.raises(TextError, match="too short for 2 distinct views"):
        views([text], 2, seed=0)


def test_dials_out_of_range_are_named():
    for p in (0.0, 1.1, -0.3, float("nan")):
        with pytest.raises(ParameterError, match="p="):
            views([TEXT], 2, seed=0, p=p)
        with pytest.raises(ParameterError, match="p="):
            keyboard(TEXT, random.Random(0), p=p)
    with pytest.raises(ParameterError, match="n_views=0"):
        views([TEXT], 0, seed=0)
    assert views([], 2, seed=0) == []
