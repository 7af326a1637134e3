"""A real web server on this machine, which serves ranges of the files in a folder."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path


class _Ranges(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    seen: list[tuple[str, str, str | None]]
    refused: dict[str, int]

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].lstrip("/")
        asked = self.headers.get("Range")
        self.seen.append((self.command, name, asked))
        file = self.folder / name
        if name in self.refused or not file.is_file():
            self.send_error(self.refused.get(name, 404))
            return
        data = file.read_bytes()
        start, end = 0, len(data) - 1
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "")
        if found is not None:
            start, end = int(found[1]), min(int(found[2] or end), end)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start + 1))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[start : end + 1])

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[str, list[tuple[str, str, str | None]], dict[str, int]]]:
    """Yield the address of a server, the requests that it has seen, and the names that it refuses.

    A request is (method, name, range). The last is name -> HTTP status, which the caller may fill.
    """
    handler = type("Handler", (_Ranges,), {"folder": folder, "seen": [], "refused": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{running.server_port}", handler.seen, handler.refused
        finally:
            running.shutdown()
