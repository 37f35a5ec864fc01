"""Whether a visitor may run trials on the server's machine.

A trial takes a minute of the machine that serves the page, so its owner decides. Without a word
of theirs it is allowed only to somebody who started the app for themselves: a server that listens
on the loopback alone, asked for under a local name, by a page of its own, with no proxy in front.
A proxy that rewrites Host leaves the browser's Origin, and another site's page has its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import streamlit as st

SETTING = "HEADROOM_TRIALS"
"""Environment variable: 1 turns trials on for every visitor, 0 off."""
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
FORWARDED = ("x-forwarded-", "x-real-ip", "forwarded", "via", "cf-connecting-ip", "true-client-ip")
"""Beginnings of the headers that proxies add."""


def permitted() -> bool:
    """Whether this visitor may run trials here, and see those that others ran."""
    return _allowed(os.environ.get(SETTING, "").strip())


def own_machine() -> bool:
    """Whether this visitor started the app for themselves, whatever the setting says."""
    return _allowed("")


def _allowed(said: str) -> bool:
    headers = st.context.headers
    every = {name: headers.get_all(name) for name in headers}
    return allowed(said, st.get_option("server.address"), every)


def allowed(said: str, listens: str | None, headers: Mapping[str, Iterable[str]]) -> bool:
    """Whether trials may run.

    Args:
        said: the owner's setting; empty leaves it to the rest.
        listens: the address that the server listens on; None is every one.
        headers: of the visitor's connection, each with all its values.
    """
    if said:
        return said == "1"
    if listens not in LOCAL:
        return False
    named = {name.lower(): list(values) for name, values in headers.items()}
    if any(name.startswith(FORWARDED) for name in named):
        return False
    hosts = named.get("host", [])
    if len(hosts) != 1 or host_name(hosts[0]) not in LOCAL:
        return False
    # A browser says which page opened the connection: ours, under the very name it was asked for.
    origins = {origin.lower() for origin in named.get("origin", [])}
    return origins <= {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}


def host_name(host: str) -> str:
    """A Host header without its port: ``[::1]:8501`` is ``::1``."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
