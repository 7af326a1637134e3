"""Storage options: credentials and addresses of object stores, in the spellings of other tools.

One table lists each setting of a store: its names in object_store (deltalake, Polars), pyiceberg,
Hadoop and fsspec, and the keyword of pyarrow's file system. Names are read without regard to case.
Values never appear in messages.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.location import (
    KNOWN,
    REFUSED,
    SCHEME_ALIASES,
    options_of,
    path_text,
    scheme_of,
    unreachable,
)
from skipstone.ir.errors import BackendMissing, SourceError, describe_error


@dataclass(frozen=True, slots=True)
class Option:
    """One setting of a store.

    Attributes:
        arrow: The keyword of pyarrow's file system.
        delta: The name that deltalake reads; "" if it has none.
        iceberg: The name that pyiceberg reads; "" if it has none.
        others: More spellings, in lower case.
        parse: Turns the text into the keyword's value.
    """

    arrow: str
    delta: str
    iceberg: str
    others: tuple[str, ...] = ()
    parse: Callable[[str], Any] = str

    @property
    def names(self) -> tuple[str, ...]:
        """All spellings, in lower case."""
        return tuple(n for n in (self.delta.lower(), self.iceberg, *self.others) if n)


def _flag(text: str) -> bool:
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.strip().lower() not in values:
        raise ValueError("expected true or false")
    return values[text.strip().lower()]


def _seconds(text: str) -> float:
    """Parse a number of seconds, or a duration such as "500ms", "30s" or "2m"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m)?\s*", text)
    if found is None:
        raise ValueError("expected seconds, such as 30 or 30s")
    return float(found[1]) * {"ms": 1e-3, "m": 60.0}.get(found[2] or "s", 1.0)


def _query(text: str) -> str:
    """Return a SAS token as pyarrow appends it to addresses."""
    return text if text.startswith("?") else f"?{text}"


S3: Final = (
    Option("access_key", "AWS_ACCESS_KEY_ID", "s3.access-key-id",
           ("access_key_id", "access_key", "key", "client.access-key-id", "fs.s3a.access.key")),
    Option("secret_key", "AWS_SECRET_ACCESS_KEY", "s3.secret-access-key",
           ("secret_access_key", "secret_key", "secret", "client.secret-access-key",
            "fs.s3a.secret.key")),
    Option("session_token", "AWS_SESSION_TOKEN", "s3.session-token",
           ("aws_token", "session_token", "token", "client.session-token",
            "fs.s3a.session.token")),
    Option("region", "AWS_REGION", "s3.region",
           ("aws_default_region", "region", "default_region", "client.region",
            "fs.s3a.endpoint.region")),
    Option("endpoint_override", "AWS_ENDPOINT_URL", "s3.endpoint",
           ("aws_endpoint", "aws_endpoint_url_s3", "endpoint_url", "endpoint",
            "endpoint_override", "fs.s3a.endpoint")),
    Option("allow_http", "AWS_ALLOW_HTTP", "", ("allow_http",), _flag),
    Option("anonymous", "AWS_SKIP_SIGNATURE", "s3.anonymous",
           ("skip_signature", "anonymous", "anon"), _flag),
    Option("force_virtual_addressing", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
           "s3.force-virtual-addressing", ("virtual_hosted_style_request",), _flag),
    Option("role_arn", "AWS_IAM_ROLE_ARN", "s3.role-arn",
           ("aws_role_arn", "role_arn", "client.role-arn", "fs.s3a.assumed.role.arn")),
    Option("session_name", "AWS_IAM_ROLE_SESSION_NAME", "s3.role-session-name",
           ("aws_role_session_name", "session_name", "client.role-session-name",
            "fs.s3a.assumed.role.session.name")),
    Option("request_timeout", "timeout", "s3.request-timeout", (), _seconds),
    Option("connect_timeout", "connect_timeout", "s3.connect-timeout", (), _seconds),
    Option("profile", "", "", ("aws_profile", "profile", "client.profile-name",
                               "s3.profile-name")),
)  # fmt: skip
GS: Final = (
    Option("access_token", "", "gcs.oauth2.token", ("access_token", "token")),
    Option("token_expires_ms", "", "gcs.oauth2.token-expires-at", (), float),
    Option("project_id", "", "gcs.project-id", ("project_id", "google_project_id")),
    Option("endpoint_override", "", "gcs.service.host",
           ("endpoint_override", "endpoint_url", "endpoint")),
    Option("anonymous", "GOOGLE_SKIP_SIGNATURE", "", ("skip_signature", "anonymous", "anon"),
           _flag),
)  # fmt: skip
ABFS: Final = (
    Option("account_name", "AZURE_STORAGE_ACCOUNT_NAME", "adls.account-name",
           ("account_name", "azure_account_name")),
    Option("account_key", "AZURE_STORAGE_ACCOUNT_KEY", "adls.account-key",
           ("account_key", "access_key", "azure_storage_access_key",
            "azure_storage_master_key")),
    Option("sas_token", "AZURE_STORAGE_SAS_TOKEN", "adls.sas-token",
           ("sas_token", "sas_key", "azure_storage_sas_key"), _query),
    Option("tenant_id", "AZURE_STORAGE_TENANT_ID", "adls.tenant-id",
           ("tenant_id", "azure_tenant_id")),
    Option("client_id", "AZURE_STORAGE_CLIENT_ID", "adls.client-id",
           ("client_id", "azure_client_id")),
    Option("client_secret", "AZURE_STORAGE_CLIENT_SECRET", "adls.client-secret",
           ("client_secret", "azure_client_secret")),
)  # fmt: skip
STORES: Final[Mapping[str, tuple[Option, ...]]] = {"s3": S3, "gs": GS, "abfs": ABFS, "abfss": ABFS}
# Options of writers, which mean nothing to a reader.
WRITING: Final = frozenset(
    {
        "aws_s3_allow_unsafe_rename",
        "aws_s3_locking_provider",
        "aws_conditional_put",
        "aws_copy_if_not_exists",
        "delta_dynamo_table_name",
    }
)
AZURE: Final = ".core.windows.net"  # behind the account and the kind of service
# Options that say the opposite of one of the table's: name -> the keyword.
NEGATED: Final = {
    "fs.s3a.path.style.access": "force_virtual_addressing",
    "fs.s3a.connection.ssl.enabled": "allow_http",
}
# What all clients of S3 read alike, by pyarrow's keywords.
ALIKE: Final = frozenset(
    {
        "access_key",
        "secret_key",
        "session_token",
        "region",
        "endpoint_override",
        "allow_http",
        "anonymous",
    }
)
KEY_FILES: Final = frozenset(
    {
        "google_application_credentials",
        "google_service_account",
        "google_service_account_path",
        "google_service_account_key",
        "service_account",
    }
)


def filesystem_with(where: Any, options: Mapping[str, str] | None) -> pafs.FileSystem | None:
    """Return the file system that storage options describe; None if there are none to use.

    Args:
        where: A path or URI, or a list of them; the first one says which store it is. Options are
            not used for local paths.
        options: Strings by name, as `scan_parquet` takes them.

    Raises:
        SourceError: an option is unknown or malformed, two options say different things, or the
            store cannot be reached.
        BackendMissing: a profile is named, and botocore is not installed.

    Example:
        >>> fs = filesystem_with("s3://bucket/t", {"AWS_REGION": "eu-west-1", "anon": "true"})
        >>> fs.region
        'eu-west-1'
    """
    given = options_of(options)
    if not given:
        return None
    if not isinstance(where, str | bytes | os.PathLike):
        where = next(iter(where), "")
    text = path_text(where)
    scheme = scheme_of(text)
    if scheme in (None, "file") or scheme not in KNOWN:  # only deltalake reaches the others
        return None
    store = SCHEME_ALIASES.get(scheme or "", scheme or "")
    if store not in STORES:
        raise SourceError(
            f"storage_options are not known for {scheme}; expected a URI of "
            f"{', '.join(STORES)}, or pass filesystem="
        )
    if "?" in text:
        raise SourceError(
            f"the URI of {scheme} has options of its own; give all of them as storage_options="
        )
    keywords = _keywords(store, given)
    make = {"s3": _s3, "gs": _gs}.get(store, _abfs)
    try:
        return make(text, keywords)
    except REFUSED as e:
        raise unreachable(text, e) from e
    except TypeError as e:  # a keyword that an older pyarrow lacks
        raise SourceError(
            f"this version of pyarrow cannot use the storage options ({describe_error(e)}); "
            "upgrade pyarrow, or pass filesystem="
        ) from e


def plain_s3(where: Any, options: Mapping[str, str] | None) -> pafs.FileSystem | None:
    """Return pyarrow's file system if options say only what all clients of S3 read alike.

    These are keys, a token, the region, an endpoint, or no signature. Other clients read the rest
    in ways of their own, such as roles, addresses with the bucket and times.

    Args:
        where, options: As for `filesystem_with`.
    """
    scheme = scheme_of(path_text(where)) or ""
    alike = {*WRITING, *(name for o in S3 if o.arrow in ALIKE for name in o.names)}
    if SCHEME_ALIASES.get(scheme, scheme) != "s3" or not all(
        name.lower() in alike for name in options_of(options)
    ):
        return None
    try:
        return filesystem_with(where, options)
    except SourceError:  # such as a key without its secret, which the environment may have
        return None


def for_deltalake(where: Any, options: Mapping[str, str] | None) -> dict[str, str]:
    """Return storage options by the names that deltalake reads. Names that we do not know stay."""
    return _renamed(where, options, lambda option: option.delta)


def for_pyiceberg(where: Any, options: Mapping[str, str] | None) -> dict[str, str]:
    """Return storage options by the names that pyiceberg reads. Names that we do not know stay."""
    return _renamed(where, options, lambda option: option.iceberg)


def _renamed(
    where: Any, options: Mapping[str, str] | None, name_of: Callable[[Option], str]
) -> dict[str, str]:
    given = options_of(options)
    scheme = scheme_of(path_text(where)) if given else None
    table = STORES.get(SCHEME_ALIASES.get(scheme or "", scheme or ""), ())
    known = {name: option for option in table for name in option.names}
    out: dict[str, str] = {}
    for name, value in given.items():
        option = known.get(name.lower())
        if option is not None and option.arrow == "profile":
            out |= {
                name_of(o): found
                for o in table
                if (found := _of_profile(value).get(o.arrow)) is not None
            }
        elif name.lower() in NEGATED and table is S3:
            opposite = next(o for o in table if o.arrow == NEGATED[name.lower()])
            if name_of(opposite):
                out[name_of(opposite)] = str(not _value(name, _flag, value)).lower()
        else:
            out[(name_of(option) if option else "") or name] = value
    if table is S3 and out.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        out.setdefault("AWS_ALLOW_HTTP", "true")  # the address says so
    return out


def _keywords(store: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the keywords of pyarrow's file system that options set.

    Raises:
        SourceError: an option is unknown, malformed or contradicts another.
    """
    known = {name: option for option in STORES[store] for name in option.names}
    out: dict[str, Any] = {}
    for name, text in given.items():
        key = name.lower()
        if key in WRITING:
            continue
        if store == "gs" and key in KEY_FILES:
            raise SourceError(
                f"storage_options[{name!r}]: pyarrow takes the file of a service account from the "
                "environment variable GOOGLE_APPLICATION_CREDENTIALS; set it, or pass filesystem="
            )
        if store == "s3" and key in NEGATED:
            keyword, value = NEGATED[key], not _value(name, _flag, text)
        elif key in known:
            keyword, value = known[key].arrow, _value(name, known[key].parse, text)
        else:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ", or pass filesystem="
            raise SourceError(f"storage_options[{name!r}] is not a known option of {store}{hint}")
        if keyword in out and out[keyword] != value:
            raise SourceError(
                f"storage_options[{name!r}] and another spelling of it have different values; "
                "give one of them"
            )
        out[keyword] = value
    return out


def _value(name: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as e:
        reason = str(e) if str(e).startswith("expected") else "expected a number"
        raise SourceError(f"storage_options[{name!r}]: {reason}") from None


def _s3(uri: str, keywords: dict[str, Any]) -> pafs.FileSystem:
    if (profile := keywords.pop("profile", None)) is not None:
        keywords = _of_profile(profile) | keywords
    allow_http, endpoint = keywords.pop("allow_http", False), keywords.get("endpoint_override")
    if allow_http and endpoint is not None and "://" not in endpoint:
        keywords["scheme"] = "http"
    in_environment = any(os.environ.get(n) for n in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    elsewhere = any(os.environ.get(n) for n in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"))
    if "region" not in keywords and endpoint is None and not in_environment and not elsewhere:
        keywords["region"] = pafs.resolve_s3_region(uri.split("://", 1)[1].split("/")[0])
    return pafs.S3FileSystem(**keywords)


def _gs(uri: str, keywords: dict[str, Any]) -> pafs.FileSystem:
    expires = keywords.pop("token_expires_ms", None)
    if "access_token" in keywords:  # Google's tokens live for an hour, unless one says when it ends
        now = datetime.datetime.now(datetime.UTC)
        keywords["credential_token_expiration"] = (
            now + datetime.timedelta(hours=1)
            if expires is None
            else datetime.datetime.fromtimestamp(expires / 1e3, datetime.UTC)
        )
    return pafs.GcsFileSystem(**keywords)


def _abfs(uri: str, keywords: dict[str, Any]) -> pafs.FileSystem:
    host = re.match(r"abfss?://[^@/]+@([^./]+)\.(?:(?:dfs|blob)(\.[^/:]+))?", uri, re.IGNORECASE)
    given, named = keywords.get("account_name"), host and host[1]
    if given and named and given.lower() != named.lower():
        raise SourceError(
            f"the URI names the account {named!r}, and storage_options {given!r}; give one of them"
        )
    if not given and not named:
        raise SourceError(
            "the account of the storage is unknown; expected "
            "abfss://container@account.dfs.core.windows.net/path, or the option account_name"
        )
    if host and host[2] and host[2].lower() != AZURE:  # such as OneLake, and national clouds
        keywords |= {f"{kind}_storage_authority": f".{kind}{host[2]}" for kind in ("dfs", "blob")}
    return pafs.AzureFileSystem(**{**keywords, "account_name": given or named})


def _of_profile(name: str) -> dict[str, str]:
    """Return the keys and the region of a profile in the user's AWS configuration.

    Raises:
        BackendMissing: botocore is not installed.
        SourceError: there is no such profile, or it has no credentials.
    """
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError as e:
        raise BackendMissing(
            "a profile in storage_options needs the package botocore: pip install botocore; "
            "or set the environment variable AWS_PROFILE instead"
        ) from e
    try:
        session = botocore.session.Session(profile=name)
        found = session.get_credentials()
        region = session.get_config_variable("region")
    except botocore.exceptions.BotoCoreError as e:
        raise SourceError(f"the AWS profile {name!r} cannot be used ({describe_error(e)})") from e
    if found is None:
        raise SourceError(f"the AWS profile {name!r} has no credentials")
    keys = found.get_frozen_credentials()
    values = {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "session_token": keys.token,
        "region": region,
    }
    return {k: v for k, v in values.items() if v}
