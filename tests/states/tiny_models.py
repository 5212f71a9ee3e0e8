"""Random models of every supported architecture, small enough to run in milliseconds, and a word tokenizer."""

from dataclasses import dataclass, field

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

VOCABULARY, DIM, N_LAYERS = 99, 32, 3
WINDOW = 4


@dataclass(frozen=True)
class Architecture:
    config: str
    head: str
    blocks: str
    final_norm: str | None
    options: dict = field(default_factory=dict)

    def config_of(self, **changes):
        common = {
            "hidden_size": DIM,
            "num_hidden_layers": N_LAYERS,
            "num_attention_heads": 4,
            "intermediate_size": 40,
        }
        return getattr(transformers, self.config)(**common | self.options | changes)


TEXT = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
RECURRENT = TEXT | {"state_size": 8, "intermediate_size": 64, "layer_norm_epsilon": 1e-5}
IMAGE = {"image_size": 8, "patch_size": 4, "num_channels": 3, "mlp_ratio": 2}

ARCHITECTURES = {
    "bert": Architecture("BertConfig", "AutoModelForSequenceClassification", "encoder.layer", None, TEXT),
    "modernbert": Architecture(
        "ModernBertConfig",
        "AutoModelForMaskedLM",
        "layers",
        "final_norm",
        TEXT | {"local_attention": WINDOW, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "roberta": Architecture("RobertaConfig", "AutoModelForMaskedLM", "encoder.layer", None, TEXT),
    "gpt_neox": Architecture("GPTNeoXConfig", "AutoModelForCausalLM", "layers", "final_layer_norm", TEXT),
    "llama": Architecture("LlamaConfig", "AutoModelForCausalLM", "layers", "norm", GROUPED),
    "qwen3": Architecture("Qwen3Config", "AutoModelForCausalLM", "layers", "norm", GROUPED),
    "olmo2": Architecture("Olmo2Config", "AutoModelForCausalLM", "layers", "norm", GROUPED),
    "olmo3": Architecture(
        "Olmo3Config", "AutoModelForCausalLM", "layers", "norm", GROUPED | {"sliding_window": WINDOW}
    ),
    "gpt_oss": Architecture(
        "GptOssConfig",
        "AutoModelForCausalLM",
        "layers",
        "norm",
        GROUPED | {"sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "mamba": Architecture("MambaConfig", "AutoModelForCausalLM", "layers", "norm_f", RECURRENT),
    "mamba2": Architecture(
        "Mamba2Config",
        "AutoModelForCausalLM",
        "layers",
        "norm_f",
        RECURRENT | {"num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 4},
    ),
    "vit": Architecture("ViTConfig", "AutoModelForImageClassification", "layers", "layernorm", IMAGE),
    "dinov2": Architecture(
        "Dinov2Config", "AutoModelForImageClassification", "encoder.layer", "layernorm", IMAGE
    ),
}
VISION = {"vit", "dinov2"}
RECURRENT_NAMES = {"mamba", "mamba2"}
TEXT_NAMES = [name for name in ARCHITECTURES if name not in VISION]


def tiny(name, auto="AutoModel", **changes):
    """A model with random weights everywhere: norms as initialised (ones, zeros) would hide a norm too many."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = getattr(transformers, auto).from_config(ARCHITECTURES[name].config_of(**changes)).eval()
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def tiny_with_head(name):
    return tiny(name, ARCHITECTURES[name].head)


def inputs(name):
    generator = torch.Generator().manual_seed(1)
    if name in VISION:
        return {"pixel_values": torch.randn(2, 3, 8, 8, generator=generator)}
    return {"input_ids": torch.randint(3, VOCABULARY, (2, 12), generator=generator)}


def word_tokenizer(special=False, **names):
    """Words w3..w98 are tokens 3..98; with `special`, [CLS] (1) and [SEP] (2) go around a text."""
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def word_texts(lengths, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return [
        " ".join(f"w{i}" for i in torch.randint(3, VOCABULARY, (length,), generator=generator).tolist())
        for length in lengths
    ]
