"""Where the team's Ray cluster is: a setting of the machine's owner, strictly read. No Ray.

The address is that of the cluster's dashboard, whose port serves the Jobs API. It stands in
requests, results and on the page, so it holds no password: Ray takes a token by its own settings
(``RAY_AUTH_MODE=token`` and ``RAY_AUTH_TOKEN`` or ``RAY_AUTH_TOKEN_PATH``).
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

SETTING = "HEADROOM_RAY_ADDRESS"
"""Environment variable with the cluster's address. No link and no field of a page sets it."""
HOST = re.compile(r"[a-z0-9]([a-z0-9.\-]{0,251}[a-z0-9])?|[0-9a-f:.]{2,45}")
EXAMPLE = "http://head-node:8265"


def cluster_address(text: str) -> str:
    """The address in one spelling: scheme, host in small letters, port where one is given.

    Raises:
        ValueError: one sentence with the fix, when it is anything else.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise _wrong("it cannot be read") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "ray: the address holds a name or password, which would stand in results; leave it "
            "out, and give a cluster that asks for a token RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
        )
    if parts.scheme not in ("http", "https"):
        raise _wrong("it does not begin with http:// or https://")
    host = (parts.hostname or "").lower()
    if not HOST.fullmatch(host):
        raise _wrong("its host is no name or number of a machine")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _wrong("something follows the port")
    if port is None and parts.scheme == "http":
        raise _wrong("the port is missing; the dashboard's is 8265 unless the owner changed it")
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + ("" if port is None else f":{port}")


def owners_address() -> str:
    """The address that the machine's owner has set; empty without one.

    Raises:
        ValueError: a sentence that names the setting, when it is no address.
    """
    text = os.environ.get(SETTING, "").strip()
    try:
        return cluster_address(text) if text else ""
    except ValueError as error:
        raise ValueError(f"{SETTING}: {str(error).removeprefix('ray: ')}") from None


def host_of(address: str) -> str:
    """Host and port, as a person calls the cluster."""
    return address.partition("://")[2]


def _wrong(what: str) -> ValueError:
    return ValueError(f"ray: this is no address of a Ray cluster, {what}; give it as {EXAMPLE}.")
