"""Ports for the servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of this machine that nothing uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
