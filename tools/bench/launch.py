"""Runs one command and says what it took. Run as a script by a bare interpreter (``python -I -S launch.py``).

A small process of its own, because Linux counts the resident set of the process that a command is started from
into the command's peak: started from here the floor is this script's 10 MB, not the harness's hundreds.

    launch.py REPORT_FD CGROUP_PROCS TIMEOUT_SECONDS COMMAND...

CGROUP_PROCS: the file ``cgroup.procs`` of the cgroup to run in, or "" for none. Writes a JSON object to REPORT_FD.
"""

import json
import os
import signal
import sys
import time


def main() -> None:
    report_fd, procs, timeout = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    command = sys.argv[4:]
    os.set_inheritable(report_fd, False)
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(command, procs)
    timed_out = []

    def stop(*_: object) -> None:
        timed_out.append(True)
        os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # ended but not reaped: its counters are still there
    wall = time.monotonic() - began
    signal.setitimer(signal.ITIMER_REAL, 0)
    io = _io(pid)
    _, status, usage = os.wait4(pid, 0)
    answer = {
        "wall_seconds": wall,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,
        "read_bytes": io.get("rchar"),  # by read calls, from the page cache too
        "device_read_bytes": io.get("read_bytes"),  # from the disk itself
        "written_bytes": io.get("wchar"),
        "exit_code": os.waitstatus_to_exitcode(status),
        "timed_out": bool(timed_out),
    }
    with os.fdopen(report_fd, "w") as report:
        json.dump(answer, report)


def _become(command: list[str], procs: str) -> None:
    try:
        if procs:
            with open(procs, "w") as file:
                file.write(str(os.getpid()))
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _io(pid: int) -> dict[str, int]:
    try:
        with open(f"/proc/{pid}/io") as lines:
            return {name: int(value) for name, value in (line.split(": ") for line in lines)}
    except OSError:  # not every container shows it
        return {}


if __name__ == "__main__":
    main()
