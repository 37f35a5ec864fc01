"""Ports of this machine that nobody listens on."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """So many, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def free_port() -> int:
    """One."""
    return free_ports(1)[0]
