"""A real S3 server on this machine, which clients find through the environment."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow.fs as pafs

from tests.support.ports import free_port

MISSING = (
    None if importlib.util.find_spec("ministack") else "S3: the package ministack is not there"
)
KEY = "test"


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


# HTTP status -> the body that S3 sends with it.
FAULTS = {
    403: _error("AccessDenied"),
    404: _error("NoSuchKey"),
    500: _error("InternalError"),
    503: _error("SlowDown"),
}


# The connection ends before an answer, or in the middle of its body.
DROPPED, CUT = "dropped", "cut"
Fault = int | str | None


def no_fault(method: str, path: str, times: int) -> Fault:
    """Return None: the server itself answers every request."""
    return None


class _Counting(http.server.BaseHTTPRequestHandler):
    """Forwards read requests to a server, records them, and answers some with a fault."""

    protocol_version = "HTTP/1.1"
    target: str
    seen: list[str]
    fault: Callable[[str, str, int], Fault]

    def do_GET(self) -> None:
        asked = f"{self.command} {self.path}"
        self.seen.append(asked)
        status = type(self).fault(self.command, self.path, self.seen.count(asked))
        if status == DROPPED:
            self.close_connection = True
            return
        if isinstance(status, int):
            body = FAULTS[status]
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
            return
        onward = http.client.HTTPConnection(self.target)
        onward.request(self.command, self.path, headers=dict(self.headers.items()))
        answer = onward.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(body)))
        self.end_headers()
        if status == CUT:
            self.close_connection, body = True, body[: len(body) // 2]
        self.wfile.write(body)
        onward.close()

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def counted(
    address: str, fault: Callable[[str, str, int], Fault] = no_fault
) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server that forwards read requests, and its list of them.

    Args:
        address: The server that has the data.
        fault: Takes a request's method and path, and how often it was made; returns the HTTP status
            that answers it, `DROPPED`, `CUT`, or None to pass it on.
    """
    own = {"target": address.split("//")[1], "seen": [], "fault": staticmethod(fault)}
    handler = type("Counting", (_Counting,), own)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as between:
        threading.Thread(target=between.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{between.server_port}", handler.seen
        finally:
            between.shutdown()


@contextlib.contextmanager
def server(folder: os.PathLike[str], services: str = "s3") -> Iterator[str]:
    """Run a server of these AWS services while the block runs, and yield its address."""
    port = free_port()
    env = {**os.environ, "GATEWAY_PORT": str(port), "SERVICES": services, "HOME": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ministack"],
        env=env,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a process listens at a port.

    Raises:
        OSError: it has ended, or does not listen within a minute.
    """
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


def glue(address: str) -> dict[str, str]:
    """Return the properties of pyiceberg's catalog of the server's Glue."""
    return {
        "type": "glue",
        "glue.endpoint": address,
        "glue.region": "us-east-1",
        "glue.access-key-id": KEY,
        "glue.secret-access-key": KEY,
        "s3.endpoint": address,
        "s3.region": "us-east-1",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": KEY,
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
