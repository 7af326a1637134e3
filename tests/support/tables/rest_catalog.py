"""A server of Iceberg's REST catalog protocol, which loads the tables of another catalog.

Source: Iceberg's `rest-catalog-open-api.yaml`, `GET /v1/config` and `loadTable`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.exceptions import NoSuchTableError

UNIT = "\x1f"  # between the parts of a namespace


@contextmanager
def serving(
    catalog: Any, token: str | None = None, config: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Serve a catalog's tables.

    Args:
        catalog: The catalog that has them.
        token: The token that a request must carry; None if it needs none.
        config: The configuration that the server returns for each table, such as credentials for
            its files.

    Yields:
        The server's address, and the requested paths.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            asked.append(path)
            if token is not None and self.headers.get("Authorization") != f"Bearer {token}":
                self.answer(401, failed(401, "NotAuthorizedException", "the token is unknown"))
                return
            match [unquote(part) for part in path.strip("/").split("/")]:
                case ["v1", "config"]:
                    self.answer(200, {"defaults": {}, "overrides": {}})
                case ["v1", "namespaces", space, "tables", name]:
                    try:
                        table = catalog.load_table((*space.split(UNIT), name))
                    except NoSuchTableError as e:
                        self.answer(404, failed(404, "NoSuchTableException", str(e)))
                        return
                    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
                    self.answer(
                        200,
                        {
                            "metadata-location": table.metadata_location,
                            "metadata": metadata,
                            "config": dict(config or {}),
                        },
                    )
                case _:
                    self.answer(404, failed(404, "NotFoundException", path))

        def answer(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def failed(code: int, kind: str, message: str) -> dict[str, Any]:
    """Return the protocol's answer for an error."""
    return {"error": {"message": message, "type": kind, "code": code}}
