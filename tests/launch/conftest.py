from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.running import Tiny, Worker


@pytest.fixture(scope="session")
def trl() -> Iterator[Worker]:
    worker = Worker("trl_worker.py")
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def verl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    model: Path = tmp_path_factory.mktemp("verl") / "model"
    worker = Worker("verl_worker.py", str(model))
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def qwen(trl: Worker, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A tiny model and prompts of two lengths."""
    return Tiny.made(trl, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models and data stand that a program can train on, once the worker has started."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    return folder


@pytest.fixture(scope="session")
def programs(tiny: Path) -> Iterator[Worker]:
    worker = Worker("program_worker.py", str(tiny))
    yield worker
    worker.close()
