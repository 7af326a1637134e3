"""The options of object stores: one table lists each setting's names in the tools that have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skipstone.bindings.location import SCHEME_ALIASES, scheme_of


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


def flag(text: str) -> bool:
    """Return the truth value that an option's text names.

    Raises:
        ValueError: it names none.
    """
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.strip().lower() not in values:
        raise ValueError("expected true or false")
    return values[text.strip().lower()]


def seconds(text: str) -> float:
    """Parse a number of seconds, or a duration such as "500ms", "30s" or "2m"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m)?\s*", text)
    if found is None:
        raise ValueError("expected seconds, such as 30 or 30s")
    return float(found[1]) * {"ms": 1e-3, "m": 60.0}.get(found[2] or "s", 1.0)


def sas_query(text: str) -> str:
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
    Option("allow_http", "AWS_ALLOW_HTTP", "", ("allow_http",), flag),
    Option("anonymous", "AWS_SKIP_SIGNATURE", "s3.anonymous",
           ("skip_signature", "anonymous", "anon"), flag),
    Option("force_virtual_addressing", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
           "s3.force-virtual-addressing", ("virtual_hosted_style_request",), flag),
    Option("role_arn", "AWS_IAM_ROLE_ARN", "s3.role-arn",
           ("aws_role_arn", "role_arn", "client.role-arn", "fs.s3a.assumed.role.arn")),
    Option("session_name", "AWS_IAM_ROLE_SESSION_NAME", "s3.role-session-name",
           ("aws_role_session_name", "session_name", "client.role-session-name",
            "fs.s3a.assumed.role.session.name")),
    Option("request_timeout", "timeout", "s3.request-timeout", (), seconds),
    Option("connect_timeout", "connect_timeout", "s3.connect-timeout", (), seconds),
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
           flag),
)  # fmt: skip
ABFS: Final = (
    Option("account_name", "AZURE_STORAGE_ACCOUNT_NAME", "adls.account-name",
           ("account_name", "azure_account_name")),
    Option("account_key", "AZURE_STORAGE_ACCOUNT_KEY", "adls.account-key",
           ("account_key", "access_key", "azure_storage_access_key",
            "azure_storage_master_key")),
    Option("sas_token", "AZURE_STORAGE_SAS_TOKEN", "adls.sas-token",
           ("sas_token", "sas_key", "azure_storage_sas_key"), sas_query),
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


def names_of(uri: str) -> frozenset[str]:
    """Return all spellings of the options of a URI's store, in lower case; none of a local path."""
    scheme = scheme_of(uri) or ""
    table = STORES.get(SCHEME_ALIASES.get(scheme, scheme), ())
    return frozenset(name for option in table for name in option.names)
