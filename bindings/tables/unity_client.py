"""Ask a server of Unity Catalog's open API, by HTTP."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from skipstone.bindings.location import shown
from skipstone.ir.errors import SourceError, clip, describe_error

API: Final = "/api/2.1/unity-catalog"
TIMEOUT: Final = 10.0  # seconds that a request may take
PAUSES: Final = (0.5, 2.0)  # seconds before a request is repeated
BUSY: Final = (429, 503)
MAX_ANSWER_BYTES: Final = 16 << 20
# Options, and in capitals environment variables, by delta-rs' and Databricks' names.
HOST: Final = ("databricks_host", "databricks_workspace_url", "unity_workspace_url")
TOKEN: Final = ("databricks_token", "databricks_access_token", "unity_access_token")
PLAIN_HTTP: Final = ("unity_allow_http_url",)
OWN: Final = frozenset([*HOST, *TOKEN, *PLAIN_HTTP])


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, as urllib would send the token along to any host."""

    def redirect_request(self, *args: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class UnityCatalog:
    """A server of the API.

    Attributes:
        url: Its address with the API's path.
        token: The bearer token; None sends none.
        name: The table that is asked for.
    """

    url: str
    token: str | None = field(repr=False)
    name: str

    @staticmethod
    def of(given: Mapping[str, str], name: str) -> UnityCatalog:
        """Return the catalog that options or the environment name."""
        host = _setting(given, HOST)
        if host is None:
            raise SourceError(
                f"uc://{name}: no Unity Catalog is named; set DATABRICKS_HOST and "
                "DATABRICKS_TOKEN, or pass them as storage_options="
            )
        url = (host if "://" in host else f"https://{host}").rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise SourceError(
                f"uc://{name}: {shown(host)} is not the address of a Unity Catalog; expected a URL "
                "such as https://example.cloud.databricks.com"
            )
        allowed = (_setting(given, PLAIN_HTTP) or "").lower() in ("true", "1", "yes")
        if parts.scheme == "http" and not allowed and not _is_this_machine(parts.hostname):
            raise SourceError(
                f"uc://{name}: the token would cross the network unencrypted to {shown(host)}; "
                "use https, or allow it by unity_allow_http_url=true"
            )
        if not url.endswith(API):
            url += API
        token = _setting(given, TOKEN)
        # http.client names a malformed header in its error.
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise SourceError(f"uc://{name}: the token is malformed; check DATABRICKS_TOKEN")
        return UnityCatalog(url, token, name)

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            SourceError: the server does not answer, or answers with an error.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(
            f"{self.url}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        try:
            answer = json.loads(self._answer(request))
        except urllib.error.HTTPError as e:
            raise self._refused(e) from None
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise self._wrong(f"cannot be asked ({describe_error(e)}); check DATABRICKS_HOST and "
                              "the network") from e  # fmt: skip
        if not isinstance(answer, dict):
            raise self._wrong("sent no JSON object; check DATABRICKS_HOST")
        return answer

    def _answer(self, request: urllib.request.Request) -> bytes:
        opener = urllib.request.build_opener(_NoRedirects())
        for pause in (*PAUSES, None):
            try:
                with opener.open(request, timeout=TIMEOUT) as answer:
                    read: bytes = answer.read(MAX_ANSWER_BYTES + 1)
                if len(read) > MAX_ANSWER_BYTES:
                    raise ValueError(f"an answer of more than {MAX_ANSWER_BYTES:,} bytes")
                return read
            except urllib.error.HTTPError as e:
                if pause is None or e.code not in BUSY:
                    raise
                e.close()
                time.sleep(pause)
        raise AssertionError

    def _refused(self, e: urllib.error.HTTPError) -> SourceError:
        try:
            with e:
                message = str(json.loads(e.read(2000))["message"])
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
            message = str(e.reason)
        if self.token is not None:
            message = message.replace(self.token, "...")
        ways = {
            401: "check DATABRICKS_TOKEN",
            403: "check the token's privileges: USE CATALOG, USE SCHEMA, SELECT and EXTERNAL USE "
            "SCHEMA",
            404: "check the table's name and DATABRICKS_HOST",
        }
        return self._wrong(
            f"answered {e.code} ({clip(message)}); {ways.get(e.code, 'try again later')}"
        )

    def _wrong(self, what: str) -> SourceError:
        return SourceError(f"uc://{self.name}: the catalog {what}")


def _setting(given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return an option, else the environment's variable of its name; None if both are blank."""
    found = [given.get(n) for n in names] + [os.environ.get(n.upper()) for n in names]
    return next((text.strip() for text in found if text and text.strip()), None)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
