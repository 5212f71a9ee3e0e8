"""A small encoder, a word tokenizer and triplets of three author-sets, for tests of plumbing."""

import random

import torch
from accelerate import Accelerator
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from readout.scorers import scorer_of
from readout.training import Contrastive, Encoder, TripletBatches

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", ",", ".", *(f"w{i}" for i in range(30))]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


def tokenizer():
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **names)


def backbone(dropout=0.0, seed=0):
    torch.manual_seed(seed)
    chance = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = BertConfig(vocab_size=len(WORDS), **SIZES, **chance)
    return BertModel(config, add_pooling_layer=False)


def triplets(n=24, seed=0, hard=True):
    """Each author-set prefers words of its own; lengths differ."""
    draw = random.Random(seed)

    def text(author):
        return " ".join(f"w{draw.randrange(10) + 10 * author}" for _ in range(draw.randrange(2, 9))) + " , ."

    rows = []
    for row in range(n):
        author, other = row % 3, (row + 1) % 3
        parts = {"anchor": author, "positive": author} | ({"negative": other} if hard else {})
        rows.append(
            {p: text(a) for p, a in parts.items()} | {f"{p}_author_set": f"a{a}" for p, a in parts.items()}
        )
    return Dataset.from_list(rows)


def contrastive(encoder=None, scorer="li", n=24, hard=True, **options):
    encoder = encoder or Encoder(backbone())
    batches = TripletBatches.of(triplets(n, hard=hard), tokenizer(), max_tokens=12)
    defaults = {"temperature": 0.5, "batch_size": 4, "accelerator": Accelerator(cpu=True)}
    return Contrastive(encoder, scorer_of(scorer), batches, **defaults | options)
