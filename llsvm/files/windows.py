"""Windows: what decompressors hold of the text behind them, as the compressed data declare it."""

from __future__ import annotations

from typing import Any

# fixed by the format: gzip's 32 kB; bzip2's blocks of 900 kB, sorted; lz4's blocks of 4 MB, in and out
_FIXED = {"gzip": 100_000, "bzip2": 4_000_000, "lz4": 8_500_000}
_XZ_HEADER_BYTES = 12  # of a stream; then come blocks
_LZMA2 = 0x21
_ZSTD_MAGIC, _SKIPPABLE = 0xFD2FB528, 0x184D2A50
_ZSTD_HEADER_BYTES = 18  # of a frame, at most
_ZSTD_WORK_BYTES = 400_000  # blocks of 128 kB, in and out
HEAD_BYTES = 64  # enough for ``declared``


def declared(kind: str, head: bytes) -> int:
    """Return the bytes that a decompressor of ``kind`` holds for a file that begins so; of zstd see
    ``ZstdFrames``."""
    return _xz_dictionary(head) if kind == "xz" else _FIXED.get(kind, 0)


def _xz_dictionary(head: bytes) -> int:
    """Return the dictionary of the first block's LZMA2 filter. Files that are cut off here say 0."""
    at = _XZ_HEADER_BYTES + 2
    if len(head) < at:
        return 0
    flags = head[at - 1]
    for present in (flags & 0x40, flags & 0x80):  # sizes, packed and unpacked, in groups of seven bits
        while present and at < len(head):
            at += 1
            present = head[at - 1] & 0x80
    for _ in range((flags & 3) + 1):  # filters: id, size of properties, properties
        if at + 2 >= len(head):
            return 0
        if head[at] == _LZMA2:
            bits = head[at + 2] & 0x3F
            return (1 << 32) - 1 if bits >= 40 else (2 | bits & 1) << (bits // 2 + 11)
        at += 2 + head[at + 1]
    return 0


class ZstdFrames:
    """Follows the frames of a zstd file as its bytes go by. largest: bytes that their decoder holds, so far."""

    def __init__(self) -> None:
        self.largest = 0
        self._skip = 0  # bytes of content before the next header
        self._part = b""  # of a header that the bytes so far cut
        self._in_frame = False
        self._checksum_bytes = 0

    def feed(self, data: Any) -> None:
        """Take the next bytes of the file."""
        at, view = 0, memoryview(data)
        while True:
            step = min(self._skip, len(view) - at)
            at, self._skip = at + step, self._skip - step
            if at == len(view):
                return
            head = self._part + bytes(view[at : at + _ZSTD_HEADER_BYTES])
            used = self._block(head) if self._in_frame else self._frame(head)
            if used == 0:
                self._part = head
                return
            at, self._part = at + used - len(self._part), b""

    def _block(self, head: bytes) -> int:
        """Take in a block's header; returns its bytes, or 0 where there are too few."""
        if len(head) < 3:
            return 0
        value = int.from_bytes(head[:3], "little")
        last, kind, size = value & 1, value >> 1 & 3, value >> 3
        self._skip = 1 if kind == 1 else size
        if last:
            self._skip += self._checksum_bytes
            self._in_frame = False
        return 3

    def _frame(self, head: bytes) -> int:
        """Take in a frame's header; returns its bytes, or 0 where there are too few."""
        if len(head) < 5:
            return 0
        magic = int.from_bytes(head[:4], "little")
        if magic & 0xFFFFFFF0 == _SKIPPABLE:
            if len(head) < 8:
                return 0
            self._skip = int.from_bytes(head[4:8], "little")
            return 8
        if magic != _ZSTD_MAGIC:  # damaged, as the decoder will say
            self._skip = 1 << 62
            return 4
        flags = head[4]
        single, size_kind = flags >> 5 & 1, flags >> 6
        window_at, dictionary_bytes = 5, (0, 1, 2, 4)[flags & 3]
        size_at = window_at + (not single) + dictionary_bytes
        size_bytes = (single, 2, 4, 8)[size_kind]
        if len(head) < size_at + size_bytes:
            return 0
        content = int.from_bytes(head[size_at : size_at + size_bytes], "little") + 256 * (size_kind == 1)
        window = content
        if not single:
            base = 1 << (10 + (head[window_at] >> 3))
            window = base + base // 8 * (head[window_at] & 7)
            window = min(window, content) if size_bytes else window
        self.largest = max(self.largest, window + _ZSTD_WORK_BYTES)
        self._in_frame, self._checksum_bytes = True, 4 * (flags >> 2 & 1)
        return size_at + size_bytes
