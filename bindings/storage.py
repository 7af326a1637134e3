"""Storage options: credentials and addresses of object stores, in the spellings of other tools.

Spellings are those of object_store (deltalake, Polars), pyiceberg, Hadoop and fsspec. Names are
read without regard to case. Values never appear in messages.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.location import (
    ENDPOINTS,
    KNOWN,
    REFUSED,
    SCHEME_ALIASES,
    options_of,
    path_text,
    scheme_of,
    unreachable,
)
from skipstone.bindings.store_options import (
    ALIKE,
    AZURE,
    GS,
    KEY_FILES,
    NEGATED,
    S3,
    STORES,
    WRITING,
    Option,
    flag,
)
from skipstone.ir.errors import BackendMissing, SourceError, describe_error

PROFILE_FILES: Final = "check ~/.aws/config and ~/.aws/credentials, or give keys instead"


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
    """Return pyarrow's file system if all S3 clients read the given options alike.

    These options are keys, a token, the region, an endpoint, or no signature. Other clients read
    the rest differently, such as roles, addresses with the bucket and times.

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


def gs_with_token(where: Any, options: Mapping[str, str] | None) -> pafs.FileSystem | None:
    """Return pyarrow's file system of Google's storage if options hold an access token.

    deltalake has no option for one.

    Args:
        where, options: As for `filesystem_with`.
    """
    scheme = scheme_of(path_text(where)) or ""
    tokens = {name for o in GS if o.arrow == "access_token" for name in o.names}
    if SCHEME_ALIASES.get(scheme, scheme) != "gs" or not tokens & {
        k.lower() for k in options or ()
    }:
        return None
    return filesystem_with(where, options)


def for_deltalake(where: Any, options: Mapping[str, str] | None) -> dict[str, str]:
    """Return storage options by the names that deltalake reads. Names that we do not know stay."""
    return _renamed(where, options, lambda option: option.delta)


def for_pyiceberg(where: Any, options: Mapping[str, str] | None) -> dict[str, str]:
    """Return storage options by the names that pyiceberg reads. Names that we do not know stay."""
    return _renamed(where, options, lambda option: option.iceberg)


def with_s3_endpoint(where: Any, options: Mapping[str, str]) -> dict[str, str]:
    """Return pyiceberg's options with the S3 server that the environment names.

    pyiceberg itself asks Amazon's servers unless an option names others.
    """
    scheme = scheme_of(path_text(where)) or ""
    endpoint = _first_set(*ENDPOINTS)
    if endpoint is None or STORES.get(SCHEME_ALIASES.get(scheme, scheme)) is not S3:
        return dict(options)
    region = _first_set("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
    return {"s3.endpoint": endpoint, "s3.region": region, **options}


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
                out[name_of(opposite)] = str(not _value(name, flag, value)).lower()
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
            keyword, value = NEGATED[key], not _value(name, flag, text)
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
        raise SourceError(f"storage_options[{name!r}] has a malformed value; {reason}") from None


def _first_set(*names: str) -> str | None:
    """Return the value of the first environment variable that is set and not empty."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def _s3(uri: str, keywords: dict[str, Any]) -> pafs.FileSystem:
    if (profile := keywords.pop("profile", None)) is not None:
        keywords = _of_profile(profile) | keywords
    allow_http, endpoint = keywords.pop("allow_http", False), keywords.get("endpoint_override")
    if endpoint is None and (elsewhere := _first_set(*ENDPOINTS)):
        endpoint = keywords["endpoint_override"] = elsewhere  # Arrow reads it for plain URIs only
    if allow_http and endpoint is not None and "://" not in endpoint:
        keywords["scheme"] = "http"
    in_environment = _first_set("AWS_REGION", "AWS_DEFAULT_REGION") is not None
    if "region" not in keywords and endpoint is None and not in_environment:
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
        raise SourceError(
            f"the AWS profile {name!r} cannot be used ({describe_error(e)}); {PROFILE_FILES}"
        ) from e
    if found is None:
        raise SourceError(f"the AWS profile {name!r} has no credentials; {PROFILE_FILES}")
    keys = found.get_frozen_credentials()
    values = {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "session_token": keys.token,
        "region": region,
    }
    return {k: v for k, v in values.items() if v}
