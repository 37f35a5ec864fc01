"""Rounding and settings, against hand-worked values and against torch's own parser."""

import ctypes
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from planner.dryrun.allocator import Allocator, AllocatorSettings
from planner.dryrun.allocator.rounding import block_size
from planner.units import GIB, MIB

NAMESPACE = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"


@pytest.fixture
def library() -> Iterator[Any]:
    """torch's own settings, in the library that the CUDA allocator reads them from."""
    yield ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False,large_segment_size_mb:20")


def torch_sizes(library: Any) -> tuple[int, int, int]:
    """Large segment, split limit and rounding limit: the first fields, by AllocatorConfig.h."""
    instance = library[f"{NAMESPACE}8instanceEv"]
    instance.restype = ctypes.c_void_p
    first, second, third = (ctypes.c_size_t * 3).from_address(instance())
    return first, second, third


def torch_divisions(library: Any, size_bytes: int) -> int:
    function = library[f"{NAMESPACE}24roundup_power2_divisionsEm"]
    function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    return int(function(size_bytes))


ACCEPTED = (
    "",
    "large_segment_size_mb:64",
    "max_split_size_mb:64, max_non_split_rounding_mb:40",
    "max_non_split_rounding_mb:80,large_segment_size_mb:64,max_split_size_mb:64,",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:1",
    "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]",
    "roundup_power2_divisions:[256:1,512:2,>:4]",
    "roundup_power2_divisions:[1:2,131072:16]",
    "roundup_power2_divisions:[>:4]",
    "garbage_collection_threshold:0.8,expandable_segments:False",
    "per_process_memory_fraction:0.5,pinned_use_background_threads:True",
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_settings_are_read_as_torch_reads_them(text: str, library: Any) -> None:
    torch._C._accelerator_setAllocatorSettings(text)
    large, split, rounding = torch_sizes(library)
    settings = AllocatorSettings.parse(text, capacity_bytes=80 * GIB)
    assert settings.large_segment_bytes == large
    assert settings.max_non_split_rounding_bytes == rounding
    # Without a limit torch holds the largest number there is.
    limit = settings.max_split_size_bytes
    assert (2**64 - 1 if limit is None else limit) == split
    for exponent in range(18, 38):
        for size in (1 << exponent, (1 << exponent) + 1, (2 << exponent) - 1):
            steps = torch_divisions(library, size)
            interval = min(max(exponent - 20, 0), 15)
            # One step and none both mean off; ours is empty where all of them are.
            assert settings.divisions[interval] == steps if settings.divisions else steps <= 1


REFUSED = (
    "large_segment_size_mb:10",
    "max_split_size_mb:10",
    "max_split_size_mb:32,large_segment_size_mb:64",
    "max_non_split_rounding_mb:10",
    "garbage_collection_threshold:1.0",
    "garbage_collection_threshold:0",
    "roundup_power2_divisions:0",
    "roundup_power2_divisions:3",
    "roundup_power2_divisions:[3:4]",
    "roundup_power2_divisions:[4:3]",
    "roundup_power2_divisions:[4:4",
    "expandable_segments:true",
    "expandable_segments",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_torch_refuses_is_refused_by_the_name_of_its_key(text: str, library: Any) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        torch._C._accelerator_setAllocatorSettings(text)
    with pytest.raises(ValueError, match=f"^{text.split(':')[0]}: "):
        AllocatorSettings.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense:1", "nonsense: PYTORCH_ALLOC_CONF has no such key"),
        ("max_split_size_mb:many", "max_split_size_mb: 'many' is not a value it takes"),
        ("backend:cudaMallocAsync", "backend: 'cudaMallocAsync' is not simulated"),
        ("throw_on_cudamalloc_oom:True", "throw_on_cudamalloc_oom: 'True' is not simulated"),
        ("per_process_memory_fraction:0.5", "per_process_memory_fraction: .* capacity_bytes"),
    ],
)
def test_what_this_cannot_simulate_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AllocatorSettings.parse(text)


def test_defaults_of_a_string_that_sets_nothing() -> None:
    assert AllocatorSettings.parse(" backend:native ,release_lock_on_cudamalloc:True") == (
        AllocatorSettings()
    )


def test_every_field_can_be_parsed() -> None:
    text = (
        "expandable_segments:True,roundup_power2_divisions:4,max_split_size_mb:200,"
        "max_non_split_rounding_mb:100,large_segment_size_mb:40,"
        "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9"
    )
    settings = AllocatorSettings.parse(text, capacity_bytes=GIB)
    default = AllocatorSettings()
    for field in fields(AllocatorSettings):
        assert getattr(settings, field.name) != getattr(default, field.name), field.name
    assert settings == AllocatorSettings(
        True, 4, 200 * MIB, 100 * MIB, 40 * MIB, GIB, garbage_collection_threshold=0.6,
        per_process_memory_fraction=0.9,
    )  # fmt: skip
    assert settings.allowed_bytes == int(0.9 * GIB)


def test_a_tuple_of_divisions_has_sixteen() -> None:
    with pytest.raises(ValueError, match="roundup_power2_divisions: give 16"):
        AllocatorSettings(roundup_power2_divisions=(2, 4))


FOUR = AllocatorSettings(roundup_power2_divisions=4).divisions


@pytest.mark.parametrize(
    ("asked", "block"),
    [
        # The example of torch's documentation: 1200 lies between 1024 and 2048; four divisions
        # give 1024, 1280, 1536, 1792. In units of 1 MiB.
        (1200 * MIB, 1280 * MIB),
        (1024 * MIB, 1024 * MIB),
        (1793 * MIB, 2048 * MIB),
        (1280 * MIB + 1, 1536 * MIB),
        # Up to 512 bytes times the divisions, whole blocks of 512 as ever.
        (2048, 2048),
        (1500, 1536),
        (100, 512),
        # Just above: steps of a quarter of 2048, and then of 4096.
        (2049, 2560),
        (4097, 5120),
    ],
)
def test_rounding_to_a_power_of_two_in_four_steps(asked: int, block: int) -> None:
    assert block_size(asked, FOUR) == block


def test_rounding_goes_by_the_interval_of_the_size() -> None:
    settings = AllocatorSettings.parse("roundup_power2_divisions:[1:1,2:2,>:4]")
    # Between 1 and 2 MiB: off. Between 2 and 4: steps of 1. Between 4 and 8: steps of 1.
    assert block_size(MIB + 1, settings.divisions) == MIB + 512
    assert block_size(2 * MIB + 1, settings.divisions) == 3 * MIB
    assert block_size(4 * MIB + 1, settings.divisions) == 5 * MIB


def test_the_rounded_size_decides_the_pool_and_counts_as_allocated() -> None:
    allocator = Allocator(AllocatorSettings(roundup_power2_divisions=2))
    allocator.allocate(1, 800 * 1024)  # between 512 KiB and 1 MiB in steps of 256: 1 MiB, small
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (MIB, 2 * MIB)
    allocator.allocate(2, 9 * MIB)  # to 12 MiB: a segment of its own
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (13 * MIB, 14 * MIB)
