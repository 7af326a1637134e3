"""A server of Unity Catalog's open API, which describes tables that a test gives it.

Source: Unity Catalog's `api/all.yaml`, `GET /tables/{full_name}` and `temporary-table-credentials`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

API = "/api/2.1/unity-catalog"
TOKEN = "dapi-secret-of-mine"


@dataclass
class Unity:
    """A server's answers, which a test may change, and the requests that it got.

    Attributes:
        tables: Name -> the answer that describes a table.
        credentials: The answer to requests for a table's credentials.
        faults: Statuses that answer the next requests instead.
        said: The message of these faults.
        asked: Method, path and body of each request.
    """

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    said: str = "a fault"
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    address: str = ""

    def add(self, name: str, location: str, **more: Any) -> str:
        """Add a Delta table, and return its URI."""
        self.tables[name] = {
            "name": name.rpartition(".")[2],
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [],
            "storage_location": location,
            "table_id": f"id of {name}",
            **more,
        }
        return f"uc://{name}"

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the body of the answer to a request."""
        kind, _, name = path.removeprefix(f"{API}/").partition("/")
        if (method, kind) == ("GET", "tables") and unquote(name) in self.tables:
            return 200, self.tables[unquote(name)]
        ids = [table["table_id"] for table in self.tables.values()]
        wanted = (body or {}).get("table_id")
        if (method, kind) == ("POST", "temporary-table-credentials") and wanted in ids:
            return 200, self.credentials
        return 404, {"error_code": "TABLE_NOT_FOUND", "message": f"Table not found: {name}"}


@contextmanager
def serving() -> Iterator[Unity]:
    """Run a server while the block runs; requests must carry `TOKEN`."""
    unity = Unity()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            unity.asked.append((self.command, self.path, body))
            status, answer = unity.answer(self.command, self.path, body)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, answer = 401, {"error_code": "UNAUTHENTICATED", "message": "no such token"}
            if unity.faults:
                status, answer = unity.faults.pop(0), {"message": unity.said}
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{unity.address}/elsewhere")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        unity.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield unity
        finally:
            server.shutdown()
