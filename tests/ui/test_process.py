"""What the app's own process must never load: a CUDA context would sit on the card we plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
VISIT = """
import sys
from streamlit.testing.v1 import AppTest

app = AppTest.from_file("app.py", default_timeout=600).run()
for page in ("scaling", "launch", "examples", "formulas"):
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception, app.exception
heavy = {"torch", "transformers", "trl", "verl", "vllm", "huggingface_hub"} & set(sys.modules)
sys.exit(", ".join(heavy) or 0)
"""


def test_no_page_loads_torch_or_a_framework() -> None:
    command = [sys.executable, "-c", VISIT]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
