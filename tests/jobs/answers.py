"""A process that answers as the test of it needs."""

from __future__ import annotations

import time
from typing import Any

from planner.background import Refused
from planner.jobs.worker import Told, serve


def answer(request: Any, tell: Told) -> Any:
    match request:
        case ["tell", *values]:
            print("what a library says")
            for value in values:
                tell(value)
            return len(values)
        case "wait":
            time.sleep(600)
        case "refuse":
            raise Refused("It is refused.")
        case "fail":
            raise KeyError("a key")
        case "much":
            return len(bytearray(2**33))
    return request


if __name__ == "__main__":
    serve(answer, "It failed", memory_bytes=2**31)
