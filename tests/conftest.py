"""What holds for every test: how tests share out over processes, and what collecting costs."""

from __future__ import annotations

import gc
import os

# Two processes share two cores; torch, BLAS and the tests' own processes would each start as many
# threads as there are cores, and threads that spin take the other process's core from it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")  # no test looks at the wall clock


@pytest.fixture(scope="module", autouse=True)
def _known_objects_are_not_searched() -> Iterator[None]:
    """Set aside, a module at a time, what lives anyway: modules, tests, caches.

    A collection walks every object it may free. Streamlit collects after each script and the
    benchmark after each part: half a second among the objects of torch and 6,000 tests.
    """
    gc.collect()
    gc.freeze()
    yield
