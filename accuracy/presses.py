"""``python -m accuracy.presses [--plans N]``: what buttons promise, held against what comes.

Random plans, and every button that a page has for each of them: Make it fit, Edits, two together,
what lowers the peak, Use the room, Fewer GPUs, Engine, Which GPUs and Launch's change of the plan;
No effect has no button and promises one thing too. Each is pressed as a page presses it
(:func:`planner.ui.state.draft.replaced`), and the plan that comes of it is estimated anew. Writes
``docs/presses.md``.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

from planner.advice.advice import Advice
from planner.advice.cards import Choice, choices, mended
from planner.advice.outcome import Outcome, outcome_of
from planner.advice.suggestion import Suggestion
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.export import following, in_the_way
from planner.launch.launch import CannotExpress
from planner.launch.offer import offered
from planner.plan import FIELDS, Plan, try_plan
from planner.plan import choices as values_of
from planner.plan.chosen import differences
from planner.plan.frameworks import exported
from planner.plan.presets import presets
from planner.totals.limits import SEVERITY
from planner.trial.evidence.stated_error import stated
from planner.trial.evidence.stated_sweep import stated_sweep
from planner.ui.state import draft as drafts

FILE = Path(__file__).resolve().parent.parent / "docs" / "presses.md"
PLANS = 300
SEED = 40
ROWS = 12
"""Rows of Which GPUs that are pressed of each plan, drawn; all are of one sweep."""
HEAD = """
# What buttons promise

Written by `python -m accuracy.presses`. For random plans, every button that Plan and Launch have
was pressed. A button states a verdict, a peak, seconds and dollars, and the heading above it makes
a claim, such as *fits*, *faster* or *no effect*. Figures and claim are compared with the estimate
of the plan that the button opens. Of *Which GPUs* {rows} drawn rows of each plan are pressed,
and one of the rows that are made to fit. CI presses the buttons of a few plans in each run
(`tests/advice/test_presses.py`).
"""
CLOSE = 1e-9
"""A sweep's seconds are sums in another order."""
NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "gpus": (1, 2, 4, 8, 16, 64),
    "micro_batch_size": (1, 2, 4, 8),
    "logprob_micro_batch_size": (1, 2, 4, 8),
    "prompt_tokens": (128, 512, 2048),
    "response_tokens": (128, 1024, 4096, 16_384),
    "gpu_memory_utilization": (0.1, 0.3, 0.5, 0.7, 0.9),
    "rollout_tensor_parallel": (1, 2, 4, 8),
    "max_num_seqs": (16, 128, 512),
    "host_ram_per_node": (0, 64 * 2**30, 1024 * 2**30),
    "lora_rank": (8, 64),
    "model": ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-14B", "Qwen/Qwen3-4B"),
    "gpu": ("h100-80gb", "a100-40gb", "a100-80gb", "rtx-4090", "b200-180gb"),
}
"""What is drawn of fields that are no lists of choices."""


class Promise(NamedTuple):
    """What a button says of the plan after it; None of what it does not say."""

    button: str
    title: str
    changes: Mapping[str, Any]
    word: str | None
    device_bytes: int | None
    step_seconds: float | None
    usd_run: float | None
    claims: tuple[str, ...] = ()
    """Of :data:`CLAIMS`."""


class Broken(NamedTuple):
    """A promise that the plan after the press does not hold."""

    button: str
    title: str
    what: str
    plan: Plan


Claim = Callable[[Outcome, Outcome], bool]
CLAIMS: Mapping[str, Claim] = {
    "fits": lambda before, after: after.fits,
    "starts": lambda before, after: not after.blockers,
    "lowers": lambda before, after: after.device_bytes < before.device_bytes,
    "faster": lambda before, after: (after.step_seconds or 0) < (before.step_seconds or 0),
    "cheaper": lambda before, after: (after.usd_run or 0) < (before.usd_run or 0),
    "same peak": lambda before, after: (
        abs(after.device_bytes - before.device_bytes) <= 0.01 * before.device_bytes
    ),
    "no worse": lambda before, after: SEVERITY.index(after.word) >= SEVERITY.index(before.word),
    "runs": lambda before, after: after.word != "out of memory",
}
"""What labels, badges and headings say, by what holds of the plans before and after."""


def judge(plan: Plan) -> Footprint:
    """The estimate as a page judges it, of committed measurements alone."""
    return stated(estimate(plan))


def drawn(seed: int) -> Plan:
    """A preset with a few fields drawn anew; those that make no plan are left as they were."""
    chosen = random.Random(seed)
    plan = chosen.choice([one.plan for one in presets().values()])
    fields = [
        name for name in FIELDS if values_of(name) and name not in ("method", "kv_cache_dtype")
    ]
    for name in (*chosen.sample(fields, 5), *chosen.sample([*NUMBERS], 6)):
        value = chosen.choice(NUMBERS.get(name) or values_of(name))
        plan = try_plan({**plan.model_dump(), name: value})[0] or plan
    return plan


def promises(plan: Plan, seed: int = 0) -> Iterator[Promise]:
    """Every button of a plan's pages, and what stands on it."""
    advice = Advice(judge(plan), judge, refused=in_the_way)
    for number, one in enumerate(advice.ways):
        yield _of("Make it fit", one, *(("fits",) if not number and one.fits else ()))
    for one in advice.singles:
        lowers = () if one.unblocks or one.fits else ("lowers",)
        yield _of("Edits", one, *lowers)
    yield from (_of("Two together", one, "fits") for one in advice.pairs)
    for one in advice.lowering(advice.outcome.worst):
        yield _of("What sets the peak", one, "lowers")
    if advice.outcome.fits:
        yield from (_of("Use the room", one, "fits", "faster") for one in advice.faster)
        yield from (_of("Fewer GPUs", one, "fits", "cheaper") for one in advice.cheaper)
        if advice.used is not None:
            yield _of("All together", advice.used, "fits", "faster")
    yield from (_of("Engine", one, "fits", "starts") for one in advice.share)
    yield from (_of("No effect", one.suggestion, "same peak") for one in advice.idle)
    yield from _gpus(plan, seed)
    yield from _launched(plan)


def _of(button: str, one: Suggestion, *claims: str) -> Promise:
    badge = ("starts",) if one.unblocks else ()
    safe = () if button == "No effect" else ("no worse",)
    told = (*claims, *badge, *safe)
    return Promise(button, one.title, one.changes, *_figures(one.after), told)


def _figures(one: Outcome | Choice) -> tuple[str, int | None, float | None, float | None]:
    return one.word, one.device_bytes, one.step_seconds, one.usd_run


def _gpus(plan: Plan, seed: int) -> Iterator[Promise]:
    found = choices(plan, judged=lambda table, base: stated_sweep(table, estimate(base)))
    able = [one for one in found if one.word != "impossible"]
    chosen = random.Random(seed)
    for one in chosen.sample(able, min(ROWS, len(able))):
        yield _row("Which GPUs", one)
    failing = [one for one in found if one.word == "out of memory"]
    for one in mended(plan, chosen.sample(failing, min(1, len(failing))), judge, in_the_way):
        yield _row("Which GPUs, made to fit", one, "fits")


def _row(button: str, one: Choice, *claims: str) -> Promise:
    title = f"{one.gpus} × {one.name} {one.mended}".strip()
    return Promise(button, title, one.changes, *_figures(one), claims)


def _launched(plan: Plan) -> Iterator[Promise]:
    own = drafts.of_plan(plan)
    for framework in exported():
        try:
            able = offered(plan, framework, frozenset(own.chosen), judge)[1]
        except CannotExpress:
            continue
        if able is None or able == plan:
            continue
        after = outcome_of(judge(able))
        changes = {one.field: one.after for one in differences(dict(plan), dict(able))}
        claims = ["no worse", "runs"]
        try:
            following(able, framework, frozenset(drafts.replaced(own, changes).chosen))
        except CannotExpress as error:
            claims.append(f"{framework} still refuses {', '.join(error.fields)}")
        title = f"Change the plan so that {framework} can run it"
        yield Promise("Launch", title, changes, *_figures(after), tuple(claims))


def pressed(plan: Plan, one: Promise) -> Iterator[Broken]:
    """Every way in which a promise does not hold once its button is pressed."""
    made = drafts.replaced(drafts.of_plan(plan), one.changes).plan
    if made is None:
        yield Broken(one.button, one.title, "no plan comes of it", plan)
        return
    before, after = outcome_of(judge(plan)), outcome_of(judge(made))
    figures = ("word", "device_bytes", "step_seconds", "usd_run")
    for name in figures:
        said, came = getattr(one, name), getattr(after, name)
        if said is not None and not _alike(said, came):
            yield Broken(one.button, one.title, f"{name}: said {said}, came {came}", plan)
    for claim in one.claims:
        held = CLAIMS.get(claim)
        if held is None or not held(before, after):
            told = f"{claim}: {before.word}, {before.device_bytes:,} bytes → {after.word}, "
            yield Broken(one.button, one.title, f"{told}{after.device_bytes:,} bytes", plan)


def _alike(said: Any, came: Any) -> bool:
    if isinstance(said, float) and came is not None:
        return bool(abs(said - came) <= CLOSE * abs(came))
    return bool(said == came)


def asked(number: int) -> tuple[str, Counter[str], list[Broken]]:
    """The verdict of one random plan, how many buttons of each kind it has, and what they break."""
    plan = drawn(1000 * SEED + number)
    every = [*promises(plan, number)]
    broken = [found for one in every for found in pressed(plan, one)]
    return judge(plan).verdict.word, Counter(one.button for one in every), broken


def tables(plans: int, processes: int = 1) -> Iterator[tuple[str, list[Broken]]]:
    """Buttons and broken promises by kind, after each of so many plans."""
    counts: Counter[str] = Counter()
    words: Counter[str] = Counter()
    broken: list[Broken] = []
    with Pool(processes) as pool:
        for word, buttons, found in pool.imap(asked, range(plans)):
            words[word] += 1
            counts += buttons
            broken += found
            yield _text(words, counts, Counter(one.button for one in broken)), broken


def _text(words: Counter[str], counts: Counter[str], broken: Counter[str]) -> str:
    rows = [f"| {kind} | {count:,} | {broken[kind]} |" for kind, count in counts.most_common()]
    about = ", ".join(f"{count} {word}" for word, count in words.most_common())
    lines = [
        *HEAD.format(rows=ROWS).strip().splitlines(),
        "",
        f"{words.total()} plans: {about}.",
        "",
        "| button | pressed | broken promises |",
        "|---|--:|--:|",
        *rows,
        f"| all | {counts.total():,} | {broken.total()} |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command; what is known so far is written after each plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=PLANS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    told = 0
    for text, broken in tables(given.plans, given.processes):
        FILE.write_text(text, "utf-8")
        for one in broken[told:]:
            print(f"{one.button}: {one.title}: {one.what}", flush=True)
        told = len(broken)
    print(FILE.read_text("utf-8"))


if __name__ == "__main__":
    main()
