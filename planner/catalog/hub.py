"""A model's config.json from the Hugging Face Hub: that one file, quickly, or a clear no.

Goes through huggingface_hub for the address and the HTTP session, so that
``HF_ENDPOINT``, ``HF_HUB_OFFLINE`` and proxies mean what they always mean. No token is
ever sent: whoever types an id into a shared page must not read what its host may read.
Weights are never asked for. The library is imported on first use.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from planner.catalog.config_json import parse_config
from planner.catalog.model_catalog import Model
from planner.catalog.safe_json import MAX_BYTES

TIMEOUT_SECONDS = 5.0
MAX_REDIRECTS = 3
MAX_AT_ONCE = 4
REPO_ID = re.compile(
    r"[A-Za-z0-9](?:\w|[.\-](?![.\-])){0,95}/[A-Za-z0-9](?:\w|[.\-](?![.\-])){0,95}", re.ASCII
)
HEADERS = {"user-agent": "headroom", "accept-encoding": "identity"}
INSTEAD = "paste its config.json instead"

_places = threading.BoundedSemaphore(MAX_AT_ONCE)


def model_from_hub(repo_id: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Model:
    """The model of this Hub id, from its config.json; never takes longer than the timeout.

    Raises:
        ValueError: naming ``model`` when there is no such config or it cannot be had,
            ``config`` when the file is not one we read.
    """
    if not REPO_ID.fullmatch(repo_id):
        raise ValueError(f"model: {repo_id[:80]!r} is not a Hub id such as Qwen/Qwen2.5-7B.")
    text, address = _within(
        timeout_seconds,
        lambda deadline: _download(repo_id, deadline),
        too_slow=f"model: the Hub took over {timeout_seconds:g} s for {repo_id}; {INSTEAD}.",
    )
    day = datetime.now(UTC).date().isoformat()
    return replace(
        parse_config(text),
        id=repo_id,
        name=repo_id.split("/")[1],
        sources=(address,),
        date=day,
        on_hub=True,
    )


def tokenizer_on_this_machine(repo_id: str) -> Path | None:
    """The ``tokenizer.json`` of a Hub id in this machine's cache; nothing is asked of the Hub."""
    if not REPO_ID.fullmatch(repo_id):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo_id, "tokenizer.json")
    return Path(found) if isinstance(found, str) else None


def _within(
    seconds: float, work: Callable[[float], tuple[bytes, str]], *, too_slow: str
) -> tuple[bytes, str]:
    """``work(deadline)`` in a thread, since looking up a host name has no timeout."""
    if not _places.acquire(blocking=False):
        raise ValueError(f"model: too many Hub requests are waiting; {INSTEAD}.")
    done: list[tuple[bytes, str]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work(time.monotonic() + seconds))
        except BaseException as error:
            failed.append(error)
        finally:
            _places.release()

    thread = threading.Thread(target=run, name="hub-config", daemon=True)
    thread.start()
    thread.join(seconds)
    if done:
        return done[0]
    if not failed or isinstance(failed[0], TimeoutError):
        raise ValueError(too_slow)
    raise failed[0]


def _download(repo_id: str, deadline: float) -> tuple[bytes, str]:
    """The file and the address it came from."""
    import httpx2
    from huggingface_hub import constants, get_session, hf_hub_url
    from huggingface_hub.errors import OfflineModeIsEnabled

    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"model: HF_HUB_OFFLINE forbids asking the Hub for {repo_id}; {INSTEAD}.")
    start = hf_hub_url(repo_id, "config.json")
    address = start
    try:
        for _ in range(MAX_REDIRECTS + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            with get_session().stream(
                "GET", address, headers=HEADERS, timeout=left, follow_redirects=False
            ) as response:
                if response.is_redirect:
                    address = _next(start, address, response.headers, repo_id)
                    continue
                _refuse_status(response.status_code, response.headers, repo_id)
                return _body(response.iter_bytes(), deadline, repo_id), start
    except httpx2.TimeoutException:
        raise TimeoutError from None
    except (httpx2.HTTPError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise ValueError(f"model: the Hub cannot be reached for {repo_id}; {INSTEAD}.") from None
    except OfflineModeIsEnabled:
        raise ValueError(f"model: the Hub is switched off here; {INSTEAD}.") from None
    raise ValueError(f"model: the Hub sends {repo_id} in circles; {INSTEAD}.")


def _next(start: str, address: str, headers: Mapping[str, str], repo_id: str) -> str:
    """Where a redirect leads: a renamed repository, on the same host only."""
    target = urljoin(address, headers.get("location", ""))
    if urlsplit(target)[:2] != urlsplit(start)[:2]:
        raise ValueError(f"model: the Hub sends {repo_id} to another host; {INSTEAD}.")
    return target


def _refuse_status(status: int, headers: Mapping[str, str], repo_id: str) -> None:
    code = headers.get("x-error-code", "")
    if status == 200:
        return
    if code == "GatedRepo" or status == 403:
        raise ValueError(f"model: {repo_id} is gated on the Hub; {INSTEAD}.")
    if code == "EntryNotFound":
        raise ValueError(f"model: {repo_id} has no config.json on the Hub; {INSTEAD}.")
    if status in (401, 404):
        raise ValueError(f"model: the Hub shows no public model {repo_id}; check the spelling.")
    raise ValueError(f"model: the Hub answered {status} for {repo_id}; {INSTEAD}.")


def _body(chunks: Any, deadline: float, repo_id: str) -> bytes:
    """At most ``MAX_BYTES``, and not a second after the deadline however slowly they drip."""
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > MAX_BYTES:
            raise ValueError(f"model: the Hub's config.json of {repo_id} is absurdly large.")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(found)
