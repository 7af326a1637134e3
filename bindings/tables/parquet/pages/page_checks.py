"""Check that pages are as an offset index lists them, and how their values are coded."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.pages.chunk_pages import (
    DICTIONARY_ENCODINGS,
    HEADER_BYTES,
    WITHOUT_DICTIONARY,
    Pages,
    header_at,
    is_data,
)
from skipstone.bindings.tables.parquet.pages.page_file import ChunkPages
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

# Limits for reading headers in order to leave out a dictionary page: the fewest bytes of that page,
# and the most headers.
MIN_DICTIONARY, MAX_HEADERS = 1 << 15, 16
MANY: Final = 1 << 62  # more values than pages can have


def is_as_listed(pages: Pages, chosen: Ints, data: memoryview) -> bool:
    """Return True if pages agree with the offset index that listed them.

    Args:
        pages: The pages of the chunk.
        chosen: The numbers of those that were read, ascending.
        data: The bytes of the dictionary page, if there is one, and of the chosen pages.
    """
    rows = pages.rows[chosen + 1] - pages.rows[chosen]
    sizes = (pages.stops - pages.starts)[chosen]
    values = MANY if pages.repeated else int(rows.sum())
    headers = layout.headers_of(np.frombuffer(data, np.uint8), values)
    if headers is None:
        return False
    dictionary = pages.dictionary_of(chosen)
    if dictionary is not None:
        start, stop = dictionary
        if not len(headers) or headers[0, at.TYPE] != at.DICTIONARY_PAGE:
            return False
        sizes = np.append(stop - start, sizes)
        rows = np.append(headers[0, at.PAGE_VALUES], rows)
    body = headers[:, layout.STOP] - headers[:, layout.START] + headers[:, at.BYTES]
    return bool(
        len(headers) == len(rows)
        and (body == sizes).all()
        and is_data(headers[len(rows) - len(chosen) :]).all()
        and _have_rows(pages, data, headers, rows)
    )


def header_spans(pages: Pages, chosen: Ints) -> list[Span]:
    """Return where the headers of pages lie, if they have their usual size.

    Of lists and maps, these are the whole pages, whose rows are counted.

    Args:
        pages: The pages of a chunk.
        chosen: The numbers of the pages.
    """
    if pages.repeated:
        return list(zip(pages.starts[chosen].tolist(), pages.stops[chosen].tolist(), strict=True))
    stops = np.minimum(pages.starts[chosen] + HEADER_BYTES[0], pages.stops[chosen])
    return list(zip(pages.starts[chosen].tolist(), stops.tolist(), strict=True))


def have_listed_headers(pages: Pages, chosen: Ints, ranges: Ranges) -> bool:
    """Return True if pages agree with the offset index that listed them.

    Only the headers are read, but whole pages of lists and maps.

    Args:
        pages: The pages of a chunk, as an offset index lists them.
        chosen: The numbers of the pages to look at.
        ranges: Reads the file.

    Raises:
        OSError: the file cannot be read.
    """
    reader = layout.HeaderReader(0)
    for i in chosen.tolist():
        start, stop = int(pages.starts[i]), int(pages.stops[i])
        found = header_at(reader, ranges, start, stop)
        if found is None or not is_data(found[0][None]).all():
            return False
        end, nbytes = found[0][[layout.STOP, at.BYTES]].tolist()
        rows = pages.rows[i + 1 : i + 2] - pages.rows[i]
        data = ranges.read([(start, stop)])[0] if pages.repeated else memoryview(b"")
        if start + end + nbytes != stop or not _have_rows(pages, data, found[0][None], rows):
            return False
    return True


def _have_rows(pages: Pages, data: memoryview, headers: Ints, rows: Ints) -> bool:
    """Return True if pages have as many rows as their offset index, or their headers, say.

    Args:
        pages: The pages of the chunk.
        data: The bytes of the pages; only those of lists and maps are looked at.
        headers: Their headers, shape (pages, any); one of a dictionary page may come first.
        rows: The expected number of rows of each; of a dictionary page, that of its values.
    """
    if not pages.repeated:
        return bool((headers[:, at.PAGE_VALUES] == rows).all())
    from skipstone.bindings.tables.parquet.pages.nested.page_rows import rows_in_page

    array = np.frombuffer(data, np.uint8)
    return all(
        rows_in_page(array, header, pages.codec, pages.repeated) == expected
        for header, expected in zip(headers, rows.tolist(), strict=True)
        if header[at.TYPE] != at.DICTIONARY_PAGE
    )


def without_dictionary(pages: Pages, chosen: Ints, ranges: Ranges) -> Pages:
    """Return pages as if they had no dictionary page, if the chosen ones certainly do not use it.

    An offset index does not give the encoding of pages. Writers stop using a dictionary when it has
    grown to 1 MB, so it may be larger than the chosen pages.

    Args:
        pages: The pages of a chunk.
        chosen: The numbers of the pages to read.
        ranges: Reads the file.

    Raises:
        OSError: the file cannot be read.
    """
    if pages.headers is not None or pages.dictionary is None or not ranges.local:
        return pages
    start, stop = pages.dictionary
    if stop - start < MIN_DICTIONARY or len(chosen) > MAX_HEADERS:
        return pages
    reader = layout.HeaderReader(0)
    for i in chosen.tolist():
        found = header_at(reader, ranges, int(pages.starts[i]), int(pages.stops[i]))
        if found is None or int(found[0][layout.ENCODING]) not in WITHOUT_DICTIONARY:
            return pages
    return dataclasses.replace(pages, dictionary=None)


def ends_as_listed(pages: Pages, ranges: Ranges) -> bool:
    """Return True if the last page has the rows that its offset index lists, or there is no index.

    If an index shifts the rows of all pages from some page on, only that page and the last one show
    it.
    """
    if (pages.headers is not None and not pages.repeated) or len(pages) < 2:
        return True
    return have_listed_headers(pages, pages.last, ranges)


def is_dictionary_coded(part: ChunkPages, data: memoryview) -> bool:
    """Return True if all values of pages are numbers of a dictionary page.

    Args:
        part: The pages.
        data: Their bytes.
    """
    headers = layout.headers_of(np.frombuffer(data, np.uint8), max(part.values, 1))
    if headers is None or not len(headers) or headers[0, at.TYPE] != at.DICTIONARY_PAGE:
        return False
    of_data = headers[1:]
    return bool(
        is_data(of_data).all()
        and np.isin(of_data[:, layout.ENCODING], DICTIONARY_ENCODINGS).all()
        and of_data[:, at.PAGE_VALUES].sum() == part.values
    )
