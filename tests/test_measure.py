"""What one call measures: every row that it should give, and on a real model the very numbers of another route."""

import numpy as np
import pytest
import torch

from readout import paths
from readout.errors import ParameterError
from readout.measure import measure_quality
from readout.sources.models import Reader, load_model
from readout.sources.texts import passages

from .lenses import lens_oracles
from .states.tiny_models import N_LAYERS, tiny, word_texts, word_tokenizer

TOKEN_METRICS = {"prompt_entropy", "effective_rank", "curvature", "undefined_angles"}
PUBLISHED_TOKEN_METRICS = {"prompt_entropy", "curvature"}
POOLED_METRICS = {"dataset_entropy", "infonce", "mutual_information_bound", "dime", "lidar"}
AUTHORS = [*"abcdabcdabcd"]
NAMES = ["embedding", *(f"block {layer}" for layer in range(1, N_LAYERS + 1))]
NORMED = ["embedding, normed", *(f"block {layer}, normed" for layer in range(1, N_LAYERS)), "final"]


def measure(name="llama", weights="pretrained", lengths=(9, 5, 7, 12, 6, 8, 10, 4, 7, 8, 6, 5), **changes):
    reader = Reader(name, tiny(name), word_tokenizer(), "0", N_LAYERS, weights)
    texts = word_texts(lengths)
    given = {"views": [word_texts([6, 7], seed=i) for i in range(8)], "authors": AUTHORS} | changes
    return reader, texts, measure_quality(reader, texts, **given, n_resamples=10, progress=False)


def expected(names, *, published, dropped):
    rows = {(m, "corrected", "kept") for m in TOKEN_METRICS | POOLED_METRICS}
    if published:
        rows |= {(m, "as_published", "kept") for m in PUBLISHED_TOKEN_METRICS | POOLED_METRICS}
    if dropped:
        rows |= {(m, "corrected", "dropped") for m in TOKEN_METRICS}
    return {(site, *row) for site in names for row in rows}


@pytest.mark.parametrize(
    ("name", "weights", "raw", "normed"),
    [
        ("llama", "pretrained", {"published": True, "dropped": True}, NORMED),
        ("llama", "random", {"published": False, "dropped": False}, []),
        ("bert", "pretrained", {"published": True, "dropped": True}, []),
    ],
)
def test_every_site_metric_norm_and_convention_has_its_row(name, weights, raw, normed):
    _, texts, quality = measure(name, weights)
    wanted = expected(NAMES, **raw) | expected(normed, published=False, dropped=False)
    curves = quality.curves
    rows = [*curves[["site", "metric", "convention", "first_token"]].itertuples(index=False, name=None)]
    assert set(rows) == wanted
    # LiDAR alone comes in two units, nats and a share, where it is corrected.
    twice = {row for row in rows if rows.count(row) > 1}
    assert twice == {row for row in wanted if row[1:3] == ("lidar", "corrected")}
    assert curves[["value", "low", "high"]].notna().all(axis=None)
    assert set(curves["norm"]) == ({"raw", "final"} if normed else {"raw"})
    viewed = curves["metric"].isin(POOLED_METRICS - {"dataset_entropy"})
    assert set(curves["n"][viewed]) == {8}
    assert set(curves["n"][~viewed]) == {12}
    assert quality.reading.n_texts == len(texts)


def test_the_values_of_every_text_are_those_of_its_hidden_states():
    reader, texts, quality = measure()
    table = quality.tokens.set_index(["layer", "norm", "text", "metric", "convention", "first_token"])[
        "value"
    ]
    for text, words in enumerate(texts):
        batch = reader.tokenizer(words, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            states = reader.model(**batch, output_hidden_states=True).hidden_states
        # transformers hands out the last of these states after the final norm.
        for layer, norm in [*((layer, "raw") for layer in range(N_LAYERS)), (N_LAYERS, "final")]:
            z = states[layer][0].double().numpy()
            at = layer, norm, text
            assert table[*at, "curvature", "corrected", "kept"] == pytest.approx(lens_oracles.curvature(z))
            entropy = table[*at, "prompt_entropy", "corrected", "kept"]
            assert entropy == pytest.approx(lens_oracles.prompt_entropy(z), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"authors": ["a", "b"]}, "authors names 2 for 12 texts"),
        ({"views": [["w3 w4"] * n for n in (3, 2, 4)]}, "views holds [2, 3, 4] views of 3 texts"),
        ({"views": []}, "views holds [] views of 0 texts"),
        ({"views": [["w3", "w4"]] * 13}, "views holds [2] views of 13 texts"),
    ],
)
def test_texts_views_and_authors_that_do_not_fit_are_refused(change, named):
    with pytest.raises(ParameterError) as caught:
        measure(**change)
    assert named in str(caught.value)


def plain_entropy(z):
    """Shannon entropy of the squared singular values of centred unit rows, over the log of their greatest rank."""
    z = z - z.mean(axis=0)
    shares = np.linalg.svd(z / np.linalg.norm(z, axis=1, keepdims=True), compute_uv=False) ** 2 / len(z)
    shares = shares[shares > 1e-15]
    return -(shares * np.log(shares)).sum() / np.log(min(len(z) - 1, z.shape[1]))


def plain_curvature(z):
    """Mean angle of neighbouring steps in radians."""
    steps = np.diff(z, axis=0)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    return np.arccos((steps[1:] * steps[:-1]).sum(axis=1)).mean()


@pytest.fixture(scope="module")
def real():
    """The decoder on four passages, the fewest authors that half-samples allow, by the library and without it."""
    paths.root.cache_clear()
    reader = load_model("smollm2-135m-instruct")
    drawn = passages(4, words=32)
    texts = drawn["text"][:]
    views = [[text[:30], text[30:60]] for text in texts]
    options = {"max_tokens": 32, "n_resamples": 10, "progress": False}
    quality = measure_quality(reader, texts, views, [*"abcd"], **options)
    batch = reader.tokenizer(texts, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        states = reader.model(**batch, output_hidden_states=True).hidden_states[12]
    assert batch["attention_mask"].all()
    return quality, states.double().numpy()


def at_block_12(quality, metric, first_token="kept"):
    wanted = {"site": "block 12", "metric": metric, "convention": "corrected", "first_token": first_token}
    select = lambda t: t[np.logical_and.reduce([t[name] == value for name, value in wanted.items()])]  # noqa: E731
    (curve,) = select(quality.curves)["value"]
    return select(quality.tokens).sort_values("text")["value"].to_numpy(float), curve


@pytest.mark.assets
def test_a_real_valley_goes_with_the_first_token_by_another_route_too(real):
    quality, states = real
    kept, dropped = ([plain_entropy(z[start:]) for z in states] for start in (0, 1))
    for first_token, wanted in (("kept", kept), ("dropped", dropped)):
        per_text, curve = at_block_12(quality, "prompt_entropy", first_token)
        assert per_text == pytest.approx(wanted, abs=1e-6)
        assert curve == pytest.approx(np.mean(wanted), abs=1e-6)
    assert max(kept) < 0.3
    assert min(dropped) > 0.7
    lengths = np.linalg.norm(states, axis=-1)
    assert (lengths[:, 0] > 20 * lengths[:, 1:].max(axis=1)).all()


@pytest.mark.assets
def test_real_curvature_equals_another_route(real):
    quality, states = real
    wanted = [plain_curvature(z) for z in states]
    per_text, curve = at_block_12(quality, "curvature")
    assert per_text == pytest.approx(wanted, abs=1e-6)
    assert curve == pytest.approx(np.degrees(np.mean(wanted)), abs=1e-4)
