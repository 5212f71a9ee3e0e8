"""Generations of a language model: sampled alike in any company, read back in one pass, kept in shards."""

from readout.generation.attention import attention_pooled
from readout.generation.collect import POOLINGS, Pooled, SegmentStates, repeat_padded_mean
from readout.generation.forced import GeneratedConsumer, read_generated, read_predicting
from readout.generation.prompts import PROMPTS, Prompt, ask, chat_ids
from readout.generation.sample import Generated, generate
from readout.generation.sampling import GREEDY, Sampling
from readout.generation.shards import Plan, Shards, open_shards, sample_key, sample_keys, write_shards

__all__ = [
    "GREEDY",
    "POOLINGS",
    "PROMPTS",
    "Generated",
    "GeneratedConsumer",
    "Plan",
    "Pooled",
    "Prompt",
    "Sampling",
    "SegmentStates",
    "Shards",
    "ask",
    "attention_pooled",
    "chat_ids",
    "generate",
    "open_shards",
    "read_generated",
    "read_predicting",
    "repeat_padded_mean",
    "sample_key",
    "sample_keys",
    "write_shards",
]
