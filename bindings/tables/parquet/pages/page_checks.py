"""Check that pages are as an offset index lists them, and how their values are coded."""

from __future__ import annotations

import dataclasses

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
from skipstone.bindings.tables.parquet.pages.page_file import ChunkPart
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

# Limits for reading headers in order to leave out a dictionary page: the fewest bytes of that page,
# and the most headers.
MIN_DICTIONARY, MAX_HEADERS = 1 << 15, 16


def is_as_listed(pages: Pages, chosen: Ints, data: memoryview) -> bool:
    """Return True if the headers of pages agree with the offset index that listed them.

    Args:
        pages: The pages of the chunk.
        chosen: The numbers of those that were read, ascending.
        data: The bytes of the dictionary page, if there is one, and of the chosen pages.
    """
    rows = pages.rows[chosen + 1] - pages.rows[chosen]
    sizes = (pages.stops - pages.starts)[chosen]
    headers = layout.headers_of(np.frombuffer(data, np.uint8), int(rows.sum()))
    if headers is None:
        return False
    if pages.dictionary is not None:
        start, stop = pages.dictionary
        if not len(headers) or headers[0, at.TYPE] != at.DICTIONARY_PAGE:
            return False
        sizes = np.append(stop - start, sizes)
        rows = np.append(headers[0, at.PAGE_VALUES], rows)
    body = headers[:, layout.STOP] - headers[:, layout.START] + headers[:, at.BYTES]
    return bool(
        len(headers) == len(rows)
        and (headers[:, at.PAGE_VALUES] == rows).all()
        and (body == sizes).all()
        and is_data(headers[len(rows) - len(chosen) :]).all()
    )


def header_spans(pages: Pages, chosen: Ints) -> list[Span]:
    """Return where the headers of pages lie, if they have their usual size.

    Args:
        pages: The pages of a chunk.
        chosen: The numbers of the pages.
    """
    stops = np.minimum(pages.starts[chosen] + HEADER_BYTES[0], pages.stops[chosen])
    return list(zip(pages.starts[chosen].tolist(), stops.tolist(), strict=True))


def have_listed_headers(pages: Pages, chosen: Ints, ranges: Ranges) -> bool:
    """Return True if the headers of pages agree with the offset index that listed them.

    Only the headers are read.

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
        end, nbytes, values = found[0][[layout.STOP, at.BYTES, at.PAGE_VALUES]].tolist()
        if start + end + nbytes != stop or values != pages.rows[i + 1] - pages.rows[i]:
            return False
    return True


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
    if pages.headers is not None or len(pages) < 2:
        return True
    return have_listed_headers(pages, pages.last, ranges)


def is_dictionary_coded(part: ChunkPart, data: memoryview) -> bool:
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
