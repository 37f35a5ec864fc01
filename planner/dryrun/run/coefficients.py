"""Coefficients of architectures without a derived sum, measured by running them without data.

For every setting (attention, masks, number formats, gradients) a shallow decoder body runs at
six sizes; what its layers keep and what passes inside them are then polynomials in rows and
tokens, solved exactly. ``python -m planner.dryrun.run.coefficients`` writes those of every catalog
model that no family derives to ``planner/catalog/coefficients.json``.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from planner import catalog
from planner.catalog.measured_setting import MeasuredSetting, read_setting
from planner.dryrun.ask.request import versions
from planner.dryrun.logs.kinds import layer_kinds, shallow
from planner.dryrun.run.observation import Body, Moments, Observation, observe
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.weights import weight_list
from planner.dryrun.run.world import world
from planner.formulas.polynomial import (
    Polynomial,
    of_rank,
    through,
    through_chunks,
    through_ranks,
    value,
)
from planner.frameworks.loss import CROSS_ENTROPY
from planner.methods import methods
from planner.plan import Plan
from planner.steps import anatomy, models
from planner.steps.batch import Rows
from planner.steps.stage import DTYPES, Stage

CARD = "h100-80gb"
"""Whose kernels run: SDPA's choice depends on the card."""
ROWS = (2, 3)
"""A single row lies in memory as others want it, and saves some operators a copy."""
LENGTHS = (256, 512, 1024)
"""Whole chunks of linear attention, which keeps a state every 64 tokens."""
GRID = tuple((rows, 2**power) for rows in (1, 4, 64, 1024) for power in range(4, 21))
"""Sizes at which an instant has to be the highest to be worth keeping."""
RANKS = (8, 16)
"""Of adapters: the size of every tensor is linear in their rank."""
GRID_RANKS = (1, 16, 64, 256, 1024)
DROPOUT = 0.1
"""Any share: masks are of one size."""
PACKED = 2
"""Sequences of a packed row, which differ in nothing but a few numbers."""
ATTENTIONS = ("sdpa", "eager")
SHAPES = ("full", "padded")
PRECISIONS = ("bf16", "autocast-bf16")

FILE = Path(__file__).resolve().parents[2] / "catalog" / "coefficients.json"

Measured = dict[str, Any]


def measure(
    config: Mapping[str, Any],
    *,
    attentions: Iterable[str] = ATTENTIONS,
    shapes: Iterable[str] = SHAPES,
    precisions: Iterable[str] = PRECISIONS,
) -> Measured:
    """Coefficients of one config.json, as plain data.

    ``layers`` names each layer's kind by a digit; ``weights`` lists tensors (name, kind,
    elements, indices of layers); ``settings`` holds polynomials by setting. What transformers
    refuses stands in ``refused`` with its sentence; ``supposed`` says which packages stand-ins
    take the place of.
    """
    whole = {**models.settings_of(config, "eager").to_dict(), "model_type": config["model_type"]}
    kinds = list(dict.fromkeys(layer_kinds(whole)))
    places = [kinds.index(kind) for kind in layer_kinds(whole)]
    weights, fallback, supposed = weight_list(config)
    sparse = any(kind == "experts" for _, kind, *_ in weights)
    found: Measured = {
        "layers": "".join(str(place) for place in places),
        "fallback": fallback,
        "supposed": supposed,
        "refused": {},
        "settings": {},
        "weights": weights,
    }
    cut, shown = _cut(whole, places)
    for name in map("/".join, product(attentions, shapes, precisions)):
        if sparse and not name.endswith("/bf16"):
            # The shape rule of grouped_mm knows bf16 only, so these cannot run.
            continue
        try:
            found["settings"] |= _setting(cut, shown, name)
        except ValueError as error:
            found["refused"][name] = " ".join(str(error).split()).partition(". ")[0]
        gc.collect()
    return found


def _cut(whole: dict[str, Any], places: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """A shallow config in which every kind stands between two layers, and its layers' kinds."""
    types = whole.get("layer_types")
    if len(set(places)) == 2 and types:
        order = [0, 1, 0, 1]
        config = shallow(whole, len(order))
        return config | {"layer_types": [types[places.index(k)] for k in order]}, order
    depth = max(places.index(kind, 1) for kind in set(places) if kind in places[1:]) + 2
    return shallow(whole, depth), list(places[:depth])


def setting_plan(name: str) -> Plan:
    """Any plan with a setting's words; its model is not looked at."""
    asked = read_setting(name)
    return Plan(
        model="Qwen/Qwen2.5-0.5B",
        method=next(m.name for m in methods().values() if m.objective == CROSS_ENTROPY),
        gpu=CARD,
        gpus=1,
        sharding="none",
        attention=asked.attention,  # type: ignore[arg-type]
        batch_shape=asked.batch_shape,  # type: ignore[arg-type]
        dtype="fp32" if asked.precision == "fp32" else "bf16",
        master_dtype="fp32" if asked.precision == "autocast-bf16" else "none",
    )


def _setting(config: Mapping[str, Any], places: Sequence[int], name: str) -> Measured:
    plan = setting_plan(name)
    with world(plan, autocast=read_setting(name).autocast) as (tracker, stage, _), tracker:
        settings = models.settings_of(config, stage.attention(plan.attention))

        def build() -> nn.Module:
            return models.language_model(stage, settings, models.dtype_of(plan)).train()

        return setting(build, stage, tracker, name, places)


def setting(
    build: Callable[[], nn.Module],
    stage: Stage,
    tracker: Tracker,
    name: str,
    places: Sequence[int],
    lengths: Sequence[int] = LENGTHS,
    chunk: int = 1,
) -> Measured:
    """The polynomials of a model that is built in a world; ``places`` has each layer's kind.

    Of layers that pad rows to whole chunks, rows are looked at that fill them, and such that do
    not. Of adapters two ranks are, each on a model of its own.
    """
    asked = read_setting(name)
    bodies = [Body(_adapted(build(), asked, rank), tracker) for rank in _ranks(asked)]

    def run(body: Body, rows: int, tokens: int, trains: bool) -> Observation:
        packed = asked.batch_shape == "packed"
        shape = (1, rows * tokens) if packed else (rows, tokens)
        ids = torch.zeros(shape, dtype=torch.int64, device=stage.device)
        mask = torch.ones_like(ids) if asked.batch_shape == "padded" else None
        numbers = torch.arange(shape[1], device=stage.device) % (shape[1] // PACKED)
        given = Rows(ids, mask, numbers.unsqueeze(0) if packed else None, rows).inputs()
        autocast = asked.autocast
        casting = stage.autocast(DTYPES["bf16"], enabled=True) if autocast else nullcontext()
        return observe(body, given, trains=trains, casting=casting)

    # A packed row is one row, however long: its bytes depend on its tokens alone.
    counts = (1,) if asked.batch_shape == "packed" else ROWS
    less, found = chunk // 4, {}
    solve: Solve = partial(through_chunks, lengths, less) if less else partial(through, lengths)
    sizes = [*lengths, *(length - less for length in lengths if less)]
    for trains in (True, False):
        seen = [
            run(body, rows, tokens, trains)
            for body in bodies
            for rows, tokens in product(counts, sizes)
        ]
        solved = _solved(seen, places, trains, _through(solve, counts, asked), chunk, asked)
        found[f"{name}/{'all' if trains else 'none'}"] = solved | ({"chunk": chunk} if less else {})
    return found


def _ranks(asked: MeasuredSetting) -> tuple[int, ...]:
    return (0,) if asked.adapters is None else RANKS


def _adapted(model: nn.Module, asked: MeasuredSetting, rank: int) -> nn.Module:
    """The model, with adapters of a rank where the setting has some.

    The embeddings are made a leaf that gradients reach, as where layers are checkpointed: then the
    first layer is as any other.
    """
    if asked.adapters is None:
        return model
    dropout = DROPOUT if asked.adapters.drops else 0.0
    found = models.with_adapters(
        model, asked.adapters.modules, rank, dropout=dropout, fp32=asked.adapters.fp32
    )
    table = anatomy.embedding_of(models.causal(found))
    if table is None:
        raise ValueError("it has no table of embeddings that gradients could end at")
    table.register_forward_hook(lambda _, __, output: output.requires_grad_(True))
    return found.train()


def lengths_for(positions: int, chunk: int = 1) -> tuple[int, ...]:
    """Three lengths that a model's positions allow, each twice the one before, of whole chunks."""
    longest = min(LENGTHS[-1], 1 << ((positions - 1).bit_length() - 1))
    if longest % (4 * chunk) and 4 * chunk < positions:
        return chunk, 2 * chunk, 4 * chunk
    if longest < 16:
        raise ValueError(f"{positions} positions are too few for a measurement")
    return longest // 4, longest // 2, longest


Solve = Callable[[Sequence[int], Sequence[int]], Polynomial]
Through = Callable[[Sequence[int]], Polynomial]


def _through(solve: Solve, counts: Sequence[int], asked: MeasuredSetting) -> Through:
    """The polynomial of values by rank, then by rows, then by length."""

    def of_rows(values: Sequence[int]) -> Polynomial:
        half = len(values) // len(counts)
        return solve(values[:half], values[-half:])

    def of_ranks(values: Sequence[int]) -> Polynomial:
        half = len(values) // len(RANKS)
        return through_ranks(RANKS, of_rows(values[:half]), of_rows(values[half:]))

    return of_rows if asked.adapters is None else of_ranks


def _solved(
    seen: Sequence[Observation],
    places: Sequence[int],
    trains: bool,
    through_all: Through,
    chunk: int,
    asked: MeasuredSetting,
) -> Measured:
    """The polynomials of one setting, from its runs at all ranks, rows and lengths."""
    highest = partial(_highest, through_all=through_all, chunk=chunk, ranked=bool(asked.adapters))
    found: Measured = {
        "before": through_all([one.before for one in seen]),
        "standing": through_all([one.standing for one in seen]),
        "after": through_all([one.after for one in seen]),
        "held": seen[0].held,
        "kinds": [],
    }
    if trains:
        found["norm"] = highest([one.norm for one in seen if one.norm])
    for kind in sorted(set(places)):
        at = max(at for at, k in enumerate(places[:-1]) if not at or k == kind)
        entry: Measured = {
            "kept": through_all([one.kept[at] for one in seen]),
            "input_kept": seen[0].input_kept[at],
            "forward": highest([one.forward[at] for one in seen]),
        }
        if trains:
            entry["backward"] = highest([one.backward[at] for one in seen])
        found["kinds"].append(entry)
    return found


def _highest(
    seen: Sequence[Moments], *, through_all: Through, chunk: int, ranked: bool
) -> list[Polynomial]:
    """A polynomial for every instant that is the highest at some size.

    Runs of different sizes go through the same instants, except in a loop that takes a turn per
    chunk of tokens: what comes before and after it is compared instant by instant, and of the
    loop itself each run's highest instant.
    """
    before = _alike([one.shape for one in seen])
    after = _alike([one.shape[before:][::-1] for one in seen])
    places = [*range(before), *range(-after, 0)]
    instants = {through_all([one.bytes[at] for one in seen]) for at in places}
    if any(len(one.bytes) > before + after for one in seen):
        loops = [one.bytes[before : len(one.bytes) - after] for one in seen]
        # A short run may hold no turn that the others do not: then whole runs are compared.
        whole = [one.bytes for one in seen]
        instants.add(through_all([max(loop) for loop in (loops if all(loops) else whole)]))
    winners = set()
    for rank in GRID_RANKS if ranked else (0,):
        at = {one: of_rank(one, rank) if ranked else one for one in sorted(instants)}
        winners |= {
            max(at, key=lambda one: value(at[one], rows, tokens, chunk)) for rows, tokens in GRID
        }
    return sorted(winners, reverse=True)


def _alike(shapes: Sequence[Sequence[str]]) -> int:
    """How many instants all runs begin with in common."""
    count = 0
    for instants in zip(*shapes, strict=False):
        if len(set(instants)) > 1:
            break
        count += 1
    return count


def missing() -> list[str]:
    """Ids of the catalog's models that no family derives."""
    return [
        model.id
        for model in catalog.models()
        if model.architecture is None or model.architecture.measured
    ]


KEYS = ("layers", "fallback", "supposed", "refused", "settings", "weights")


def text_of(models: Mapping[str, Any], libraries: Mapping[str, str]) -> str:
    """The file's text: a line for each setting and each weight, so that changes can be read."""
    ordered = {name: {key: entry[key] for key in KEYS} for name, entry in models.items()}
    return _text({"versions": dict(libraries), "card": CARD, "models": ordered}) + "\n"


def _text(value: Any, key: str = "", depth: int = 0) -> str:
    """The top, the models, each of them, and their settings and weights have a line a row."""
    if depth not in (0, 2) and key not in ("models", "settings", "weights"):
        return json.dumps(value, separators=None if depth == 1 else (",", ":"))
    if isinstance(value, dict):
        rows = [f'"{name}": {_text(each, name, depth + 1)}' for name, each in value.items()]
    else:
        rows = [json.dumps(each, separators=(",", ":")) for each in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(" " * (depth + 1) + row for row in rows)
    return f"{ends[0]}\n{inner}\n{' ' * depth}{ends[1]}"


PASSES = ((("sdpa",), ("bf16",)), (("eager",), ("bf16",)), (ATTENTIONS, ("autocast-bf16",)))
"""What is measured of every model before anything else is; the file is written in between."""


def main(ids: Sequence[str]) -> None:
    """Measure every model that is missing, or those named."""
    torch.set_num_threads(1)
    gc.freeze()  # what libraries made at import is not looked through again
    for attentions, precisions in PASSES:
        for name in ids or missing():
            start = time.perf_counter()
            config = catalog.model(name).config
            found = measure(config, attentions=attentions, precisions=precisions)
            _write(name, found)
            seconds = time.perf_counter() - start
            print(f"{name}: {len(found['settings'])} settings, {seconds:.0f} s", flush=True)


def _write(name: str, found: Measured) -> None:
    """Add to the file; what was measured of the model before stays, where it is not newer."""
    libraries = {
        library: versions()[library].partition("+")[0] for library in ("torch", "transformers")
    }
    models = json.loads(FILE.read_text("utf-8"))["models"] if FILE.exists() else {}
    for part in ("settings", "refused"):
        found[part] = models.get(name, {}).get(part, {}) | found[part]
    models[name] = found
    ordered = {each: models[each] for each in missing() if each in models}
    FILE.write_text(text_of(ordered, libraries), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
