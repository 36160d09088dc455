"""What is freed goes back to the system, but for what the work on the next block will want again."""

import platform
import subprocess
import sys

import pytest

from llsvm.memory.process import KEPT_BYTES, KEPT_SHARE

MEASURED = """
import resource, sys
import numpy as np
from llsvm.memory.process import resident_bytes, return_freed_memory

return_freed_memory(int(sys.argv[1]))

def work(n_bytes):
    parts = [np.ones(n_bytes // 5, np.uint8) for _ in range(5)]
    last = np.ones(100, np.uint8)
    del parts

work(2_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    work(2_000_000)
pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
held = resident_bytes()
work(200_000_000)
print(pages, resident_bytes() - held)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")


def measured(room_bytes):
    """Pages that the system gave to fifty times the same work, and bytes that stay after larger work."""
    command = [sys.executable, "-c", MEASURED, str(room_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    pages, stays = map(int, done.stdout.split())
    return pages, stays


def test_blocks_of_the_same_size_take_no_new_memory_where_there_is_room():
    pages, stays = measured(130_000_000)
    assert pages < 1000  # of 50 times 500
    assert stays < 130_000_000 // KEPT_SHARE + (1 << 20)


def test_where_there_is_little_room_all_but_a_megabyte_goes_back():
    pages, stays = measured(10_000_000)
    assert pages > 10_000
    assert stays < KEPT_BYTES[0] + (1 << 20)
