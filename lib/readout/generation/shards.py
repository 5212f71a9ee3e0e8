"""Generations and their states on disk, a shard at a time, so that nothing is done twice and little is held at once.

A folder is named after what all its samples share (model, sampling, sites, precision, ...), a shard after the samples
in it. A run looks up which samples the folder has and makes the others: a killed run redoes one shard at most, and
further samples redo none.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from readout.errors import AssetError, ParameterError
from readout.generation.attention import attention_pool
from readout.generation.collect import POOLINGS, Pooled, SegmentStates
from readout.generation.forced import read_generated
from readout.generation.prompts import Prompt
from readout.generation.sample import Generated, _check_prompts, as_seeds, generate
from readout.generation.sampling import Sampling
from readout.pipeline.files import replace_text
from readout.progress import progress_bar
from readout.sources.models import Reader
from readout.states import Norm, Site, resolve_precision
from readout.training.checkpoints import content_address, save_tensors

PLAN = "plan.json"
ATTENTION = "generated_attention"


@dataclass(frozen=True)
class Plan:
    """What all samples of a folder share: how they are written, and what is kept of their states.

    layers: where prompts and generations are kept pooled (see `Pooled`); None for all.
    token_layers: where the state of every generated token is kept, among `layers`. dtype: what that is stored in.
    norm: "final" for states after the final norm. attention: keep the last layer pooled by attention, too, as
    `ATTENTION`; for models that give their attention weights out. shard_size: prompts a shard, each with all that
    follows it; it changes no sample.
    """

    sampling: Sampling
    max_new_tokens: int = 128
    layers: tuple[int, ...] | None = None
    token_layers: tuple[int, ...] = ()
    norm: Norm = "final"
    attention: bool = False
    dtype: str = "bfloat16"
    batch_size: int = 32
    precision: str = "float32"
    shard_size: int = 128

    def __post_init__(self):
        if self.dtype not in ("bfloat16", "float16", "float32"):
            raise ParameterError(f"dtype: {self.dtype!r} is not one of bfloat16, float16, float32")
        if self.layers is not None and not set(self.token_layers) <= set(self.layers):
            raise ParameterError(f"token_layers: {self.token_layers} should be among layers = {self.layers}")
        if self.shard_size < 1:
            raise ParameterError(f"shard_size: {self.shard_size} should be at least 1")


def write_shards(
    reader: Reader,
    prompts: Sequence[Prompt],
    ids: Sequence[str],
    plan: Plan,
    root: Path,
    *,
    seed: int | Sequence[int] = 0,
    given: Mapping[str, Sequence[Sequence[int]]] | None = None,
    progress: bool = False,
    what: str = "generations",
) -> Path:
    """The folder under `root` that holds a generation of every prompt; what it lacks is written, shard by shard.

    seed: one or several; none (an empty sequence) where all is given.
    given: by name, continuations of every prompt as token ids, which are read and not written; their tokens are part
    of the key. All that follows one prompt shares the pass over it.

    Each shard is a table (parquet) beside its states (safetensors, put in place first, so that a table is never
    without). Memory: the states of one shard. Open the folder with `open_shards`.

    A folder may hold more than these prompts, of other seeds too: `Shards.rows` finds a sample by its `sample_key`.

    Raises, before the model runs, what `generate` raises for prompts, ids and seeds, and ParameterError for ids that
    repeat and continuations of another number than the prompts, or too long ones.
    """
    given = given or {}
    seeds = as_seeds(seed) if isinstance(seed, int) or seed or not given else ()
    _check_prompts(reader.model, [prompt.ids for prompt in prompts], ids, plan.max_new_tokens)
    if len(set(ids)) < len(ids):
        raise ParameterError(
            f"ids: {len(ids)} ids, {len(set(ids))} of them different; give each prompt its own"
        )
    _check_given(given, len(prompts), plan.max_new_tokens)
    folder = root / content_address(_shared(reader, plan))
    replace_text(folder / PLAN, json.dumps(_shared(reader, plan), indent=1) + "\n")
    kinds: dict[int | str, list[str]] = {one: sample_keys(ids, prompts, one) for one in seeds}
    kinds |= {name: sample_keys(ids, prompts, 0, texts) for name, texts in given.items()}
    done = {key for path in folder.glob("*.parquet") for key in _keys(path.with_suffix(""))}
    # Prompts of one padded width together: they are written in batches of one width.
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row].ids))
    lacking = {row: tuple(kind for kind, keys in kinds.items() if keys[row] not in done) for row in order}
    n_samples, n_missing = len(prompts) * len(kinds), sum(map(len, lacking.values()))
    with progress_bar(n_samples, what=what, unit="text", shown=progress) as bar:
        bar.update(n_samples - n_missing)
        for missing in sorted(set(lacking.values()) - {()}, key=str):
            alike = [row for row in order if lacking[row] == missing]
            for start in range(0, len(alike), plan.shard_size):
                rows = alike[start : start + plan.shard_size]
                keys = {kind: [kinds[kind][row] for row in rows] for kind in missing}
                continued = {kind: [given[kind][row] for row in rows] for kind in missing if kind in given}
                texts = [prompts[row] for row in rows], [ids[row] for row in rows]
                _write_shard(reader, *texts, keys, continued, plan, folder)
                bar.update(len(rows) * len(missing))
    return folder


def sample_key(sample: str, prompt: Prompt, seed: int, given: Sequence[int] | None = None) -> str:
    """What a sample is found by in a folder: its id, prompt and seed, and what was given, in 16 hex digits."""
    about = {"id": sample, "seed": seed, **asdict(prompt)}
    return content_address(about if given is None else about | {"given": list(given)})


def sample_keys(
    ids: Sequence[str], prompts: Sequence[Prompt], seed: int, given: Sequence[Sequence[int]] | None = None
) -> list[str]:
    """`sample_key` of each of some samples."""
    each = [None] * len(ids) if given is None else given
    return [
        sample_key(id, prompt, seed, tokens) for id, prompt, tokens in zip(ids, prompts, each, strict=True)
    ]


def open_shards(folder: Path) -> "Shards":
    """What `write_shards` put into a folder. AssetError where there is no shard."""
    names = [path.with_suffix("") for path in sorted(folder.glob("*.parquet"))]
    if not names:
        raise AssetError(f"'{folder}' holds no shard; run write_shards first")
    return Shards(names)


@dataclass(frozen=True)
class Shards:
    """The samples of a folder, in one order everywhere: shard after shard. States are read when asked for.

    shards: paths without their ending.
    """

    shards: list[Path]

    def table(self) -> pyarrow.Table:
        """One row a sample: key, id, seed, text, tokens, n_tokens, n_content_tokens, stop."""
        return pyarrow.concat_tables(parquet.read_table(_table_path(shard)) for shard in self.shards)

    def rows(self, keys: Sequence[str]) -> list[int]:
        """Where the samples of these keys stand in every array. ParameterError for a key that is not there."""
        places = {key: row for row, key in enumerate(self.table().column("key").to_pylist())}
        if absent := [key for key in keys if key not in places]:
            raise ParameterError(
                f"keys: {absent[0]} ({len(absent)} in all) is not in the folder; write it first"
            )
        return [places[key] for key in keys]

    def pooled(self, site: Site, pooling: str) -> Float[Tensor, "text dim"]:
        """One vector a text: one of `POOLINGS` or `ATTENTION` at a site. ParameterError for what was not kept."""
        return torch.cat([self._tensor(shard, f"{pooling}/{_key(site)}") for shard in self.shards])

    def states(self, site: Site) -> Float[Tensor, "text token dim"]:
        """The state of every generated token, zeros behind the end, in the dtype they are stored in."""
        return torch.cat(list(self.iter_states(site)))

    def iter_states(self, site: Site) -> Iterator[Float[Tensor, "text token dim"]]:
        """`states`, a shard at a time. ParameterError for a site whose tokens were not kept."""
        for shard in self.shards:
            yield self._tensor(shard, f"tokens/{_key(site)}")

    def mask(self) -> Bool[Tensor, "text token"]:
        """Which generated tokens are real."""
        return torch.cat([self._tensor(shard, "mask") for shard in self.shards])

    def having(self, keys: Sequence[str]) -> "Shards":
        """The shards that hold some of these keys."""
        wanted = set(keys)
        return Shards([s for s in self.shards if wanted & set(_keys(s))])

    def _tensor(self, shard: Path, name: str) -> Tensor:
        path = _states_path(shard)
        try:
            with safe_open(path, "pt") as file:
                if name in file.keys():  # noqa: SIM118
                    return file.get_tensor(name)
                raise ParameterError(f"site: {name} was not kept; kept were {', '.join(file.keys())}")
        except (OSError, SafetensorError) as error:
            raise AssetError(f"shard '{path.name}' cannot be read ({error}); delete its files") from None


def _write_shard(
    reader: Reader,
    prompts: list[Prompt],
    ids: list[str],
    keys: dict[int | str, list[str]],
    given: dict[str, list[Sequence[int]]],
    plan: Plan,
    folder: Path,
) -> None:
    """keys: of the samples of each seed to write, and of each name in `given`."""
    written: list[Generated] = []
    if seeds := [kind for kind in keys if kind not in given]:
        written = generate(
            reader.model,
            reader.tokenizer,
            [prompt.ids for prompt in prompts],
            ids=ids,
            sampling=plan.sampling,
            seed=seeds,
            max_new_tokens=plan.max_new_tokens,
            batch_size=plan.batch_size,
            precision=plan.precision,
        )
    for texts in given.values():
        pairs = zip(ids, map(list, texts), strict=True)
        written += [Generated(id, 0, tuple(t), reader.tokenizer.decode(t), "length") for id, t in pairs]
    in_order = [key for kind in [*seeds, *given] for key in keys[kind]]
    shard = folder / content_address({"keys": in_order})
    save_tensors(_states(reader, prompts * len(keys), written, plan), _states_path(shard))
    table = {
        "key": in_order,
        "id": [sample.id for sample in written],
        "seed": [sample.seed for sample in written],
        "text": [sample.text for sample in written],
        "tokens": [list(sample.tokens) for sample in written],
        "n_tokens": [sample.n_tokens for sample in written],
        "n_content_tokens": [sample.n_content_tokens for sample in written],
        "stop": [sample.stop for sample in written],
    }
    _save_table(pyarrow.table(table), _table_path(shard))


def _check_given(given: Mapping[str, Sequence[Sequence[int]]], n_prompts: int, max_new_tokens: int) -> None:
    for name, texts in given.items():
        if len(texts) != n_prompts:
            raise ParameterError(
                f"given: {name!r} has {len(texts)} texts for {n_prompts} prompts; give each one"
            )
        if (longest := max(map(len, texts))) > max_new_tokens:
            raise ParameterError(
                f"given: a text of {name!r} has {longest} tokens; max_new_tokens = {max_new_tokens} are kept"
            )


def _states(reader: Reader, prompts: list[Prompt], written: list[Generated], plan: Plan) -> dict[str, Tensor]:
    pooled = Pooled([(prompt.start, prompt.stop) for prompt in prompts])
    tokens = SegmentStates(len(written), plan.max_new_tokens, getattr(torch, plan.dtype), plan.token_layers)
    with attention_pool(reader.model, len(written)) if plan.attention else nullcontext() as attention:
        read_generated(
            reader.model,
            written,
            [prompt.ids for prompt in prompts],
            [pooled, tokens, *([attention] if attention else [])],
            norms=(plan.norm,),
            layers=plan.layers,
            batch_size=plan.batch_size,
            precision=plan.precision,
        )
    vectors = {
        f"{name}/{_key(site)}": pooled.states(site, name) for site in pooled.sites() for name in POOLINGS
    }
    if attention:
        vectors[f"{ATTENTION}/{_key(pooled.sites()[-1])}"] = attention.states()
    kept = {f"tokens/{_key(site)}": tokens.states(site) for site in tokens.sites()}
    lengths = torch.tensor([sample.n_tokens for sample in written])
    return vectors | kept | {"mask": torch.arange(plan.max_new_tokens) < lengths[:, None]}


def _shared(reader: Reader, plan: Plan) -> dict:
    shared = asdict(plan) | {
        "model": reader.digest,
        "precision": resolve_precision(plan.precision, reader.model),
    }
    del shared["shard_size"]
    return shared


def _keys(shard: Path) -> list[str]:
    return parquet.read_table(_table_path(shard), columns=["key"]).column("key").to_pylist()


def _save_table(table: pyarrow.Table, path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        parquet.write_table(table, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _table_path(shard: Path) -> Path:
    return shard.with_suffix(".parquet")


def _states_path(shard: Path) -> Path:
    return shard.with_suffix(".safetensors")


def _key(site: Site) -> str:
    return f"{site.layer}/{site.norm}"
