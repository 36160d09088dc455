"""What goes wrong while modules load, which is the system's doing or the installation's."""

from __future__ import annotations

from types import ModuleType


def is_of_loading(error: BaseException) -> bool:
    """Could a module not be loaded, or not whole?

    A read that the system refuses with EAGAIN gives the import machinery None, which ends in a TypeError there; its
    own frames above ``compile`` it takes away. A folder whose ``__init__.py`` cannot be looked at is taken for a
    package without contents, and a codec whose module cannot be read is unknown."""
    if isinstance(error, ImportError | SystemError):
        return True
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        spec = error.obj.__spec__
        return (
            spec is not None and spec.origin is None
        )  # of no file: a name that a whole module lacks is a mistake
    if isinstance(error, LookupError) and str(error).startswith("unknown encoding"):
        return True
    if isinstance(error, TypeError) and str(error).startswith("compile() arg 1"):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return file.startswith("<frozen importlib") and not isinstance(error, OSError | MemoryError)
