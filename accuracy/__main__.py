"""``python -m accuracy``: write docs/accuracy.md and print its summary's first lines."""

from __future__ import annotations

from pathlib import Path

from accuracy.report import compared, percent, text

DOCUMENT = Path(__file__).parents[1] / "docs" / "accuracy.md"

if __name__ == "__main__":
    DOCUMENT.write_text(text(), "utf-8")
    for item in compared():
        print(f"{percent(item.error):>9}  {percent(item.completed_error):>9}  {item.row.id}")
    print(f"wrote {DOCUMENT.name}")
