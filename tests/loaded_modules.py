"""Which modules a statement loads, when nothing but ``import planner`` ran before it.

Run as a process of its own. It imports the planner once and forks for every statement of
the JSON list on its input, so that none sees what another has loaded. Prints a JSON object:
statement → names of loaded packages, or the traceback of a statement that failed.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import planner  # noqa: F401  # what every statement would load first


def loaded_by(statement: str) -> list[str] | str:
    """What a child of this process has loaded once it has run the statement."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writes, "w") as answer:
            json.dump(_run(statement), answer)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    found: list[str] | str = json.loads(said) if said else "it ended without an answer"
    return found


def _run(statement: str) -> list[str] | str:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the answer alone is printed
    try:
        exec(statement, {"sys": sys})
    except BaseException:
        return traceback.format_exc()
    return sorted({name.partition(".")[0] for name in sys.modules})


if __name__ == "__main__":
    print(json.dumps({each: loaded_by(each) for each in json.load(sys.stdin)}))
