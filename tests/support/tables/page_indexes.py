"""Change the page indexes of real files."""

import struct

import numpy as np
import pyarrow.parquet as pq

from tests.support.tables.footers import (
    BINARY,
    COLUMNS,
    CREATED_BY,
    I32,
    I64,
    LIST,
    META_DATA,
    ROW_GROUPS,
    STRUCT,
    TRUE,
    _Reader,
    _varint,
    read_footer,
    write_footer,
    write_struct,
)
from tests.support.tables.pages import table

NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS = 1, 2, 3, 5
OFFSET_INDEX, COLUMN_INDEX = 4, 6  # the fields of a column chunk; their sizes follow
LOCATIONS, FIRST_ROW = 1, 3  # the fields of an offset index and of a page in it
UNPACKED, PACKED, DATA_PAGE = 6, 7, 9  # the fields of a chunk: its bytes, its first page
ITEMS = {NULL_PAGES: TRUE, MIN_VALUES: BINARY, MAX_VALUES: BINARY, NULL_COUNTS: I64}


def _chunks(footer):
    return [chunk for group in footer[ROW_GROUPS][1][1] for chunk in group[COLUMNS][1][1]]


def index_span(path, field):
    """Return where the offset indexes or column indexes of a file begin and end."""
    spans = [(c[field][1], c[field][1] + c[field + 1][1]) for c in _chunks(read_footer(path))]
    return min(a for a, _ in spans), max(b for _, b in spans)


def damage_offset_indexes(path, random, times):
    """Repeatedly write a file with changed bytes in its offset indexes, and yield."""
    good = path.read_bytes()
    first, stop = index_span(path, OFFSET_INDEX)
    for _ in range(times):
        data = bytearray(good)
        for at in random.integers(first, stop, random.integers(1, 30)):
            data[at] = random.integers(256)
        path.write_bytes(data)
        yield


def change_column_index(path, edit, column=0):
    """Change the column index of one column in each row group.

    Args:
        path: The file.
        edit: Changes a dictionary of the lists NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS.
        column: The position of the column.
    """

    def change(fields):
        lists = {f: list(fields[f][1][1]) for f in ITEMS if f in fields}
        lists[NULL_PAGES] = [v not in (False, b"\x02", 2, b"\0") for v in lists[NULL_PAGES]]
        edit(lists)
        lists[NULL_PAGES] = [b"\x01" if v else b"\x02" for v in lists[NULL_PAGES]]
        return {**fields, **{f: (LIST, (ITEMS[f], v)) for f, v in lists.items()}}

    _replace(path, COLUMN_INDEX, column, change)


def change_offset_index(path, edit, column=0):
    """Change the first rows of the pages that the offset index of one column lists.

    Args:
        path: The file.
        edit: Returns the first rows of pages, given those that are right.
        column: The position of the column.
    """

    def change(fields):
        kind, pages = fields[LOCATIONS][1]
        rows = edit([page[FIRST_ROW][1] for page in pages])
        new = [{**p, FIRST_ROW: (I64, row)} for p, row in zip(pages, rows, strict=True)]
        return {**fields, LOCATIONS: (LIST, (kind, new))}

    _replace(path, OFFSET_INDEX, column, change)


def _replace(path, field, column, change):
    """Rewrite an index of one column in each row group, after the others."""
    footer = read_footer(path)
    for group in footer[ROW_GROUPS][1][1]:
        chunk = group[COLUMNS][1][1][column]
        data = path.read_bytes()
        start = chunk[field][1]
        old = _Reader(data[start : start + chunk[field + 1][1]]).struct()
        new = write_struct(change(old))
        end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        path.write_bytes(data[:end] + new + data[end:])
        chunk[field] = I64, end
        chunk[field + 1] = I32, len(new)
    write_footer(path, footer)


def cut_rows(path, column, n, writer):
    """Write the pages of a list column anew, wherever rows begin, and their indexes.

    Args:
        path: The file, of one row group that is not compressed. No list is empty or NULL, and their
            elements are numbers of 64 bits.
        column: The position of the column.
        n: The elements of a page.
        writer: The program that wrote the file, as the footer is to name it.
    """
    footer = read_footer(path)
    chunk = footer[ROW_GROUPS][1][1][0][COLUMNS][1][1][column]
    lists = pq.read_table(path).column(column).combine_chunks()
    values = lists.flatten().to_numpy()
    begins = np.isin(np.arange(len(values)), lists.offsets.to_numpy())
    data = path.read_bytes()
    end = first = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    out, places, bounds = b"", [], []
    for at in range(0, len(values), n):
        own = values[at : at + n]
        page = _page_of_lists(begins[at : at + n], own)
        row = int(begins[:at].sum())
        places.append({1: (I64, end + len(out)), 2: (I32, len(page)), FIRST_ROW: (I64, row)})
        bounds.append((_number(own.min()), _number(own.max())))
        out += page
    end += len(out)
    nulls = [b"\x02"] * len(places)
    lowest, highest = map(list, zip(*bounds, strict=True))
    index = {
        f: (LIST, (ITEMS[f], v)) for f, v in zip(ITEMS, (nulls, lowest, highest), strict=False)
    }
    for field, fields in (
        (OFFSET_INDEX, {LOCATIONS: (LIST, (STRUCT, places))}),
        (COLUMN_INDEX, {**index, 4: (I32, 1)}),
    ):
        new = write_struct(fields)
        chunk[field], chunk[field + 1] = (I64, first + len(out)), (I32, len(new))
        out += new
    of_chunk = chunk[META_DATA][1]
    of_chunk[DATA_PAGE] = I64, first
    of_chunk[UNPACKED] = of_chunk[PACKED] = I64, end - first
    footer[CREATED_BY] = BINARY, writer.encode()
    path.write_bytes(data[:first] + out + data[first:])
    write_footer(path, footer)


def _page_of_lists(begins, values):
    """Return a page of version 1: which elements begin a list, and the elements, none NULL."""
    groups = -(-len(values) // 8)
    repetition = (
        bytes([*_varint(groups << 1 | 1)])
        + np.packbits(np.pad(~begins, (0, 8 * groups - len(values))), bitorder="little").tobytes()
    )
    definition = _varint(len(values) << 1) + b"\3"
    body = b"".join(struct.pack("<I", len(x)) + x for x in (repetition, definition))
    body += values.astype("<i8").tobytes()
    coding = {1: (I32, len(values)), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
    size = I32, len(body)
    return write_struct({1: (I32, 0), 2: size, 3: size, 5: (STRUCT, coding)}) + body


def index_file(path, seed, **options):
    """Write a file of three row groups with page indexes."""
    pq.write_table(
        table(seed, 2000), path, row_group_size=700, max_rows_per_page=50, write_batch_size=25,
        write_page_index=True, **options,
    )  # fmt: skip
    return str(path)


CONDITIONS_OF_INDEXES = ("k = 250", "i > 20 AND k < 100", "s > 'text 5' OR i IS NULL", None)


def _cut(values):
    return values[:-1]


def _swap(index):
    index[MIN_VALUES], index[MAX_VALUES] = index[MAX_VALUES], index[MIN_VALUES]


def _all_null(index):
    index[NULL_PAGES] = [True] * len(index[NULL_PAGES])


def _set(field, change):
    def edit(index):
        index[field] = change(index[field])

    return edit


def _number(n):
    return int(n).to_bytes(8, "little", signed=True)


# Column indexes that contradict the pages, the footer or themselves.
WRONG_INDEXES = {
    "inverted bounds": _swap,
    "all pages hold only NULLs": _all_null,
    "a page too few": _set(NULL_PAGES, _cut),
    "a minimum too few": _set(MIN_VALUES, _cut),
    "a maximum too few": _set(MAX_VALUES, _cut),
    "minima below the chunk's": _set(MIN_VALUES, lambda v: [_number(-9)] * len(v)),
    "maxima above the chunk's": _set(MAX_VALUES, lambda v: [_number(10**9)] * len(v)),
    "one bound outside of the chunk": lambda index: (
        _set(MIN_VALUES, lambda v: [_number(900), *v[1:]])(index),
        _set(MAX_VALUES, lambda v: [_number(900), *v[1:]])(index),
    ),
    "bounds of too few bytes": _set(MIN_VALUES, lambda v: [b[:3] for b in v]),
    "empty bounds": _set(MAX_VALUES, lambda v: [b""] * len(v)),
    "more NULLs than the chunk has": _set(NULL_COUNTS, lambda v: [50] * len(v)),
    "a negative number of NULLs": _set(NULL_COUNTS, lambda v: [-1] * len(v)),
}


NAN = struct.pack("<d", float("nan"))
WRONG_FLOATS = {
    "minima are NaN": _set(MIN_VALUES, lambda v: [NAN] * len(v)),
    "maxima are NaN": _set(MAX_VALUES, lambda v: [NAN] * len(v)),
    "both are NaN": lambda index: (
        _set(MIN_VALUES, lambda v: [NAN] * len(v))(index),
        _set(MAX_VALUES, lambda v: [NAN] * len(v))(index),
    ),
    "inverted": _swap,
    "all pages hold only NULLs": _all_null,
}

# Where pages begin, if they begin at 0, 50, 100, ...
WRONG_ROWS = {
    "every other page begins too late": lambda r: [v + 40 * (i % 2) for i, v in enumerate(r)],
    "every other page begins too early": lambda r: [v - 40 * (i % 2) for i, v in enumerate(r)],
    "each page has one row but the last": lambda r: list(range(len(r))),
    "pages begin together": lambda r: [0] * len(r),
    "pages begin in falling order": lambda r: r[::-1],
    "pages begin past the end": lambda r: [v * 50 for v in r],
    "pages begin before the start": lambda r: [-v for v in r],
    "all pages after the first begin too late": lambda r: [
        v + 10 * (i > 0) for i, v in enumerate(r)
    ],
    "all pages from one on begin too early": lambda r: [v - 20 * (i > 4) for i, v in enumerate(r)],
}
