"""verl's console lines: ``step:3 - perf/max_memory_allocated_gb:41.2 - timing_s/gen:12.1 - …``.

And what it prints between phases, ``After FSDP, memory allocated (GB): 3.01, …``
(utils/profiler/performance.py ``log_gpu_memory_usage`` and ``GPUMemoryLogger``).
``LocalLogger`` (verl 0.8 utils/logger/aggregate_logger.py); its GB are of 2**30 bytes
(workers/engine_workers.py), its timers those of trainer/ppo/ray_trainer.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.importer.lines import Log
from planner.importer.logs.measured import (
    Figure,
    LoggedLengths,
    Measured,
    Quantity,
    mean,
    middle,
    most,
)
from planner.units import GIB
from planner.values.step_phases import (
    CHECKPOINT,
    CRITIC_UPDATE,
    OLD_LOG_PROBS,
    REFERENCE_LOG_PROBS,
    REWARD,
    ROLLOUT,
    UPDATE,
    VALIDATION,
    VALUES,
    WEIGHT_SYNC,
)

HINTS = ("step:",)
TIMERS = {
    "gen": (ROLLOUT,),
    "reward": (REWARD,),
    "old_log_prob": (OLD_LOG_PROBS,),
    "ref": (REFERENCE_LOG_PROBS,),
    "values": (VALUES,),
    "update_critic": (CRITIC_UPDATE,),
    "update_actor": UPDATE,
    "update_weights": (WEIGHT_SYNC,),
    "save_checkpoint": (CHECKPOINT,),
    "testing": (VALIDATION,),
    "step": (),
}
"""What each times; ``step`` is all of it."""
PEAKS: dict[str, Quantity] = {
    "perf/max_memory_allocated_gb": "allocated_bytes",
    "perf/max_memory_reserved_gb": "reserved_bytes",
    "perf/cpu_memory_used_gb": "host_bytes",
}
POOL = (
    "verl's max_memory_allocated counts pages of a colocated vLLM, asleep ones too; max_memory_"
    "reserved does as well. nvidia-smi's figure is the one to hold against the plan's device bytes."
)
BETWEEN = ("between phases",)
"""What the lines with "Before" and "After" are of: of no phase's peak."""
MOST_MOMENTS = 12
MARK = ", memory allocated (GB): "
_MOMENT = re.compile(
    re.escape(MARK) + r"([\d.]{1,9}), memory reserved \(GB\): ([\d.]{1,9})"
    r"(?:, device memory used/total \(GB\): ([\d.]{1,9}))?"
)

_LINE = re.compile(r"step:(\d{1,9})(?: - |$)")
_VALUE = re.compile(r"(?:np\.\w{1,12}\()?(-?\d{1,18}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)\)?$")


def read(log: Log) -> Measured | None:
    """What the lines say; None where there is none."""
    steps: dict[int, dict[str, float]] = {}
    for at in log.having(HINTS):
        text = log[at].text
        if (begun := _LINE.search(text)) is None:
            continue
        values = dict(_values(text[begun.end() :]))
        if values:
            steps.setdefault(int(begun[1]), {}).update(values)
    rows = [*steps.values()]
    moments = _moments(log)
    if not rows and not moments:
        return None
    figures = [
        Figure(f"timing_s/{name}", "seconds", seconds, tuple(one.name for one in phases))
        for name, phases in TIMERS.items()
        if (seconds := middle(rows, f"timing_s/{name}")) is not None
    ]
    peaks = [
        Figure(name, quantity, peak * GIB)
        for name, quantity in PEAKS.items()
        if (peak := most(rows, name)) is not None
    ]
    responses = mean(rows, "response_length/mean")
    lengths = responses and LoggedLengths(
        mean=responses,
        shortest=mean(rows, "response_length/min"),
        longest=mean(rows, "response_length/max"),
        cut=mean(rows, "response_length/clip_ratio"),
        prompt_mean=mean(rows, "prompt_length/mean"),
        prompt_longest=mean(rows, "prompt_length/max"),
    )
    return Measured(
        form="verl",
        steps=len(rows),
        figures=(*figures, *peaks, *moments),
        lengths=lengths or None,
        step_tokens=mean(rows, "perf/total_num_tokens"),
        notes=(POOL,) if peaks or moments else (),
        counts_engine=True,
    )


def _moments(log: Log) -> tuple[Figure, ...]:
    """The most of each kind at each moment that is named, the fullest moments of all."""
    most: dict[str, list[float]] = {}
    for at in log.having((MARK,)):
        text = log[at].text
        begun = max(text.find(MARK), 0)
        if (there := _MOMENT.match(text, begun)) is not None:
            name = text[:begun].rpartition(":")[2].strip()[-80:]
            sizes = [float(size or 0) * GIB for size in there.groups()]
            most[name] = [max(pair) for pair in zip(most.get(name, sizes), sizes, strict=True)]
    fullest = sorted(most.items(), key=lambda one: -max(one[1]))[:MOST_MOMENTS]
    kinds: tuple[Quantity, ...] = ("allocated_bytes", "reserved_bytes", "device_bytes")
    return tuple(
        Figure(f"{name}, {kind.partition('_')[0]}", kind, size, BETWEEN)
        for name, sizes in fullest
        for kind, size in zip(kinds, sizes, strict=True)
        if size
    )


def _values(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(" - "):
        name, _, value = part.strip().rpartition(":")
        if (number := _VALUE.match(value[:60])) is not None:
            yield name, float(number[1])
