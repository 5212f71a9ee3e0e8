import hashlib
import json
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from readout import paths
from readout.errors import AssetError, ParameterError
from readout.sources.fetch import fetch
from readout.sources.models import load_model

SMALL = {"vocab_size": 16, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
KINDS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, num_hidden_layers=3, num_key_value_heads=1)),
    "neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL, num_hidden_layers=2)),
    "bert": lambda: BertForMaskedLM(BertConfig(**SMALL, num_hidden_layers=2)),
}
IDS = torch.tensor([[1, 5, 3, 7]])


def saved(folder, kind="llama"):
    """A small model with a head, as a folder, and the model itself."""
    torch.manual_seed(7)
    model = KINDS[kind]().eval()
    model.save_pretrained(folder)
    vocabulary = {f"w{i}": i for i in range(16)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w1").save_pretrained(folder)
    return model


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_saved_with_a_head_loads_as_the_same_blocks(tmp_path, kind):
    original = saved(tmp_path, kind)
    reader = load_model(tmp_path)
    with torch.no_grad():
        expected = original.base_model(IDS, output_hidden_states=True).hidden_states
        found = reader.model(IDS, output_hidden_states=True).hidden_states
    assert reader.n_layers == len(expected) - 1
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert (reader.name, reader.weights) == (tmp_path.name, "pretrained")
    assert not reader.model.training
    assert reader.tokenizer("w3 w5")["input_ids"] == [3, 5]


def test_half_precision_weights_are_read_in_float32(tmp_path):
    saved(tmp_path).half().save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(tmp_path).model.parameters()} == {torch.float32}
    assert {p.dtype for p in load_model(tmp_path, weights="random").model.parameters()} == {torch.float32}


def test_the_digest_can_be_redone_by_hand(tmp_path):
    saved(tmp_path)
    digest = load_model(tmp_path).digest
    by_hand = subprocess.run(
        "sha256sum *.safetensors | sha256sum", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert digest == by_hand.stdout.split()[0]
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert load_model(tmp_path).digest != digest


def test_random_weights_follow_the_seed_and_only_the_seed(tmp_path):
    saved(tmp_path)
    first, again, other = (load_model(tmp_path, weights="random", seed=seed) for seed in (3, 3, 4))
    torch.manual_seed(3)
    expected = AutoModel.from_config(first.model.config).state_dict()
    torch.testing.assert_close(dict(first.model.state_dict()), dict(expected), rtol=0, atol=0)
    torch.testing.assert_close(dict(first.model.state_dict()), dict(again.model.state_dict()), rtol=0, atol=0)
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)
    assert (first.digest, other.digest) == ("random:3", "random:4")
    assert first.n_layers == 3


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_loading_leaves_the_callers_random_state_alone(tmp_path, kind, weights):
    saved(tmp_path, kind)
    before = torch.random.get_rng_state()
    load_model(tmp_path, weights=weights)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_missing_pooler_is_left_out_rather_than_drawn(tmp_path):
    saved(tmp_path, "bert")
    reader = load_model(tmp_path)
    assert reader.model(IDS).pooler_output is None


def test_nothing_is_printed(tmp_path, capfd):
    saved(tmp_path, "bert")
    capfd.readouterr()
    load_model(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_half_filled_model_is_refused(tmp_path):
    saved(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssetError, match=r"lacks 1 weights, among them layers.1.mlp.up_proj.weight"):
        load_model(tmp_path)


def test_weights_of_another_shape_are_refused(tmp_path):
    saved(tmp_path)
    edit(tmp_path / "config.json", intermediate_size=48)
    with pytest.raises(AssetError, match="could not be loaded") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_damaged_safetensors_file_is_refused(tmp_path):
    saved(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(AssetError, match="could not be loaded"):
        load_model(tmp_path)


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "weights.pt", "last.ckpt"])
def test_a_pickle_is_refused_by_name_and_never_opened(tmp_path, pickle):
    saved(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / pickle)
    with pytest.raises(
        AssetError, match=rf"{pickle}' is a pickle, which can run code: convert it to safetensors"
    ):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"auto_map": {"AutoModel": "modeling_evil.Evil"}}, "auto_map"),
        ({"_attn_implementation_internal": "someone/kernel"}, "_attn_implementation_internal"),
        ({"text_config": {"_attn_implementation_internal": "eager"}}, "_attn_implementation_internal"),
        ({"attn_implementation": "someone/kernel"}, "attn_implementation"),
    ],
)
def test_a_config_that_asks_for_code_is_refused(tmp_path, changes, named):
    saved(tmp_path)
    edit(tmp_path / "config.json", **changes)
    with pytest.raises(AssetError, match=rf"config.json' asks for code to be run \({named}\)"):
        load_model(tmp_path)


def test_a_tokenizer_that_asks_for_code_is_refused(tmp_path):
    saved(tmp_path)
    edit(tmp_path / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    with pytest.raises(AssetError, match=r"tokenizer_config.json' asks for code"):
        load_model(tmp_path)


def test_code_beside_the_weights_is_refused(tmp_path):
    saved(tmp_path)
    (tmp_path / "modeling_evil.py").write_text("raise SystemExit")
    with pytest.raises(AssetError, match=r"brings code \(modeling_evil.py\)"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", r"has no \*.safetensors"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_an_incomplete_folder_is_refused(tmp_path, removed, named):
    saved(tmp_path)
    (tmp_path / removed).unlink()
    with pytest.raises(AssetError, match=named):
        load_model(tmp_path)


def test_what_is_no_model_is_refused(project, tmp_path):
    project.register()
    with pytest.raises(AssetError, match="asset 'small' is data, not a model"):
        load_model("small")
    with pytest.raises(AssetError, match=r"asset 'other' is not in assets.toml; known: small"):
        load_model("other")
    with pytest.raises(AssetError, match="model folder 'other' does not exist"):
        load_model("./other")
    with pytest.raises(ParameterError, match="weights is 'trained'; it must be 'pretrained' or 'random'"):
        load_model("small", weights="trained")


def test_an_asset_and_its_folder_give_the_same_reader(project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    saved(folder)
    payload = {f"small/data/{path.name}": path.read_bytes() for path in folder.iterdir()}
    project.register(kind="model", sha256=project.add_wheel(payload))
    fetch("tiny")
    from_asset, from_folder = load_model("small"), load_model(folder)
    assert (from_asset.name, from_folder.name) == ("small", folder.name)
    assert from_asset.digest == from_folder.digest
    shutil.rmtree(project.wheels)
    assert load_model("small").digest == from_asset.digest


@pytest.mark.assets
@pytest.mark.parametrize(
    ("name", "layers", "width"), [("all-minilm-l6-v2", 6, 384), ("smollm2-135m-instruct", 30, 576)]
)
def test_the_real_models_load_whole(name, layers, width):
    paths.root.cache_clear()
    reader = load_model(name)
    batch = reader.tokenizer(["The capital of France is Paris."], return_tensors="pt")
    with torch.no_grad():
        states = reader.model(**batch, output_hidden_states=True).hidden_states
    assert (reader.n_layers, len(states), states[0].shape[-1]) == (layers, layers + 1, width)
    assert all(torch.isfinite(s).all() for s in states)


@pytest.mark.assets
def test_the_real_encoder_puts_related_words_together():
    paths.root.cache_clear()
    reader = load_model("all-minilm-l6-v2")
    batch = reader.tokenizer(["dog", "puppy", "spreadsheet"], return_tensors="pt", padding=True)
    with torch.no_grad():
        states, mask = reader.model(**batch).last_hidden_state, batch["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    assert mean[0] @ mean[1] > 0.5 > 0.25 > mean[0] @ mean[2]


@pytest.mark.assets
def test_the_real_decoder_continues_a_sentence_with_its_tied_head():
    paths.root.cache_clear()
    reader = load_model("smollm2-135m-instruct")
    batch = reader.tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        logits = reader.model(**batch).last_hidden_state[0, -1] @ reader.model.embed_tokens.weight.T
    assert reader.tokenizer.decode(logits.argmax()) == " Paris"
    assert hashlib.sha256(reader.tokenizer.chat_template.encode()).hexdigest().startswith("872be49d")
