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
from collections.abc import Iterator

import pyarrow.fs as pafs

MISSING = (
    None if importlib.util.find_spec("ministack") else "S3: the package ministack is not there"
)
KEY = "test"


class _Counting(http.server.BaseHTTPRequestHandler):
    """Passes requests on to a server, and notes them. It reads: uploads go to the server itself."""

    protocol_version = "HTTP/1.1"
    target: str
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(f"{self.command} {self.path}")
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
        self.wfile.write(body)
        onward.close()

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def counted(address: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server that passes reading requests on, and its list of them."""
    handler = type("Counting", (_Counting,), {"target": address.split("//")[1], "seen": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{between.server_port}", handler.seen
        finally:
            between.shutdown()


@contextlib.contextmanager
def server(folder: os.PathLike[str], services: str = "s3") -> Iterator[str]:
    """Run a server of these AWS services while the block runs, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "GATEWAY_PORT": str(port), "SERVICES": services, "HOME": str(folder)}
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
