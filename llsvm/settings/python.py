"""Public Python functions: options as their parameters, and modules that can be called like the function inside.

Unknown options are refused with the nearest named, and each has its line in the docstring, as it is declared.
``llsvm.train`` is the module train.py once anything has imported that, and must stay the function that it is named
for all the same."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar, cast

from llsvm.errors import UsageError, in_python
from llsvm.settings.option import ESTIMATOR_NAMES, RENAMED, plain_options
from llsvm.settings.settings import OPTIONS

_ROWS = ("data", "X", "y", "sample_weight", "test", "validation")  # taken as they are

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(function: Function) -> Function:
    """Decorate a public function: see the file's head. The function's signature stays as it is."""
    known = inspect.signature(function).parameters
    by_name = [name for name, each in known.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in known:
                owner = f"{type(args[0]).__name__}." if "self" in known else ""  # a subclass, maybe
                raise UsageError(_unknown(name, by_name, owner + function.__name__))
        given |= plain_options({name: value for name, value in given.items() if name not in _ROWS})
        return function(*args, **given)

    lines = "".join(f"\n    {name}: {explanation(name)}" for name in known if name in OPTIONS)
    checked.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n    Options, all by keyword:{lines}\n    "
    return cast(Function, checked)


def explanation(name: str, names: Mapping[str, str] | None = None) -> str:
    """Return what a docstring says of an option. names: see ``llsvm.errors.in_python``."""
    option = OPTIONS[name]
    allowed = f" One of {', '.join(option.choices)}." if option.choices else ""
    shown = f" None: {option.shown_default}." if option.default is None else ""
    return f"{in_python(option.help, names)}{allowed}{shown}"


def options_in(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a function's arguments that are options, in the order of their declarations."""
    return {name: arguments[name] for name in OPTIONS if name in arguments}


def _unknown(name: str, known: list[str], function: str) -> str:
    """Return the error for an unknown option. function: its qualified name, "Class.method" of a method."""
    owner, _, method = function.rpartition(".")
    if RENAMED.get(name) in known:
        return f"{name} is now called {RENAMED[name]}"
    for here, there in ESTIMATOR_NAMES.items():
        if name == there and here in known:
            return f"{name} is the estimator's name, here it is called {here}"
        if name == there and owner:
            return f"{name} is a parameter of {owner}, not of {method}"
    if name in RENAMED:
        return f"{name} is now called {RENAMED[name]}"
    near = get_close_matches(name, known, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(known)}"
    return f"unknown option {name!r}{hint}"


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Make the module that is called ``name`` call the function, whose signature and docstring it then
    shows."""

    class CallableModule(ModuleType):
        __call__ = staticmethod(function)
        __signature__ = property(lambda module: inspect.signature(function))
        __doc__ = property(lambda module: function.__doc__)

    sys.modules[name].__class__ = CallableModule
