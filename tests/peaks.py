"""Peaks of processes of their own."""

import os
import subprocess
import sys

PEAK = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
said = process.stderr.read().decode()
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024, said)
"""


def run_for_peak(*arguments):
    """llsvm with these arguments: (exit code, bytes of its peak resident set, what it said)."""
    command = [sys.executable, "-m", "llsvm", *map(str, arguments)]
    # from a small process: what the one that starts another holds counts as the other's
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *command], capture_output=True, text=True, env=os.environ
    )
    code, peak, said = [*done.stdout.split(maxsplit=2), ""][:3]
    return int(code), int(peak), said
