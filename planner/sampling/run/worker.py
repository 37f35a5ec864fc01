"""The process of some stages: ``python -m planner.sampling.run.worker FOLDER STAGE…``.

Stages run in the order given. Those that embed load torch, those that search load scikit-learn or
FAISS; apart, neither holds what the other needs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from planner.jobs.supervisor import end_with_parent
from planner.sampling.ask.setup import say_predicted
from planner.sampling.ask.store import STAGES_FILE, SamplingFolder
from planner.sampling.ask.supervisor import REFUSED


def main(arguments: list[str]) -> int:
    """Run the stages; what a person can mend is said in one line, with a status of its own."""
    end_with_parent()
    folder = SamplingFolder(Path(arguments[0]))
    try:
        run(folder, arguments[1:])
    except ValueError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return REFUSED
    return 0


def run(folder: SamplingFolder, names: list[str]) -> None:
    """Run stages of a folder in this process."""
    from planner.sampling.run import stages
    from planner.sampling.run.job import Job
    from planner.sampling.run.meter import Meter

    def say(name: str, **more: Any) -> None:
        folder.say(name, **more)
        if name == "calibrated":
            say_predicted(folder)
        if name == "ended":
            with open(folder.path / STAGES_FILE, "a", encoding="utf-8") as file:
                file.write(json.dumps({"at": time.time(), **more}) + "\n")

    job = Job.of(folder.path)
    meter = Meter(say, job.request.device)
    _libraries(job, names)
    held: Any = None
    for name in names:
        if name == "calibrate":
            stages.calibrate(job, meter)
        elif name == "embed":
            keeps = stages.embed(job, meter, say)
            # Online the model stays beside the search, since training goes on with it.
            held = keeps if job.request.mode == "online" else None
            del keeps
        elif name == "search":
            stages.find_neighbours(job, meter, say, None if held is None else held[1])
        elif name == "ray":
            _on_ray(job, meter, say)
        elif name == "weigh":
            stages.weigh(job, meter)
        else:
            raise SystemExit(f"no stage {name}")


def _on_ray(job: Any, meter: Any, say: Any) -> None:
    from planner.sampling.run import ray_data

    with ray_data.cluster(job.request.ray) as cpus:
        ray_data.embed(job, meter, say, cpus)
        ray_data.find_neighbours(job, meter, say, cpus)


def _libraries(job: Any, names: list[str]) -> None:
    """Load what the stages need, and keep what the process holds before it computes."""
    from planner.sampling.run.meter import anonymous_bytes

    embeds = "embed" in names and (job.chunks.missing() or job.request.mode == "online")
    searches = "search" in names or "calibrate" in names
    if embeds:
        from planner.sampling.run.embed import load_libraries

        load_libraries(Path(job.setup.model_folder))
    if searches and job.request.index == "exact":
        import sklearn.neighbors  # noqa: F401
    elif searches:
        import faiss  # noqa: F401
    held = anonymous_bytes()
    if held is not None and embeds:
        job.learn(embed_process_bytes=held)
    # What calibrates alone stands for what will search alone.
    if held is not None and searches and (embeds or job.request.mode != "online"):
        job.learn(search_process_bytes=held)


if __name__ == "__main__":
    # Library threads that spin take the core from whoever works.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(main(sys.argv[1:]))
