"""Vectors of float64 as values in kernels, as wide as a register of the processor, or two: what Numba lacks, whose
loops over a handful of numbers stay scalar.

A vector has as many lanes as ``lanes``, a tuple of so many numbers, has entries. ``+``, ``-`` and ``*`` work lane
by lane, and products may be fused with sums, as in all kernels that take sums. Like intrinsics.py these are no
compiled functions but code that is put in place, so kernel files may import them.
"""

# mypy: ignore-errors

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, overload, register_model

_FUSED = ("reassoc", "contract", "nsz")
_INT = ir.IntType(32)


class VectorType(types.Type):
    """Type of a vector of ``count`` lanes."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"vector({count})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _vector(ir.DoubleType(), kind.count))


def _vector(element, count):
    return ir.VectorType(element, count)


def _constant(kind, values):
    return ir.Constant(kind, list(values))


def _spread(builder, value, count):
    kind = _vector(value.type, count)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, _INT(0))
    return builder.shuffle_vector(first, nothing, _constant(_vector(_INT, count), [0] * count))


def _place(context, builder, signature, args, count):
    """Return a pointer to ``count`` numbers of the flat array that is the first argument, from the second on."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    place = builder.gep(array.data, [args[1]])
    return builder.bitcast(place, _vector(place.type.pointee, count).as_pointer())


def _size(array):
    """Return the size of a number of the array, in bytes."""
    return array.dtype.bitwidth // 8


@intrinsic
def load(typing, array, at, lanes):
    """Load the numbers of a flat array from ``at`` on, unchecked: float32 or float64, or bfloat16 as uint16, the
    upper half of a float32's bits."""
    count = lanes.count

    def emit(context, builder, signature, args):
        size = _size(signature.args[0])
        values = builder.load(_place(context, builder, signature, args, count))
        values.align = size
        if size == 2:
            bits = builder.zext(values, _vector(_INT, count))
            bits = builder.shl(bits, _constant(bits.type, [16] * count))
            values = builder.bitcast(bits, _vector(ir.FloatType(), count))
        return values if size == 8 else builder.fpext(values, _vector(ir.DoubleType(), count))

    return VectorType(count)(array, types.int64, lanes), emit


@intrinsic
def store(typing, array, at, vector):
    """Let the numbers of a flat array, as of ``load``, from ``at`` on be those of the vector, unchecked, rounded to
    the nearest."""
    count = vector.count

    def emit(context, builder, signature, args):
        size, value = _size(signature.args[0]), args[2]
        if size < 8:
            value = builder.fptrunc(value, _vector(ir.FloatType(), count))
        if size == 2:
            bits = builder.bitcast(value, _vector(_INT, count))
            bits = builder.add(bits, _constant(bits.type, [1 << 15] * count))
            bits = builder.lshr(bits, _constant(bits.type, [16] * count))
            value = builder.trunc(bits, _vector(ir.IntType(16), count))
        builder.store(value, _place(context, builder, signature, args, count), align=size)
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), emit


@intrinsic
def spread(typing, value, lanes):
    """Return a number in all lanes."""
    count = lanes.count

    def emit(context, builder, signature, args):
        return _spread(builder, args[0], count)

    return VectorType(count)(types.float64, lanes), emit


@intrinsic
def minimum(typing, a, b):
    """Return the smaller one of each lane."""

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return a(a, b), emit


@intrinsic
def maximum(typing, a, b):
    """Return the larger one of each lane."""

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), emit


@intrinsic
def without(typing, vector, bits):
    """0 in the lanes whose bits are set."""
    count = vector.count

    def emit(context, builder, signature, args):
        kind = _vector(ir.IntType(64), count)
        bits_set = builder.and_(
            _spread(builder, args[1], count), _constant(kind, [1 << l for l in range(count)])
        )
        is_out = builder.icmp_unsigned("!=", bits_set, _constant(kind, [0] * count))
        return builder.select(is_out, _constant(args[0].type, [0.0] * count), args[0])

    return vector(vector, types.int64), emit


@intrinsic
def differ(typing, a, b):
    """Return whether two vectors differ in a lane."""
    count = a.count

    def emit(context, builder, signature, args):
        unequal = builder.fcmp_unordered("!=", *args)
        return builder.icmp_unsigned("!=", builder.bitcast(unequal, ir.IntType(count)), ir.IntType(count)(0))

    return types.boolean(a, b), emit


def _arithmetic(name):
    @intrinsic
    def work(typing, a, b):
        def emit(context, builder, signature, args):
            return getattr(builder, name)(*args, flags=_FUSED)

        return a(a, b), emit

    return work


_add, _subtract, _multiply = map(_arithmetic, ("fadd", "fsub", "fmul"))


def _overload(sign, work):
    @overload(sign, inline="never")
    def choose(a, b):
        if isinstance(a, VectorType) and isinstance(b, VectorType):
            return lambda a, b: work(a, b)
        return None


for _sign, _work in ((operator.add, _add), (operator.sub, _subtract), (operator.mul, _multiply)):
    _overload(_sign, _work)


if config.DISABLE_JIT:

    def load(array, at, lanes):
        """The same, as NumPy has it."""
        values = array[at : at + len(lanes)]
        if array.dtype == np.uint16:
            values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return values.astype(np.float64)

    def store(array, at, vector):
        """The same, as NumPy has it."""
        if array.dtype == np.uint16:
            bits = vector.astype(np.float32).view(np.uint32) + np.uint32(1 << 15)
            vector = bits >> np.uint32(16)
        array[at : at + len(vector)] = vector

    def spread(value, lanes):
        """The same, as NumPy has it."""
        return np.full(len(lanes), value)

    def minimum(a, b):
        """The same, as NumPy has it."""
        return np.minimum(a, b)

    def maximum(a, b):
        """The same, as NumPy has it."""
        return np.maximum(a, b)

    def without(vector, bits):
        """The same, as NumPy has it."""
        return np.where(int(bits) >> np.arange(len(vector)) & 1, 0.0, vector)

    def differ(a, b):
        """The same, as NumPy has it."""
        return bool((a != b).any())
