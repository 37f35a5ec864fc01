from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REBUILD = Path(__file__).parent / "rebuild.py"


@pytest.fixture(scope="session")
def rebuilt() -> dict[str, Any]:
    """What transformers and peft say of every catalog row and every variant."""
    done = subprocess.run(
        [sys.executable, str(REBUILD)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout))
