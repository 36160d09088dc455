"""The spill in HDF5: a page is a group ``page0``, ``page1``, ... with one contiguous dataset for each of its arrays
(see ``packing``).

h5py lays out the file; the arrays themselves are written and read at the places it names. So readers share no
lock, no damage to the file can reach HDF5's own parser, and a full disk is an ordinary error.
"""

from __future__ import annotations

import os

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from llsvm.files.file_objects import HDF5Output
from llsvm.spill.packing import PageChecksum
from llsvm.spill.store import Arrays, Layout, PageInfo, PageStore, Segment, aligned
from llsvm.spill.workspace import Workspace, write_at, write_failed

_PAGE_OVERHEAD_BYTES = 4096  # of a page's group and datasets, roughly; the true size is known in the end


class HDF5Store(PageStore):
    """A PageStore in an HDF5 file."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, name)
        self._output = HDF5Output(self._file.fileno())
        self._h5 = h5py.File(self._output, "w")
        _bound_metadata_cache(self._h5)

    def _write(self, layout: Layout, arrays: Arrays) -> tuple[tuple[Segment, ...], int]:
        self._claim(sum(array.nbytes for array in arrays.values()) + _PAGE_OVERHEAD_BYTES)
        group = self._h5.create_group(f"page{len(self.pages)}")
        segments, position, checksum = [], 0, PageChecksum()
        for name, array in arrays.items():
            offset = _allocate(group, name, array)
            data = array.reshape(-1).view(np.uint8)
            write_at(self._file, data, offset)
            checksum.add(data)
            segments.append(Segment(offset, len(data), position))
            position += aligned(len(data))
        self._check_output()
        return tuple(segments), checksum.value

    def _arrays(self, page: PageInfo, buffer: NDArray[np.uint8]) -> Arrays:
        return {
            name: np.frombuffer(buffer, dtype, n, segment.position)
            for (name, dtype), n, segment in zip(page.layout, page.lengths, page.segments, strict=True)
        }

    def _complete(self) -> None:
        self._h5.close()
        self._check_output()
        true_bytes = os.fstat(self._file.fileno()).st_size
        self._workspace.release(self._claimed_bytes)
        self.nbytes = self._claimed_bytes = 0
        self._claim(true_bytes)

    def delete(self) -> None:
        self._h5.close()
        super().delete()

    def _check_output(self) -> None:
        """Raise DiskError where HDF5 could not write."""
        if self._output.error is not None:
            raise write_failed(self._file, self._output.error)


def _bound_metadata_cache(file: h5py.File) -> None:
    """Let HDF5 forget pages long written: it holds 4 MB at most this way, 35 MB otherwise."""
    config = file.id.get_mdc_config()
    config.set_initial_size = True
    config.initial_size = config.min_size = config.max_size = 1 << 18  # as on disk; 12 times that in memory
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0
    file.id.set_mdc_config(config)


def _allocate(group: h5py.Group, name: str, array: NDArray) -> int:
    """Make a dataset for ``array`` and return the place of its bytes in the file."""
    layout = h5p.create(h5p.DATASET_CREATE)
    layout.set_layout(h5d.CONTIGUOUS)
    layout.set_alloc_time(h5d.ALLOC_TIME_EARLY)  # else it has no place before HDF5 itself writes to it
    layout.set_fill_time(h5d.FILL_TIME_NEVER)
    dataset = h5d.create(
        group.id, name.encode(), h5t.py_create(array.dtype), h5s.create_simple(array.shape), layout
    )
    return dataset.get_offset() or 0  # None: an empty array has no place
