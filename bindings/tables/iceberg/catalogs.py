"""Open catalogs by pyiceberg, and load Iceberg tables from them. It is imported at first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipstone.ir.errors import BackendMissing, SourceError, clip, describe_error


class NotIceberg(SourceError):
    """A catalog's table is of another format.

    Attributes:
        catalog: The pyiceberg catalog.
    """

    def __init__(self, message: str, catalog: Any) -> None:
        super().__init__(message)
        self.catalog = catalog


def table_in_catalog(name: Any, catalog: Any, options: Mapping[str, str]) -> Any:
    """Return pyiceberg's table of a name in a catalog.

    Args:
        name: The table's name: text with dots, or a tuple of names.
        catalog: A pyiceberg catalog, the name of one, or its properties.
        options: Storage options, in any spelling; they win over the catalog's properties.

    Raises:
        NotIceberg: the table is of another format.
        SourceError: there is no such catalog or table, or the catalog cannot be reached.
        BackendMissing: the catalog needs a package that is not installed.
    """
    from pyiceberg.exceptions import (
        NoSuchIcebergTableError,
        NoSuchNamespaceError,
        NoSuchPropertyException,
        NoSuchTableError,
        NotInstalledError,
    )

    from skipstone.bindings.tables.iceberg.variants import is_unread

    if not isinstance(name, str) and not _is_names(name):
        raise SourceError(
            f"scan_iceberg was given a {type(name).__name__} and a catalog; expected the table's "
            "name in it, such as 'db.events'"
        )
    shown = clip(name if isinstance(name, str) else ".".join(name))
    whose = shown_name(catalog)
    found = None
    try:
        found = open_catalog(catalog, options)
        return found.load_table(name)
    except SourceError:
        raise
    except (NoSuchIcebergTableError, NoSuchPropertyException) as e:
        raise NotIceberg(
            f"{whose}: {shown!r} is not an Iceberg table ({describe_error(e)}); open tables of "
            "other formats by their locations, such as ss.scan('s3://lake/t')",
            found,
        ) from e
    except (NoSuchTableError, NoSuchNamespaceError) as e:
        raise SourceError(
            f"{whose} has no table {shown!r}; expected a name with its namespace, such as db.events"
        ) from e
    except (ImportError, NotInstalledError) as e:
        raise BackendMissing(
            f"{whose} needs a package that is not installed ({describe_error(e)}); see pyiceberg's "
            "extras, such as pip install 'pyiceberg[glue]'"
        ) from e
    except Exception as e:  # errors of SQL drivers, HTTP, Thrift and AWS have no common base
        if is_unread(e):
            raise SourceError(
                f"{whose}: pyiceberg reads no VARIANT columns and no named geometries, and the "
                f"table {shown!r} has one; open the table by its metadata file instead, without "
                "catalog="
            ) from e
        raise SourceError(
            f"{whose} cannot be asked for the table {shown!r} ({describe_error(e)}); check the "
            "name and its configuration (.pyiceberg.yaml or PYICEBERG_CATALOG__... variables)"
        ) from e


def shown_name(catalog: Any) -> str:
    """Return what messages call a catalog."""
    if isinstance(catalog, str):
        return clip(catalog)
    name = getattr(catalog, "name", None)
    return clip(name) if isinstance(name, str) else "the catalog"


def open_catalog(catalog: Any, options: Mapping[str, str]) -> Any:
    """Return a pyiceberg catalog. Its errors are not caught.

    Args:
        catalog, options: As for `table_in_catalog`.

    Raises:
        SourceError: `catalog` is not a catalog, or options are given for one that is already open.
    """
    from pyiceberg.catalog import Catalog, load_catalog

    if isinstance(catalog, str):
        return load_catalog(catalog, **_for_files(options))
    if isinstance(catalog, Mapping):
        properties = {**catalog, **_for_files(options)}
        return load_catalog(properties.pop("name", None), **properties)
    if not isinstance(catalog, Catalog):
        raise SourceError(
            f"catalog= is of the type {type(catalog).__name__}; expected a pyiceberg catalog, its "
            "name or its properties"
        )
    if options:
        raise SourceError(
            "storage_options= cannot change a catalog that is open; give them when you load "
            "it, or pass its name or properties"
        )
    return catalog


def _is_names(name: Any) -> bool:
    return isinstance(name, tuple) and all(isinstance(part, str) for part in name)


def _for_files(options: Mapping[str, str]) -> dict[str, str]:
    """Return storage options by pyiceberg's names; tables of catalogs are usually in S3."""
    if not options:
        return {}
    from skipstone.bindings.storage import for_pyiceberg

    return for_pyiceberg("s3://", options)
