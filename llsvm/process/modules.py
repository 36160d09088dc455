"""Modules that can be called: ``llsvm.train`` is the module train.py once anything has imported that, and must stay
the function that it is named for all the same."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Make the module that is called ``name`` call the function, whose signature and docstring it then
    shows."""

    class CallableModule(ModuleType):
        __call__ = staticmethod(function)
        __signature__ = property(lambda module: inspect.signature(function))
        __doc__ = property(lambda module: function.__doc__)

    sys.modules[name].__class__ = CallableModule
