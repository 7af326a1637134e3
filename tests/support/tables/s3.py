"""A real S3 server on this machine, which clients find through the environment."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pyarrow.fs as pafs

MISSING = (
    None if importlib.util.find_spec("ministack") else "S3: the package ministack is not there"
)
KEY = "test"


@contextlib.contextmanager
def server(folder: os.PathLike[str]) -> Iterator[str]:
    """Run a server while the block runs, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "GATEWAY_PORT": str(port), "SERVICES": "s3", "HOME": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ministack"],
        env=env,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)


def environment(address: str) -> dict[str, str]:
    """Return the environment variables by which clients find the server."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }


def client(address: str) -> pafs.S3FileSystem:
    """Return a pyarrow client of the server."""
    return pafs.S3FileSystem(
        access_key=KEY,
        secret_key=KEY,
        region="us-east-1",
        endpoint_override=address,
        allow_bucket_creation=True,
    )
