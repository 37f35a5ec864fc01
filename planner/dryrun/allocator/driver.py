"""The driver's side: who gives and takes back memory, and how much of it is held."""

from __future__ import annotations

from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.trace import Action, TraceEntry
from planner.units import GIB, read_bytes

FIRST_ADDRESS = 1 << 40
"""Any start will do. Addresses stay below 2**53, above which the viewer's numbers end."""

GAP_BYTES = 2 << 20
"""Left between segments, so that the viewer does not take two neighbours for one."""

UNLIMITED_RANGE_BYTES = 1024 * GIB
"""Addresses of an expandable segment when the card's size is not given."""


class OutOfDeviceMemory(Exception):
    """An allocation that found no memory after everything cached was given back."""

    def __init__(
        self, asked_bytes: int, segment_bytes: int, reserved_bytes: int, allocated_bytes: int
    ) -> None:
        self.asked_bytes = asked_bytes
        """What the caller asked for."""
        self.segment_bytes = segment_bytes
        """What would have been bought for it; torch's message names this one."""
        self.reserved_bytes = reserved_bytes
        self.allocated_bytes = allocated_bytes
        super().__init__(
            f"{read_bytes(asked_bytes)} asked for, a segment of {read_bytes(segment_bytes)}: "
            f"{read_bytes(reserved_bytes)} are reserved, {read_bytes(allocated_bytes)} of them "
            "allocated"
        )


class Driver:
    """Memory bought from the card. Addresses ascend and are never used again."""

    def __init__(self, settings: AllocatorSettings, trace: list[TraceEntry] | None) -> None:
        self.capacity_bytes = settings.capacity_bytes
        self.trace = trace
        self.reserved_bytes = 0
        self.peak_reserved_bytes = 0
        self._next_address = FIRST_ADDRESS

    @property
    def available_bytes(self) -> int:
        """What the card could still give; 0 when its size is not known."""
        return 0 if self.capacity_bytes is None else self.capacity_bytes - self.reserved_bytes

    def take_addresses(self, size: int) -> int:
        """Addresses that nothing else uses."""
        address = self._next_address
        self._next_address += size + GAP_BYTES
        return address

    def take_range(self, page_bytes: int, size: int) -> tuple[int, int]:
        """Start and length of an expandable segment: the card's memory and an eighth more.

        Where the card is without end, the range holds at least ``size`` bytes.
        """
        card = self.capacity_bytes
        length = max(UNLIMITED_RANGE_BYTES, size) if card is None else card + card // 8
        length = max(-(-length // page_bytes), 1) * page_bytes
        return self.take_addresses(length), length

    def buy(self, action: Action, address: int, size: int, stream: int) -> bool:
        """Take memory from the card; False where it has no more."""
        reserved = self.reserved_bytes + size
        if self.capacity_bytes is not None and reserved > self.capacity_bytes:
            return False
        self.reserved_bytes = reserved
        if reserved > self.peak_reserved_bytes:
            self.peak_reserved_bytes = reserved
        self.record(action, address, size, stream)
        return True

    def sell(self, action: Action, address: int, size: int, stream: int) -> None:
        """Give memory back to the card."""
        self.reserved_bytes -= size
        self.record(action, address, size, stream)

    def record(
        self, action: Action, address: int, size: int, stream: int, frame_name: str = ""
    ) -> None:
        """Note an event, if somebody asked for the trace."""
        if self.trace is not None:
            self.trace.append(TraceEntry(action, address, size, stream, frame_name))
