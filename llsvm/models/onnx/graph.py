"""Graph: an ONNX graph as it is put together, node by node; what is computed is float64."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import ModelError, UsageError
from llsvm.process import VERSION

ML = "ai.onnx.ml"
_OPSET, _ML_OPSET, _IR = 17, 3, 8  # of 2022: what runs models has them everywhere
_ROWS = "n"


def require_onnx() -> None:
    """Raise UsageError, with the remedy, where the package is not installed."""
    if find_spec("onnx") is None:
        raise UsageError("ONNX needs the package onnx, which is not installed: pip install 'llsvm[onnx]'")


class Graph:
    """Values are known by their names, which ``node`` and ``constant`` return."""

    def __init__(self) -> None:
        require_onnx()
        from onnx import TensorProto, helper, numpy_helper

        self._helper, self._numpy = helper, numpy_helper
        self.types = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "text": TensorProto.STRING}
        self.types["whole"] = TensorProto.INT64
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._names: set[str] = set()

    def input(self, name: str, kind: str, width: int | str) -> str:
        """Return an input (n, width) of that kind: "float", "double" or "text"; a width that is text is any."""
        if not name:
            raise ModelError(
                "a column has no name, and an ONNX model's inputs need one: rename it and train again"
            )
        self._names.add(name)
        self._inputs.append(self._helper.make_tensor_value_info(name, self.types[kind], [_ROWS, width]))
        return name

    def output(self, name: str, value: str, kind: str, shape: Sequence[int] = ()) -> None:
        """Add the output ``value``, (n, *shape), by the name ``name``, or where a column has that one ``name_``."""
        while name in self._names:
            name += "_"
        self._names.add(name)
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, self.types[kind], [_ROWS, *shape]))

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Return the first output of an operator."""
        name = self._fresh(operator)
        self._nodes.append(
            self._helper.make_node(operator, list(inputs), [name], domain=domain, **attributes)
        )
        return name

    def constant(self, value: NDArray[Any] | float) -> str:
        """Return numbers; float64, but for whole ones, or text."""
        array = np.asarray(value)
        if array.dtype.kind in "OU":
            array = array.astype(object)
        name = self._fresh("constant")
        self._constants.append(self._numpy.from_array(array, name))
        return name

    def wide(self, value: str) -> str:
        """Return the value as float64."""
        return self.node("Cast", value, to=self.types["double"])

    def sum(self, value: str) -> str:
        """Return the sum (n, 1) of the columns."""
        return self.node("ReduceSum", value, self.constant(np.array([1])), keepdims=1)

    def _fresh(self, kind: str) -> str:
        name = f"llsvm/{kind}/{len(self._names)}"
        self._names.add(name)
        return name

    def model(self, description: str, more: dict[str, str]) -> bytes:
        """Return the file. more: what else it says of itself."""
        import onnx

        graph = self._helper.make_graph(
            self._nodes, "llsvm", self._inputs, self._outputs, self._constants, description
        )
        made = self._helper.make_model(
            graph,
            opset_imports=[self._helper.make_opsetid("", _OPSET), self._helper.make_opsetid(ML, _ML_OPSET)],
            ir_version=_IR,
            producer_name="llsvm",
            producer_version=VERSION,
            doc_string=description,
        )
        self._helper.set_model_props(made, more)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString(deterministic=True))
