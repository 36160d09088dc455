"""The ``llsvm`` program, also ``python -m llsvm``: signals are answered before anything else is loaded."""

from __future__ import annotations

import os

from llsvm.signals import watch


def main() -> None:
    """Run a command and exit with its code."""
    watch()
    import atexit
    import sys
    from contextlib import suppress

    from llsvm.cli import main as run

    code: object = 0
    try:
        run()
    except SystemExit as ended:
        code = ended.code
    # The interpreter's own way out takes its modules apart for a while, in which signals are not answered.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
