"""A framework's own examples, imported: a section of docs/examples.md.

``python -m accuracy.scripts FRAMEWORK REPOSITORY COMMIT FOLDER…``, with a git directory, reads
every script, program and configuration of these folders as the import page would, each in a process
of its own, and counts what became of its settings. Prints what is not understood, by name; of other
people's texts nothing is kept but paths and counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from accuracy.scripts.counted import Counted, counted, held, peak_mib, together
from accuracy.scripts.repository import CONFIGURATIONS, committed, runs
from planner.importer.imported import imported

DOCUMENT = Path(__file__).parents[2] / "docs" / "examples.md"


def main() -> None:
    """Count, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework")
    parser.add_argument("repository", type=Path)
    parser.add_argument("commit")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--without", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--url", required=True, help="where the repository is, for the table")
    arguments = parser.parse_args()
    files = committed(arguments.repository, arguments.commit, arguments.folders)
    skipped = tuple(f"{one.rstrip('/')}/" for one in arguments.without)
    files = {path: text for path, text in files.items() if not path.startswith(skipped)}
    results = dict(_counted(files))
    print("\n".join(_named(results)))
    text = "\n".join(_section(arguments, results))
    before = DOCUMENT.read_text("utf-8")
    section = re.compile(rf"^## {arguments.framework}\n.*?(?=^## |\Z)", re.M | re.S)
    kept = section.sub("", before).rstrip()
    DOCUMENT.write_text(f"{kept}\n\n{text}\n", "utf-8")


def _counted(files: Mapping[str, str]) -> Iterator[tuple[str, Counted]]:
    """Of each file; a configuration that a script names is counted with that script alone."""
    described = {path: [*runs(path, files)] for path in sorted(files)}
    configured = {path for path in files if path.endswith(CONFIGURATIONS)}
    named = {path for texts in described.values() for one in texts for path in one.beside}
    imported({"first.sh": "python a.py"})  # what is loaded once is no file's
    context = multiprocessing.get_context("fork")
    counts: dict[str, Counted] = {}
    with context.Pool(1, maxtasksperchild=1) as pool:
        for path, found in described.items():
            if path not in named & configured:
                counts[path] = together(pool.map(counted, [one.texts for one in found], 1))
    for path, one in counts.items():
        held(one, [each.texts for each in described[path]])
        yield path, one


def _named(results: Mapping[str, Counted]) -> Iterator[str]:
    """Names of what is not understood, or has no field, by how many files have it."""
    planned = {path: one for path, one in results.items() if one.kind == "planned"}
    for title in ("unknown", "beyond", "wrong", "problems"):
        counts = Counter(name for one in planned.values() for name in set(getattr(one, title)))
        yield from (f"{count:4} {title}: {name}" for name, count in counts.most_common())
    for path, one in results.items():
        if one.kind != "planned" or (one.whole and one.plans < one.runs):
            yield f"{one.kind}: {path} ({one.program}) {' '.join(one.notes)[:150]}"
    yield "\n".join(_totals(results.values()))


def _totals(results: Iterable[Counted]) -> Iterator[str]:
    results = [*results]
    planned = [one for one in results if one.kind == "planned"]
    whole = [one for one in planned if one.whole]
    others = [one for one in planned if not one.whole]
    understood, asked = sum(one.understood for one in planned), sum(one.open for one in planned)
    unknown = sum(len(one.unknown) for one in planned)
    beyond = sum(len(one.beyond) for one in planned)
    wrong = sum(len(one.wrong) for one in planned)
    settings = sum(one.settings for one in planned)
    slowest = max(results, key=lambda one: one.seconds)
    largest = max(results, key=lambda one: one.peak_bytes)
    kinds = Counter(one.kind for one in results)
    yield f"| files | {len(results)} |"
    yield f"| that start a trainer which is planned | {len(planned)} |"
    yield f"| that start one which is not: read, listed, no verdict | {kinds['not planned']} |"
    yield f"| that are a part of a run (accelerate's, DeepSpeed's) | {kinds['beside']} |"
    yield f"| that start nothing | {kinds['nothing']} |"
    yield f"| commands of the planned ones | {sum(one.runs for one in planned)} |"
    yield f"| their settings that matter to memory or time, or may | {settings:,} |"
    yield f"| … understood | {_share(understood, settings)} |"
    yield f"| … open: the text has no value, and it is asked for | {_share(asked, settings)} |"
    yield f"| … without a field, each named with the way it moves | {_share(beyond, settings)} |"
    yield f"| … unknown | {_share(unknown, settings)} |"
    yield (
        "| understood, of those that have a field and a value in the text | "
        f"{_share(understood - wrong, understood + unknown)} |"
    )
    checked = sum(one.checked for one in planned)
    yield f"| held against the framework's own parser, and other there | {checked:,}, {wrong} |"
    yield f"| settings without effect besides | {sum(one.no_effect for one in planned):,} |"
    plans, said = _plans(whole)
    yield f"| files whose settings all have fields | {len(whole)} |"
    yield f"| … that give a plan (once a model is said that they leave open) | {plans} ({said}) |"
    known = [one for one in planned if not one.unknown and not one.left_out]
    plans, said = _plans(known)
    yield f"| files whose settings that move memory all have fields | {len(known)} |"
    yield f"| … that give a plan | {plans} ({said}) |"
    plans, said = _plans(others)
    yield f"| files with settings that have none, which they name | {len(others)} |"
    yield f"| … that give an incomplete plan (once a model is said) | {plans} ({said}) |"
    yield f"| slowest file | {slowest.seconds:.2f} s |"
    yield f"| most memory of a process | {peak_mib(largest)} MiB |"


def _plans(results: Iterable[Counted]) -> tuple[int, int]:
    planned = [one for one in results if one.plans == one.runs]
    return len(planned), sum(one.answered > 0 for one in planned)


def _share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.1%})" if of else "0"


def _section(arguments: argparse.Namespace, results: Mapping[str, Counted]) -> Iterator[str]:
    folders = " ".join(f"`{one}`" for one in arguments.folders)
    without = "".join(f" without `{one}`" for one in arguments.without)
    yield f"## {arguments.framework}"
    yield ""
    yield f"{folders}{without} of {arguments.url} at `{arguments.commit}`."
    yield ""
    yield "| | |\n|---|---|"
    yield from _totals(results.values())
    yield ""
    yield (
        "| file | runs | understood | open | no field | unknown | misread | plans |\n"
        "|---|--:|--:|--:|--:|--:|--:|---|"
    )
    for path, one in results.items():
        if one.kind != "planned":
            yield f"| {path} | {one.runs} | | | | {len(one.unknown)} | | {one.kind} |"
            continue
        said = ", model said" if one.answered else ""
        yield (
            f"| {path} | {one.runs} | {one.understood} | {one.open} | {len(one.beyond)} | "
            f"{len(one.unknown)} | {len(one.wrong)} | {one.plans}{said} |"
        )


if __name__ == "__main__":
    main()
