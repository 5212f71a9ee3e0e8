import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from readout.sources.convert import gguf_to_safetensors
from readout.sources.models import load_model

HIDDEN, INNER, HEADS, WORDS = 32, 64, 2, ["<|endoftext|>", "a", "b", "ab", "Ġ", "Ġa", "c", "d"]


@pytest.fixture
def quantised(tmp_path):
    """A Llama of one block as a GGUF file in Q4_1, and its tensors as the gguf package dequantises them."""
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3] + [1] * (len(WORDS) - 1))
    writer.add_token_merges(["a b", "Ġ a"])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(0)
    tensors = _add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, tensors


def _add_tensors(writer):
    rng, kind, tensors = np.random.default_rng(0), gguf.GGMLQuantizationType.Q4_1, {}
    shapes = {
        "token_embd": (len(WORDS), HIDDEN),
        "blk.0.ffn_gate": (INNER, HIDDEN),
        "blk.0.ffn_up": (INNER, HIDDEN),
    }
    shapes |= {"blk.0.ffn_down": (HIDDEN, INNER)} | {
        f"blk.0.attn_{x}": (HIDDEN, HIDDEN) for x in ("q", "k", "v", "output")
    }
    for name, shape in shapes.items():
        packed = gguf.quantize(rng.standard_normal(shape, dtype=np.float32), kind)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
        tensors[name] = gguf.dequantize(packed, kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        tensors[name] = rng.standard_normal(HIDDEN, dtype=np.float32)
        writer.add_tensor(f"{name}.weight", tensors[name])
    return tensors


def test_every_weight_is_the_dequantised_one(quantised, tmp_path):
    path, expected = quantised
    gguf_to_safetensors(path, tmp_path / "out")
    found = load_file(tmp_path / "out/model.safetensors")
    names = {
        "model.embed_tokens.weight": "token_embd",
        "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v",
        "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output",
        "model.layers.0.mlp.gate_proj.weight": "blk.0.ffn_gate",
        "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down",
        "model.layers.0.input_layernorm.weight": "blk.0.attn_norm",
        "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm",
        "model.norm.weight": "output_norm",
    }
    for name, original in names.items():
        torch.testing.assert_close(found[name], torch.from_numpy(expected[original]), rtol=0, atol=0)
    for name, original in (("q_proj", "blk.0.attn_q"), ("k_proj", "blk.0.attn_k")):
        # GGUF interleaves the two halves of each head that rotary positions pair.
        pairs = expected[original].reshape(HEADS, -1, 2, HIDDEN).swapaxes(1, 2).reshape(HIDDEN, HIDDEN)
        torch.testing.assert_close(
            found[f"model.layers.0.self_attn.{name}.weight"], torch.from_numpy(pairs), rtol=0, atol=0
        )
    assert {w.dtype for w in found.values()} == {torch.float32}
    assert len(found) == len(expected)


def test_the_folder_loads_like_any_other_and_carries_the_tokenizer(quantised, tmp_path):
    gguf_to_safetensors(quantised[0], tmp_path / "out")
    reader = load_model(tmp_path / "out")
    assert (reader.n_layers, reader.model.dtype) == (1, torch.float32)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").tokenize("ab a") == ["ab", "Ġa"]


def test_two_conversions_write_the_same_bytes_and_say_where_they_come_from(quantised, tmp_path):
    path, _ = quantised
    origins = [gguf_to_safetensors(path, tmp_path / name) for name in ("one", "two")]
    assert origins[0] == origins[1]
    assert (origins[0]["gguf"], origins[0]["quantisation"]) == ("tiny.gguf", "Q4_1")
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second
    assert not any(str(tmp_path).encode() in content for content in first.values())
