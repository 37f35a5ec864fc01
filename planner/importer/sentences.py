"""What a message says by itself: figures, why, and what no field of a plan changes."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Footprint
from planner.importer.memory_errors.message import Message
from planner.totals.limits import MARGIN
from planner.units import read_bytes

OTHER_CARD = 0.1
"""Share by which a message's card may differ from the plan's before it is another one."""


def figures(message: Message) -> Iterator[str]:
    """What the message itself says, in one sentence."""
    size = message.bytes
    who = f"Rank {message.rank}: " if message.rank is not None else ""
    on = f" on GPU {message.gpu}" if message.gpu is not None else ""
    asked, free, total = size("asked"), size("free"), size("total")
    if message.form == "torch" and asked is not None:
        told = f"{who}torch asked for {read_bytes(asked)}{on}"
        if free is not None and total is not None:
            told += f"; {read_bytes(free)} of {read_bytes(total)} were free"
        if (allocated := size("allocated")) is not None:
            left = size("unallocated") or 0
            told += f", {read_bytes(allocated)} allocated, {read_bytes(left)} reserved in pieces"
        yield f"{told[0].upper()}{told[1:]}."
    elif message.form == "vLLM start":
        yield (
            f"{who}vLLM wants {read_bytes(size('wanted') or 0)}{on} (a share of "
            f"{message.said.get('share', '?')}); {read_bytes(free or 0)} of "
            f"{read_bytes(total or 0)} were free."
        )
    elif message.form == "Ray monitor" and total is not None:
        yield (
            f"Ray killed {message.said.get('task', 'a worker')}: {read_bytes(size('used') or 0)} "
            f"of the node's {read_bytes(total)} of host RAM were in use."
        )
    elif message.form != "signal 9":
        of = f": {read_bytes(asked)} were asked for" if asked is not None else ""
        used, task = size("process_used"), message.said.get("task")
        held = f": {task} held {read_bytes(used)}" if used is not None and task else ""
        yield f"{who}{who and 'a' or 'A'} message of {message.form}{of}{held}{on}."


def cause(message: Message) -> Iterator[str]:
    """Why there was no memory."""
    if message.form == "signal 9":
        yield (
            "Something outside killed the process. That is nearly always the kernel, for want of "
            "host RAM; a scheduler's time limit looks the same."
        )
        return
    others = message.bytes("others")
    yield {
        "shortage": "The memory is really short: nothing else takes it, and no reserved piece "
        "is large enough.",
        "fragmentation": "Torch had reserved enough, in pieces: fragmentation.",
        "another process": f"Other processes hold {read_bytes(others or 0)} of that GPU; without "
        "them it had fitted.",
        "process limit": "The card had room: a limit on this process's share was reached.",
        "engine's share": "It is the rollout engine's share of the card, not a tensor of "
        "training.",
        "host RAM": "It is host RAM that ended, not the GPU's memory.",
        "not said": "The text does not say that memory was short; this error has other causes too.",
    }[message.cause]


def card(message: Message, footprint: Footprint) -> Iterator[str]:
    """Where the message's card is not the plan's, or the plan has room."""
    total = message.bytes("total")
    if total is None or message.cause == "host RAM":
        return
    budget = footprint.budget_bytes
    if abs(total - budget) > OTHER_CARD * budget:
        yield (
            f"The message's GPU has {read_bytes(total)}, the plan's {read_bytes(budget)}: set "
            "gpu to the card that it ran on."
        )
    elif footprint.device_bytes < MARGIN * budget and message.cause == "shortage":
        yield (
            f"By its estimate the plan needs {read_bytes(footprint.device_bytes)} and fits, so "
            "the run holds something that the plan does not say: check lengths, batch, logits "
            "and version."
        )


def following(message: Message) -> Iterator[str]:
    """What no field of a plan changes."""
    up = "Raise --mem-fraction-static: the engine needs a larger share to start."
    down = "Lower --mem-fraction-static or the running requests: the engine fills its share."
    if message.form.startswith("SGLang"):
        yield up if message.form == "SGLang start" else down
    elif message.form == "torch" and any("sglang" in frame.file for frame in message.frames):
        yield down
    elif message.form == "vLLM start":
        yield "Free the GPU of other processes, or lower gpu_memory_utilization to what is free."
    elif message.cause == "another process":
        yield "See `nvidia-smi` for what else runs there: a run before, an engine, a notebook."
    elif message.cause == "process limit":
        yield "Look for set_per_process_memory_fraction, and for the driver's own limit."
    elif message.cause == "host RAM":
        yield "See `dmesg` or the scheduler's record for what was killed, and at how many bytes."
    elif message.form in ("the driver", "NCCL", "cuBLAS"):
        yield "Give the log of every rank: another one may have said how much it asked for."
