"""Random rewritings of a text that keep its gist, as views for InfoNCE, DiME and LiDAR.

Three steps in turn, as in appendix D of "Layer by Layer" (arXiv 2502.02013): cut words, replace letters at
random, replace letters by their neighbours on a keyboard. Seeded by the text itself, because an augmentation
that is cached or unseeded can hand out one and the same text as every view.
"""

import hashlib
import random
import re
import string
from collections.abc import Callable, Sequence

from readout.errors import ParameterError, TextError

# Rows of a QWERTY keyboard; each is shifted right by half a key against the one above.
_KEY_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ATTEMPTS = 100


def _neighbours() -> dict[str, str]:
    """For each letter, those on the keys that touch its own."""
    places = {key: (row, 2 * x + row) for row, keys in enumerate(_KEY_ROWS) for x, key in enumerate(keys)}

    def touching(key: str) -> str:
        row, x = places[key]
        return "".join(
            k for k, (r, y) in places.items() if k != key and abs(r - row) <= 1 and abs(y - x) <= 2
        )

    return {key: touching(key) for key in places}


NEIGHBOURS = _neighbours()


def split_words(text: str, rng: random.Random, p: float = 0.3) -> str:
    """Cut each word of two characters or more with probability `p`, at a random place, by a space.

    Raises `ParameterError` unless 0 < p <= 1.

    >>> split_words("no a", random.Random(0), p=1.0)
    'n o a'
    """
    return _each_word(text, rng, p, lambda word: _cut(word, rng))


def random_char(text: str, rng: random.Random, p: float = 0.3) -> str:
    """Choose each word with probability `p`; in it replace each letter with probability `p`, at least one.

    The new letter is any other of a-z, in the old one's case; what is not a-z or A-Z stays. At p = 0.3
    about one letter in nine changes. Raises `ParameterError` unless 0 < p <= 1.

    >>> changed = random_char("depth 12", random.Random(0), p=1.0)
    >>> [a != b for a, b in zip("depth 12", changed, strict=True)]
    [True, True, True, True, True, False, False, False]
    """
    others = {letter: string.ascii_lowercase.replace(letter, "") for letter in string.ascii_lowercase}
    return _each_word(text, rng, p, lambda word: _replace(word, rng, p, others))


def keyboard(text: str, rng: random.Random, p: float = 0.3) -> str:
    """As `random_char`, but the new letter is on a key that touches the old one's on a QWERTY keyboard.

    >>> keyboard("Q", random.Random(0), p=1.0) in {"W", "A"}
    True
    """
    return _each_word(text, rng, p, lambda word: _replace(word, rng, p, NEIGHBOURS))


def views(texts: Sequence[str], n_views: int, seed: int, p: float = 0.3) -> list[list[str]]:
    """`n_views` rewritings of each text, `views[text][view]`, all distinct and none the text itself.

    Each is `split_words`, `random_char` and `keyboard` in turn, at one rate `p` (0.3 in the paper's
    pseudocode). They depend on the seed and on the text's own content, not on its neighbours or its place,
    and a smaller `n_views` gives the first of a larger one. Raises `ParameterError` unless n_views >= 1 and
    0 < p <= 1, `TextError` for an empty text and one too short to have so many.

    >>> first, second = views(["where is the style"], n_views=2, seed=0)[0]
    >>> first != second
    True
    """
    _check_rate(p)
    if n_views < 1:
        raise ParameterError(f"n_views={n_views} is out of range; at least 1 is needed")
    for i, text in enumerate(texts):
        if not text.strip():
            raise TextError(f"text {i} is empty; it has no views")
    return [_views_of(text, n_views, seed, p) for text in texts]


def _views_of(text: str, n_views: int, seed: int, p: float) -> list[str]:
    made: list[str] = []
    for view in range(n_views):
        rng = random.Random(hashlib.sha256(f"{seed}\0{view}\0{text}".encode()).digest())
        drawn = (keyboard(random_char(split_words(text, rng, p), rng, p), rng, p) for _ in range(_ATTEMPTS))
        fresh = next((v for v in drawn if v != text and v not in made), None)
        if fresh is None:
            raise TextError(
                f"text {text[:40]!r} is too short for {n_views} distinct views; a longer one is needed"
            )
        made.append(fresh)
    return made


def _each_word(text: str, rng: random.Random, p: float, change: Callable[[str], str]) -> str:
    """Change each word with probability `p`; white space stays as it is."""
    _check_rate(p)
    return re.sub(r"\S+", lambda word: change(word[0]) if rng.random() < p else word[0], text)


def _cut(word: str, rng: random.Random) -> str:
    if len(word) < 2:
        return word
    at = rng.randrange(1, len(word))
    return f"{word[:at]} {word[at:]}"


def _replace(word: str, rng: random.Random, p: float, choices: dict[str, str]) -> str:
    letters = [i for i, c in enumerate(word) if c.lower() in choices]
    if not letters:
        return word
    chosen = [i for i in letters if rng.random() < p] or [rng.choice(letters)]
    characters = list(word)
    for i in chosen:
        new = rng.choice(choices[word[i].lower()])
        characters[i] = new.upper() if word[i].isupper() else new
    return "".join(characters)


def _check_rate(p: float) -> None:
    if not 0 < p <= 1:
        raise ParameterError(f"p={p} is out of range; 0 < p <= 1 is needed")
