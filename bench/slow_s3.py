"""An S3 server on this machine that answers each request 10 ms later, as a near store does.

`python -m bench.slow_s3 TARGET PORT DELAY LOG` is the process between clients and the server: it
waits DELAY seconds before each request, writes its method and path as a line to the file LOG, and
passes it on to the port TARGET.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final
from unittest import mock

import pyarrow.fs as pafs

from bench.report.results import CHECKOUT

DELAY: Final = 0.01  # s
BUCKET: Final = "lake"
KEY: Final = "bench"
REGION: Final = "us-east-1"
PIECE: Final = 1 << 18  # bytes
AWS: Final = "2.35.4"
# The modules of Amazon's client that Hadoop's needs; the bundle that it names has 640 MB.
SPARK: Final = {
    "spark.jars.packages": ",".join(
        [
            "org.apache.hadoop:hadoop-aws:{hadoop}",
            *(
                f"software.amazon.awssdk:{name}:{AWS}"
                for name in (
                    "s3",
                    "s3-transfer-manager",
                    "sts",
                    "apache-client",
                    "url-connection-client",
                )
            ),
        ]
    ),
    "spark.jars.excludes": ",".join(
        [
            "software.amazon.awssdk:bundle",
            *(f"org.apache.hadoop:hadoop-{n}" for n in ("client-api", "client-runtime", "common")),
        ]
    ),
    "spark.hadoop.fs.s3a.access.key": KEY,
    "spark.hadoop.fs.s3a.secret.key": KEY,
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
    "spark.hadoop.fs.s3a.endpoint.region": REGION,
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    ),
}


def spark_settings(address: str, hadoop: str) -> dict[str, str]:
    """Return the settings by which a session reads `s3a://lake/...` from the server.

    Args:
        address: The server's.
        hadoop: The version of Hadoop that Spark brings.
    """
    named = {key: value.format(hadoop=hadoop) for key, value in SPARK.items()}
    return {**named, "spark.hadoop.fs.s3a.endpoint": address}


@contextlib.contextmanager
def slow_store(folder: Path, tables: Sequence[Path], log: Path = Path(os.devnull)) -> Iterator[str]:
    """Run the server with some folders of files in its bucket, and yield its address.

    Clients of this process find it through the environment.

    Args:
        folder: Where the server may write.
        tables: Folders; their files are copied under the folder's name.
        log: The file that gets a line for each request: its method and path.
    """
    port = _free_port()
    env = {**os.environ, "GATEWAY_PORT": str(port), "SERVICES": "s3", "HOME": str(folder)}
    with _running([sys.executable, "-m", "ministack"], env, folder):
        _wait(port)
        _upload(f"http://127.0.0.1:{port}", tables)
        between = _free_port()
        values = (port, between, DELAY, log)
        command = [sys.executable, "-m", "bench.slow_s3", *map(str, values)]
        address = f"http://127.0.0.1:{between}"
        found = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }
        with _running(command, dict(os.environ), CHECKOUT), mock.patch.dict(os.environ, found):
            _wait(between)
            yield address


@contextlib.contextmanager
def _running(command: list[str], env: dict[str, str], folder: Path) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=env, cwd=folder, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), 1).close()
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at port {port}")


def _upload(address: str, tables: Sequence[Path]) -> None:
    store = pafs.S3FileSystem(
        access_key=KEY,
        secret_key=KEY,
        region=REGION,
        endpoint_override=address,
        allow_bucket_creation=True,
    )
    store.create_dir(BUCKET)
    for table in tables:
        pafs.copy_files(str(table), f"{BUCKET}/{table.name}", destination_filesystem=store)


async def _head(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes]] | None:
    """Read the lines before a body; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.split(b"\r\n")[1:]
    fields = (line.partition(b":") for line in lines if line)
    return head, {name.strip().lower(): value.strip() for name, _, value in fields}


def _without_expectation(head: bytes) -> bytes:
    """Return the lines before a body without `Expect: 100-continue`, which is answered here."""
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.lower().startswith(b"expect:"))


async def _body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fields: dict[bytes, bytes]
) -> None:
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        while True:
            line = await reader.readline()
            size = int(line.split(b";")[0], 16)
            writer.write(line + await reader.readexactly(size + 2))
            await writer.drain()
            if not size:
                return
    left = int(fields.get(b"content-length", b"0"))
    while left:
        piece = await reader.read(min(left, PIECE))
        if not piece:
            raise ConnectionError("the body ended early")
        left -= len(piece)
        writer.write(piece)
        await writer.drain()


async def _pass_on(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: int,
    delay: float,
    log: IO[bytes],
) -> None:
    onward, out = await asyncio.open_connection("127.0.0.1", target, limit=PIECE)
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while (request := await _head(reader)) is not None:
            log.write(request[0].split(b" HTTP/")[0] + b"\n")
            await asyncio.sleep(delay)
            if b"expect" in request[1]:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            out.write(_without_expectation(request[0]))
            await _body(reader, out, request[1])
            await out.drain()
            answer = await _head(onward)
            if answer is None:
                break
            writer.write(answer[0])
            status = answer[0].split(b" ", 2)[1]
            if not request[0].startswith(b"HEAD ") and status not in (b"204", b"304"):
                await _body(onward, writer, answer[1])
            await writer.drain()
    for each in (writer, out):
        each.close()


async def _serve(target: int, port: int, delay: float, log: IO[bytes]) -> None:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pass_on(reader, writer, target, delay, log)

    server = await asyncio.start_server(one, "127.0.0.1", port, limit=PIECE)
    await server.serve_forever()


if __name__ == "__main__":
    with open(sys.argv[4], "ab", buffering=0) as lines:
        asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), lines))
