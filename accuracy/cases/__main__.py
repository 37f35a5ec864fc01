"""``python -m accuracy.cases [--draw COMMIT]``: write docs/cases.md.

``--draw`` draws the plans at random anew, with the words of the commit at hand, which it names.
"""

from __future__ import annotations

import sys
from pathlib import Path

from accuracy.cases import draw
from accuracy.cases.report import text

DOCUMENT = Path(__file__).parents[2] / "docs" / "cases.md"

if __name__ == "__main__":
    if "--draw" in sys.argv[1:]:
        draw.write(sys.argv[sys.argv.index("--draw") + 1])
    DOCUMENT.write_text(text(), "utf-8")
    print(f"wrote {DOCUMENT.name}")
