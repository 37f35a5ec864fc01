"""The committed runs under FSDP1: they are of today's code, and the closed form is no lower."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from accuracy.flat_runs import CASES, LEAST_BYTES, RANKS, Case, _apart, key, stored
from accuracy.flat_summary import host_bytes, parameters, said, seen
from planner.dryrun.ask.stand_in import stand_in
from planner.dryrun.logs.log import BIRTH, PHASE, STEP
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.formulas.host import FLAT_GRADIENTS
from planner.plan import Plan
from planner.setup.setup import setup_of

torch.set_num_threads(1)

NAMED = {case.name: case for case in CASES}
LOW, UNITS = 0.003, 1.05
"""By which the closed form may be lower (7 kB of an update of adapters), and higher."""
UPDATE, OLD = "optimizer step", "old log-probs"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_ran_for_real_would_run_so_today(case: Case) -> None:
    assert list(stored()) == list(NAMED)
    assert stored()[case.name]["key"] == key(case), (
        "python -m accuracy.flat_runs --out accuracy/measured/fsdp1-vs-cpu.json"
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_closed_form_is_at_most_a_unit_above(case: Case) -> None:
    """A unit's block waits for its stream, or the next one is fetched ahead: more is reserved."""
    real, formula = seen(case), said(case)
    assert UPDATE in real and len(real) >= 3
    unit = 2 * parameters(case.name)[1]
    for name, own in real.items():
        more = 0 if name == UPDATE else UNITS * unit
        assert -LOW * own < formula[name] - own < more + LOW * own, (name, formula[name], own)


def test_a_reference_keeps_what_its_root_gathered() -> None:
    """Without a backward nothing reshards it: its whole bf16 root stands beside the update."""
    for framework, without, beside, width in (
        ("TRL", "TRL, GRPO", "TRL, GRPO, KL", 4),
        ("verl", "verl, GRPO", "verl, GRPO, KL", 0),
    ):
        case = NAMED[beside]
        whole, layer = parameters(case.name)
        root = 2 * (whole - case.config["num_hidden_layers"] * layer)
        sharded = (width or 0) * whole // RANKS // 2 + host_bytes(case)
        more = [stored()[name]["real_bytes"][UPDATE] for name in (beside, without)]
        assert abs(more[0] - more[1] - root - sharded) < 8_000, framework


def test_a_frozen_model_in_host_ram_has_room_for_gradients() -> None:
    plan = Plan(model="Qwen/Qwen2.5-7B", method="grpo", framework="verl", sharding="fsdp1")
    found = [t for t in estimate(plan).phases[0].terms if t.host and t.role == "reference"]
    weights, room = found
    assert room.name == FLAT_GRADIENTS.name and room.bytes == weights.bytes > 7e9 * 4
    second = estimate(plan.changed(sharding="fsdp2")).phases[0].terms
    assert [t.bytes for t in second if t.host and t.role == "reference"] == [weights.bytes]


def _dry(case: Case) -> dict[str, Counter[int]]:
    """Tensors that a dry run's second step makes, by phase and size: FSDP2 in FSDP1's place."""
    plan = stand_in(case.plan).plan
    log = dry_run(plan, {model.role: case.config for model in setup_of(plan).models})
    made: dict[str, Counter[int]] = {}
    now, step = "", 0
    for kind, at, value in log.events:
        if kind == STEP:
            step = at
        elif kind == PHASE:
            now = log.names[at] if value else ""
        elif kind == BIRTH and step and now and value >= LEAST_BYTES:
            made.setdefault(now, Counter())[value] += 1
    return made


ALIKE = ("TRL, SFT", "TRL, DPO", "TRL, GRPO, KL, checkpointed", "verl, GRPO")
SAME = 0.94
"""Of the tensors that a real run's pass makes, those that the dry run's makes, too."""


@pytest.mark.parametrize("name", ALIKE)
def test_both_make_the_same_tensors_but_for_their_sharding(name: str) -> None:
    made, dry = stored()[name]["made"], _dry(NAMED[name])
    for phase in ("policy forward", "policy backward"):
        real = Counter({int(size): count for size, count in made[phase].items()})
        assert real.total() > 150
        assert (real & dry[phase]).total() > SAME * real.total(), phase


def test_what_one_forward_makes_alone_is_its_fsdps_or_a_row_that_is_not_scored() -> None:
    """Of two micro-batches of 128 tokens, two of which carry no label, in tiles of the head."""
    hidden, narrow, inner, words, tile = 256, 128, 704, 4096, 32_768
    real = Counter(
        {int(size): n for size, n in stored()["TRL, SFT"]["made"]["policy forward"].items()}
    )
    dry = _dry(NAMED["TRL, SFT"])["policy forward"]
    assert real - dry == {126 * hidden * 2: 2, 63 * tile * 4: 2}
    # FSDP2 copies each weight out of the buffer, in bf16: of four layers, and both tables.
    copies = {hidden * hidden: 2, hidden * narrow: 2, hidden * inner: 3}
    layers = {2 * size: count * 4 * 2 for size, count in copies.items()}
    assert dry - real == {64 * tile * 4: 4, 2 * words * hidden: 2 * 2, **layers}


def test_a_run_of_today_says_so_too() -> None:
    name = "TRL, DPO"
    again = _apart(NAMED[name])["real_bytes"]
    for phase, size in stored()[name]["real_bytes"].items():
        assert abs(again[phase] / size - 1) < 1e-3, phase
