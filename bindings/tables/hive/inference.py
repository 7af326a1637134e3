"""Choose the folders whose texts give partition columns their types: those that hold files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from skipstone.bindings.tables.hive.tree import Folder, Tree
from skipstone.bindings.tables.partitions import type_of


def typing_folders(tree: Tree, folders: Sequence[Folder], columns: Collection[str]) -> list[Folder]:
    """Return folders that give columns the types that all folders with files give them.

    If the texts of a column have several types, folders of each type are listed until one holds a
    file. Folders of a type that has none are dropped from the tree: their texts may have no value
    of the column's type. If the texts have one type, no folder is listed.

    Args:
        tree: The tree.
        folders: All innermost folders.
        columns: The columns whose types are inferred.

    Source: Spark, `PartitioningAwareFileIndex.inferPartitioning`.
    """
    found, empty = list[Folder](), set[str]()
    for column in columns:
        kinds: dict[pa.DataType | None, list[Folder]] = {}
        for folder in folders:
            text = folder[1][column]
            kinds.setdefault(None if text is None else type_of(text), []).append(folder)
        for same in kinds.values() if len(kinds) > 1 else ():
            first = next((folder for folder in same if len(tree.files([folder]))), None)
            if first is not None:
                found.append(first)
            else:
                empty.update(path for path, _ in same)
    if not found:
        return list(folders)
    for path in empty:
        tree.drop(path)
    return found
