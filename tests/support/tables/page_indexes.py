"""Page indexes of real files, changed."""

import struct

from tests.support.tables.footers import (
    BINARY,
    COLUMNS,
    I32,
    I64,
    LIST,
    ROW_GROUPS,
    TRUE,
    _Reader,
    read_footer,
    write_footer,
    write_struct,
)

NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS = 1, 2, 3, 5
OFFSET_INDEX, COLUMN_INDEX = 4, 6  # the fields of a column chunk; their sizes follow
ITEMS = {NULL_PAGES: TRUE, MIN_VALUES: BINARY, MAX_VALUES: BINARY, NULL_COUNTS: I64}


def _chunks(footer):
    return [chunk for group in footer[ROW_GROUPS][1][1] for chunk in group[COLUMNS][1][1]]


def index_span(path, field):
    """Return where the offset indexes or column indexes of a file begin and end."""
    spans = [(c[field][1], c[field][1] + c[field + 1][1]) for c in _chunks(read_footer(path))]
    return min(a for a, _ in spans), max(b for _, b in spans)


def change_column_index(path, edit, column=0):
    """Change the column index of one column in each row group.

    Args:
        path: The file.
        edit: Changes a dictionary of the lists NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS.
        column: The position of the column.
    """
    footer = read_footer(path)
    for group in footer[ROW_GROUPS][1][1]:
        chunk = group[COLUMNS][1][1][column]
        data = path.read_bytes()
        start = chunk[COLUMN_INDEX][1]
        fields = _Reader(data[start : start + chunk[COLUMN_INDEX + 1][1]]).struct()
        lists = {f: list(fields[f][1][1]) for f in ITEMS if f in fields}
        lists[NULL_PAGES] = [v not in (False, b"\x02", 2, b"\0") for v in lists[NULL_PAGES]]
        edit(lists)
        lists[NULL_PAGES] = [b"\x01" if v else b"\x02" for v in lists[NULL_PAGES]]
        new = write_struct({**fields, **{f: (LIST, (ITEMS[f], v)) for f, v in lists.items()}})
        end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        path.write_bytes(data[:end] + new + data[end:])
        chunk[COLUMN_INDEX] = I64, end
        chunk[COLUMN_INDEX + 1] = I32, len(new)
    write_footer(path, footer)
