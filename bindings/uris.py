"""Open the file systems of URIs, or raise an error within seconds if one does not answer."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pyarrow.fs as pafs

from skipstone.bindings.location import ENDPOINTS, HTTP, REFUSED, SCHEME_ALIASES, shown, unreachable
from skipstone.ir.errors import SourceError


def filesystem_at(text: str, scheme: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system and path of a URI.

    Raises:
        SourceError: the file system is unknown or cannot be reached.
    """
    name = SCHEME_ALIASES.get(scheme, scheme)
    if name in HTTP:
        from skipstone.bindings.web import web_files

        return web_files(name), text
    if name == "file":
        return _local_files(text)
    uri = f"{name}{text[len(scheme) :]}"
    options = parse_qs(urlsplit(uri).query)
    try:
        if name == "s3":
            _check_s3_host(options)
        fs, path = pafs.FileSystem.from_uri(uri)
        if name == "gs" and "retry_limit_seconds" not in options:
            _check_gs(uri, path)
    except REFUSED as e:
        raise unreachable(text, e) from e
    return fs, path.rstrip("/") or "/"


def _local_files(text: str) -> tuple[pafs.FileSystem, str]:
    """Return the local file system and the path of a file URI.

    PyIceberg and other writers do not escape paths in URIs. A path that is malformed as a URI is
    therefore taken as it is, and so is one that exists only as it is.

    Raises:
        SourceError: the URI names another host, or `?` or `#` would end the path, so that another
            folder would be read.
    """
    rest = text.partition(":")[2]
    if cut := re.search(r"[?#]", rest):
        safe = "/%*[]" if re.fullmatch(r"([^%]|%[0-9A-Fa-f]{2})*", rest) else "/*[]"
        spelled = shown(f"file:{quote(rest, safe=safe)}")
        raise SourceError(
            f"{shown(text)}: in a file URI, {cut[0]!r} ends the path; write {spelled}, or the path "
            "without file://"
        )
    local = pafs.LocalFileSystem()
    plain = rest.removeprefix("//")
    if not plain.startswith("/"):
        raise SourceError(
            f"{shown(text)}: a file URI holds an absolute path of this machine; expected "
            "file:///folder/table, or the path without file://"
        )
    try:
        found = local.from_uri(text)[1]
    except REFUSED:
        found = plain
    other = plain if plain != found else unquote(plain)
    if other != found and not os.path.exists(found) and os.path.exists(other):
        found = other
    return local, found.rstrip("/") or "/"


def _check_s3_host(options: Mapping[str, Sequence[str]]) -> None:
    """Raise OSError if S3's host name cannot be resolved; pyarrow would try for 6 s first."""
    # Without a region in the URI, pyarrow asks us-east-1 for the bucket's region.
    region = options.get("region", ["us-east-1"])[0]
    own_endpoint = "endpoint_override" in options or any(name in os.environ for name in ENDPOINTS)
    if own_endpoint or region.startswith("cn-") or "iso" in region:  # other host names
        return
    host = f"s3.{region}.amazonaws.com"
    try:
        socket.getaddrinfo(host, 443)
    except OSError as e:
        raise OSError(f"the name {host} cannot be resolved: {e.strerror}") from e


def _check_gs(uri: str, path: str) -> None:
    """Raise OSError soon if Google's storage does not answer; pyarrow retries for 15 minutes."""
    sign = "&" if urlsplit(uri).query else "?"
    quick, _ = pafs.FileSystem.from_uri(f"{uri}{sign}retry_limit_seconds=1")
    try:
        quick.get_file_info(path)
    except OSError as e:
        if "UNAVAILABLE" in str(e) or "Retry policy" in str(e):
            raise
