"""``python -m accuracy``: write docs/accuracy.md and README.md's table, and print the errors."""

from __future__ import annotations

from pathlib import Path

from accuracy import front_page
from accuracy.report import compared, percent, text

ROOT = Path(__file__).parents[1]
DOCUMENT, README = ROOT / "docs" / "accuracy.md", ROOT / "README.md"

if __name__ == "__main__":
    DOCUMENT.write_text(text(), "utf-8")
    README.write_text(front_page.put_into(README.read_text("utf-8")), "utf-8")
    for item in compared():
        print(f"{percent(item.error):>9}  {percent(item.completed_error):>9}  {item.row.id}")
    print(f"wrote {DOCUMENT.name} and the table of {README.name}")
