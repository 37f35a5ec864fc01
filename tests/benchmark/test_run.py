"""A whole benchmark on the processor, with a clock whose seconds the test decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from planner import catalog
from planner.background import GivenUp
from planner.benchmark.run import identity, layers, session
from planner.benchmark.run.case import CARD, PROCESSOR, Case, Run, Sizes
from planner.benchmark.run.clock import MOST_SAMPLES, DeviceClock, WallClock, sample
from planner.benchmark.run.session import PARTS, Bench, bench_of, run_benchmark
from planner.catalog.card_benchmark import CardBenchmark, read_benchmark, speeds_of
from planner.jobs.turns import Turn
from planner.speeds import SPEED_KEYS
from planner.trial.ask.result import Device, Environment

Cases = Callable[[Sizes, str], Iterator[Case]]
H100 = catalog.gpu("h100-80gb")
PEAK, BANDWIDTH, SLOT = 989.0e12, 3.35e12, 63.0e9


class FakeClock:
    """Each run takes what ``cost`` says; nothing is run, and time stands still otherwise."""

    def __init__(self, cost: Callable[[Case], float]) -> None:
        self.cost, self.time, self.timed = cost, 0.0, [""]

    def now(self) -> float:
        return self.time

    def seconds(self, case: Case, run: Run, times: int) -> float:
        if self.timed[-1] != (case.part, case.name):
            self.timed.append((case.part, case.name))  # type: ignore[arg-type]
        self.time += self.cost(case) * times
        return self.cost(case) * times


def measured(
    cost: Callable[[Case], float], budget_seconds: float = 1e4, said: list[str] | None = None
) -> CardBenchmark:
    """A benchmark that believes to be on an H100."""
    bench = Bench(device="cpu", clock=FakeClock(cost), sizes=PROCESSOR, gpu=H100)
    names = [] if said is None else said
    return run_benchmark(
        bench,
        identifier="20261122-120000-abcdef",
        budget_seconds=budget_seconds,
        report=lambda name, number, count: names.append(name),
    )


@pytest.fixture
def unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor is made, since a clock of the test runs nothing."""

    def bare(cases: Cases) -> Cases:
        def found(sizes: Sizes, device: str) -> Iterator[Case]:
            for case in cases(sizes, device):
                yield replace(case, make=lambda: lambda: None)

        return found

    monkeypatch.setattr(session, "PARTS", {bare(cases): share for cases, share in PARTS.items()})
    monkeypatch.setattr(layers, "prepare", lambda sizes, device: None)


def cost(case: Case) -> float:
    """Layers at 0.4 of the peak, heads at 0.2, memory at 0.5, the slot at 0.6 (to host 0.3)."""
    if case.part == "layers":
        assert case.flops is not None
        return case.flops / PEAK / (0.2 if case.name.startswith("head") else 0.4)
    if case.name == "generate":
        return 0.01 + 0.002 * case.sizes["tokens"]
    if case.part == "host copy":
        assert case.moved_bytes is not None
        return case.moved_bytes / SLOT / (0.6 if case.name.endswith("device") else 0.3)
    if case.of == "memory bandwidth":
        assert case.moved_bytes is not None
        return case.moved_bytes / BANDWIDTH / 0.5
    return 1e-4


def test_shares_are_those_that_the_clock_gave(unmade: None) -> None:
    found = measured(cost)
    told = {one.key: one for one in found.derived}
    # SmolLM2-135M: 30 layers of 576, 1,536 and 9 + 3 heads of 64; head of 49,152; 64 positions
    # in rows of 32. Twice every weight's product, both attention products of 33/2 pairs each.
    linear = 2 * 64 * 576 * (64 * (2 * 9 + 2 * 3) + 3 * 1536)
    attention = 4 * 9 * 64 * 64 * 33 / 2
    head = 2 * 64 * 576 * 49_152
    for key, stack in (
        ("training-compute", 30 * (3 * linear + 3.5 * attention)),
        ("forward-compute", 30 * (linear + attention)),
    ):
        whole = head * (3 if key.startswith("training") else 1)
        share = (stack + whole) / (stack / 0.4 + whole / 0.2)
        assert told[key].low == told[key].typical == told[key].high == pytest.approx(share)
    for key in ("decode-bandwidth", "optimizer-bandwidth"):
        assert told[key].typical == pytest.approx(0.5)
    # 2 ms a token of four layers.
    assert told["hf-step-seconds-per-layer"].typical == pytest.approx(0.0005)
    # A processor pins nothing, so copies of the slot are left as published, which is said.
    assert set(told) == {
        *("training-compute", "forward-compute", "decode-bandwidth", "optimizer-bandwidth"),
        "hf-step-seconds-per-layer",
    }
    assert any("host-copy-bandwidth was not measured" in note for note in found.notes)
    speeds = speeds_of(found)
    assert speeds is not None and speeds.gpu == "h100-80gb"
    assert speeds.torch == torch.__version__


def test_every_row_has_its_work_its_time_and_its_share(unmade: None) -> None:
    found = measured(cost)
    by = {(row.part, row.name, row.dtype): row for row in found.measured}
    stack = by["layers", "layers training", "bf16"]
    assert (stack.share, stack.of) == (pytest.approx(0.4), "dense peak")
    assert by["host copy", "pageable to host", ""].share == pytest.approx(0.3)
    assert by["bandwidth", "copy", ""].moved_bytes == 2 * PROCESSOR.copy_bytes
    # 16 of each fp32 value: weight, moments and gradient, of which three are written as well.
    update = by["bandwidth", "adamw-fused", "fp32"]
    assert update.moved_bytes == 28 * PROCESSOR.optimizer_values
    product = by["products", "forward", "fp32"]
    assert product.flops == 2 * 64 * 576 * 1536
    assert product.share == pytest.approx(product.flops / 1e-4 / 67.0e12)
    assert by["launches", "one kernel", ""].share is None
    assert read_benchmark(found.model_dump_json()) == found


def test_a_part_without_time_runs_its_first_case_and_says_what_is_left_out(unmade: None) -> None:
    said: list[str] = []
    found = measured(lambda case: 1.0, budget_seconds=1.0, said=said)
    assert len(found.measured) == len(PARTS)
    firsts = {(row.part, row.name) for row in found.measured}
    assert ("layers", "layers forward") in firsts and ("decode", "weights") in firsts
    total = sum(len(list(cases(PROCESSOR, "cpu"))) for cases in PARTS)
    assert any(f"{total - len(PARTS)} of {total} rows are left out" in n for n in found.notes)
    assert len(said) == len(PARTS)


def test_the_time_is_kept_to_whatever_a_run_takes(unmade: None) -> None:
    clock = FakeClock(lambda case: 0.05)
    bench = Bench(device="cpu", clock=clock, sizes=PROCESSOR, gpu=H100)
    run_benchmark(bench, identifier="20261122-120000-abcdef", budget_seconds=20.0)
    assert clock.time < 20.0 + 3 * 0.05 * len(PARTS)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (torch.OutOfMemoryError("no"), "not enough memory"),
        (RuntimeError("no kernel image\nis available"), "left out: RuntimeError: no kernel image"),
    ],
)
def test_what_a_device_cannot_run_is_left_out_and_said(
    error: Exception, says: str, unmade: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(case: Case) -> float:
        if case.part == "layers" and case.name.startswith("head"):
            raise error
        return cost(case)

    found = measured(failing)
    assert sum(says in note for note in found.notes) == 2
    told = {one.key for one in found.derived}
    assert "training-compute" not in told and "decode-bandwidth" in told


def test_a_device_that_runs_nothing_has_no_benchmark(unmade: None) -> None:
    def failing(case: Case) -> float:
        raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(ValueError, match="nothing could be measured on cpu: layers: .* illegal"):
        measured(failing)


def test_the_median_stands_between_the_lowest_and_the_highest_sample() -> None:
    spent = iter((9.0, 0.004, 0.005, 0.001, 0.003))  # warm-up, one run, then samples
    asked: list[int] = []

    class Scripted(WallClock):
        def seconds(self, case: Case, run: Run, times: int) -> float:
            asked.append(times)
            return next(spent, 0.002) * times

    case = Case(part="launches", name="x", make=lambda: lambda: None)
    found = sample(case, Scripted(), until=float("inf"))
    assert found.count == MOST_SAMPLES
    assert (found.lowest, found.median, found.highest) == (0.001, 0.002, 0.005)
    # The warm-up's 9 s decide nothing: a run of 4 ms is repeated until 20 ms.
    assert asked == [1, 1, *(5,) * MOST_SAMPLES]


def test_a_cards_clock_reads_events_around_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            happened.append("event")

        def elapsed_time(self, end: Event) -> float:
            return 30.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: happened.append(f"{device}"))
    case = Case(part="launches", name="x", make=lambda: lambda: None)
    clock = DeviceClock("cuda:1")
    assert clock.seconds(case, lambda: happened.append("run"), 3) == 0.03
    assert happened == ["cuda:1", "event", "run", "run", "run", "event", "cuda:1"]


def test_what_the_driver_says_of_a_card_stands_in_the_result(
    unmade: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"power.limit": "650.00", "clocks.sm": "1755", "clocks.max.sm": "[N/A]"}
    name = "NVIDIA H100 80GB HBM3"
    device = Device(kind="cuda", name=name, total_bytes=85 * 10**9, gpu="h100-80gb")
    for module in (session, identity):
        monkeypatch.setattr(module, "device_of", lambda *_: device)
    monkeypatch.setattr(session, "used_by_others", lambda device: 4 * 2**20)
    monkeypatch.setattr(identity, "nvidia_smi", lambda device, field: said[field])
    versions = {"torch": "2.13.0+cu130", "cuda": "13.0", "peft": "1"}
    environment = Environment(versions=versions, driver="580.95.05")
    monkeypatch.setattr(session, "environment", lambda device: environment)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    bench = bench_of("cuda:0")
    assert isinstance(bench.clock, DeviceClock) and bench.sizes is CARD
    assert bench.gpu is H100 and bench.others_bytes == 4 * 2**20

    def large(case: Case) -> float:
        alone = case.part in ("products", "attention")
        return (case.flops or 0) / PEAK if alone else cost(case)

    played = replace(bench, clock=FakeClock(large), memory=None)
    found = run_benchmark(played, identifier="20261122-120000-abcdef", budget_seconds=1e4)
    told = found.device
    assert (told.name, told.gpu, told.power_limit_watts) == (name, "h100-80gb", 650.0)
    assert (told.sm_clock_hertz, told.max_sm_clock_hertz) == (1.755e9, None)
    assert found.versions == {"torch": "2.13.0+cu130", "cuda": "13.0"}
    speeds = speeds_of(found)
    assert speeds is not None and speeds.driver == "580.95.05"
    # With pinned copies at 0.6 and 0.3 of the slot, there and back together are at 0.4.
    slot = speeds.of("host-copy-bandwidth")
    assert slot is not None
    assert (slot.low, slot.typical, slot.high) == pytest.approx((0.3, 0.4, 0.6))
    assert {one.key for one in speeds.speeds} == set(SPEED_KEYS)


def test_a_benchmark_is_given_up_between_two_cases(unmade: None) -> None:
    looks = iter([False] * 5)
    bench = Bench(device="cpu", clock=FakeClock(cost), sizes=PROCESSOR, gpu=None)
    with pytest.raises(GivenUp):
        run_benchmark(
            bench,
            identifier="20261122-120000-abcdef",
            budget_seconds=1e4,
            cancelled=lambda: next(looks, True),
        )


def test_every_case_really_runs_on_the_processor() -> None:
    for cases in PARTS:
        for case in cases(PROCESSOR, "cpu"):
            case.make()()
    session._free("cpu")


def test_a_cards_sizes_are_beyond_its_caches_and_of_known_models() -> None:
    weights = next(case for case in session.decode.cases(CARD, "cuda:0") if case.name == "weights")
    # 7B's layer: 28 + 2 * 4 heads of 128 and 28 out, three projections of 18,944; two bytes each.
    assert weights.moved_bytes == 2 * 3584 * (128 * (2 * 28 + 2 * 4) + 3 * 18_944)
    assert weights.moved_bytes > 2 * 126e6, "twice a B200's last-level cache"
    names = {case.name for case in session.host_copy.cases(CARD, "cuda:0")}
    assert {"pinned to device", "pinned to host", "pageable to host"} <= names
    layer_cases = list(layers.cases(CARD, "cuda:0"))
    assert {case.model for case in layer_cases} == set(CARD.models)


@pytest.mark.gpu
def test_a_card_is_measured_in_about_its_time() -> None:
    found = run_benchmark(
        bench_of("cuda:0"), identifier="20261122-120000-abcdef", budget_seconds=20.0
    )
    assert read_benchmark(found.model_dump_json()) == found
    assert found.constants is not None and found.constants.context_bytes
    assert found.constants.loaded_bytes >= found.constants.context_bytes  # type: ignore[operator]
    told = {one.key for one in found.derived}
    assert {"training-compute", "forward-compute", "decode-bandwidth"} <= told, found.notes


def test_a_processor_gives_rates_and_no_share(unmade: None) -> None:
    bench = replace(bench_of("cpu"), clock=FakeClock(cost))
    found = run_benchmark(bench, identifier="20261122-120000-abcdef", budget_seconds=1e4)
    assert found.derived == () and found.constants is None
    assert all(row.share is None for row in found.measured)
    assert any("change no estimate" in note for note in found.notes)


class PlayedMemory:
    """A card whose driver says the same at every look."""

    def total_bytes(self) -> int:
        return 80 * 10**9

    def used_bytes(self) -> int:
        return 600 * 10**6

    def reserved_bytes(self) -> int:
        return 100 * 10**6

    def allocated_bytes(self) -> int:
        return 512


@pytest.mark.parametrize("taken", [False, True])
def test_a_second_card_tells_nccls_bytes_unless_somebody_has_it(
    taken: bool, unmade: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def played(devices: tuple[str, str]) -> int:
        asked.append(devices)
        return 7

    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    monkeypatch.setattr(session, "communicator_bytes", played)
    trial = Turn(["cuda:0"], "a-trial", tmp_path) if taken else None
    bench = Bench(
        device="cpu",
        clock=FakeClock(lambda case: 1.0),
        sizes=PROCESSOR,
        gpu=H100,
        memory=PlayedMemory(),
        others_bytes=200 * 10**6,
        cards=2,
    )
    found = run_benchmark(bench, identifier="20261122-120000-abcdef", budget_seconds=1.0)
    if trial is not None:
        trial.close()
    assert found.constants is not None
    assert found.constants.context_bytes == 300 * 10**6
    assert found.constants.nccl_bytes == (None if taken else 7)
    assert asked == ([] if taken else [("cpu", "cuda:0")])
    assert any("NCCL was not measured: cuda:0 is in use" in one for one in found.notes) == taken
