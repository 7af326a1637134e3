"""A server that answers S3's requests for many small objects, which it need not hold."""

from __future__ import annotations

import bisect
import contextlib
import http.server
import threading
import urllib.parse
from collections.abc import Iterator, Sequence

LARGEST_PAGE = 1000  # keys, as in S3


class _Objects(http.server.BaseHTTPRequestHandler):
    """Lists keys by pages and returns the same bytes for each of them."""

    protocol_version = "HTTP/1.1"
    keys: Sequence[str]
    content: bytes
    seen: list[str]

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        self.seen.append(f"{self.command} {self.path}")
        query = dict(urllib.parse.parse_qsl(url.query))
        _, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        if "list-type" in query:
            self._send(200, self._page(query), "application/xml")
        elif key and self.keys[bisect.bisect_left(self.keys, key) % len(self.keys)] == key:
            self._send_object()
        else:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", "application/xml")

    do_HEAD = do_GET

    def _page(self, query: dict[str, str]) -> bytes:
        """Return a page of ListObjectsV2."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        most = min(int(query.get("max-keys", LARGEST_PAGE)), LARGEST_PAGE)
        at = bisect.bisect_left(self.keys, query.get("continuation-token", prefix))
        parts: list[str] = []
        while at < len(self.keys) and len(parts) < most and self.keys[at].startswith(prefix):
            key = self.keys[at]
            folder, found, _ = key[len(prefix) :].partition(delimiter or "\0")
            if found:
                below = prefix + folder + found
                parts.append(f"<CommonPrefixes><Prefix>{below}</Prefix></CommonPrefixes>")
                at = bisect.bisect_left(self.keys, below + "\U0010ffff")
                continue
            parts.append(
                f"<Contents><Key>{key}</Key><Size>{len(self.content)}</Size><ETag>x</ETag>"
                "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            )
            at += 1
        more = at < len(self.keys) and self.keys[at].startswith(prefix)
        token = f"<NextContinuationToken>{self.keys[at]}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><Prefix>{prefix}</Prefix><KeyCount>{len(parts)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(parts)}"
            "</ListBucketResult>"
        ).encode()

    def _send_object(self) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            return self._send(200, self.content, "application/octet-stream")
        first, last = (int(end) for end in wanted.removeprefix("bytes=").split("-"))
        body = self.content[first : last + 1]
        place = f"bytes {first}-{first + len(body) - 1}/{len(self.content)}"
        return self._send(206, body, "application/octet-stream", {"Content-Range": place})

    def _send(
        self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        named = {"Content-Type": kind, "Content-Length": str(len(body)), "ETag": '"x"'}
        dated = {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        for name, value in (named | dated | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def objects(keys: Sequence[str], content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server with one bucket, and its list of requests.

    Args:
        keys: The keys, ascending.
        content: The bytes of each object.
    """
    own = {"keys": keys, "content": content, "seen": []}
    handler = type("Objects", (_Objects,), own)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{found.server_port}", handler.seen
        finally:
            found.shutdown()
