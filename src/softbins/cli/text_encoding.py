"""Which encoding the text of a file is in."""

from __future__ import annotations

import codecs
from typing import IO

from softbins.cli.table_errors import TableError

BLOCK = 1 << 20
# Longest first, because the mark of UTF-32 starts with that of UTF-16.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# What Windows and Excel write for Western languages: Latin-1 with more letters in it.
WESTERN = "cp1252"
ENCODING_TITLES = {
    "utf-8-sig": "UTF-8 with a byte order mark",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    WESTERN: "Latin-1 (Windows-1252)",
}


def recognised_encoding(file: IO[bytes]) -> str:
    """The encoding of the text in a file, all of which is looked at."""
    file.seek(0)
    start = file.read(BLOCK)
    file.seek(0)
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    if b"\0" in start:
        return _utf16_order(start)
    for encoding in ("utf-8", WESTERN):
        if decodes(file, encoding):
            return encoding
    raise TableError("neither UTF-8 nor Latin-1 text; give its --encoding")


def decodes(file: IO[bytes], encoding: str) -> bool:
    """Whether all of a file is text in that encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    file.seek(0)
    try:
        while block := file.read(BLOCK):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    finally:
        file.seek(0)
    return True


def _utf16_order(start: bytes) -> str:
    """UTF-16 without a mark: in Western text every other byte is zero."""
    zeros = start[0:1000:2].count(0), start[1:1000:2].count(0)
    half = len(start[:1000]) // 2
    if zeros[1] > 0.7 * half and zeros[0] == 0:
        return "utf-16-le"
    if zeros[0] > 0.7 * half and zeros[1] == 0:
        return "utf-16-be"
    raise TableError("not text: it has zero bytes; give its --format or --encoding")
