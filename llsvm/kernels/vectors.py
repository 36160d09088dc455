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
    """Of a vector of ``count`` lanes."""

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
    """A pointer to ``count`` numbers of the flat array that is the first argument, from the second on."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    place = builder.gep(array.data, [args[1]])
    return builder.bitcast(place, _vector(place.type.pointee, count).as_pointer())


def _is_single(array):
    return array.dtype == types.float32


@intrinsic
def load(typing, array, at, lanes):
    """The numbers (float32 or float64) of a flat array from ``at`` on, unchecked."""
    count = lanes.count

    def emit(context, builder, signature, args):
        found = builder.load(_place(context, builder, signature, args, count))
        found.align = 4 if _is_single(signature.args[0]) else 8
        return (
            builder.fpext(found, _vector(ir.DoubleType(), count)) if _is_single(signature.args[0]) else found
        )

    return VectorType(count)(array, types.int64, lanes), emit


@intrinsic
def store(typing, array, at, vector):
    """Let the numbers (float32 or float64) of a flat array from ``at`` on be those of the vector, unchecked."""

    def emit(context, builder, signature, args):
        single, value = _is_single(signature.args[0]), args[2]
        if single:
            value = builder.fptrunc(value, _vector(ir.FloatType(), vector.count))
        builder.store(value, _place(context, builder, signature, args, vector.count)).align = (
            4 if single else 8
        )
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), emit


@intrinsic
def spread(typing, value, lanes):
    """A number in all lanes."""
    count = lanes.count

    def emit(context, builder, signature, args):
        return _spread(builder, args[0], count)

    return VectorType(count)(types.float64, lanes), emit


@intrinsic
def least(typing, a, b):
    """The smaller one of each lane."""

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return a(a, b), emit


@intrinsic
def most(typing, a, b):
    """The larger one of each lane."""

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), emit


@intrinsic
def without(typing, vector, bits):
    """0 in the lanes whose bits are set."""
    count = vector.count

    def emit(context, builder, signature, args):
        kind = _vector(ir.IntType(64), count)
        found = builder.and_(
            _spread(builder, args[1], count), _constant(kind, [1 << l for l in range(count)])
        )
        is_out = builder.icmp_unsigned("!=", found, _constant(kind, [0] * count))
        return builder.select(is_out, _constant(args[0].type, [0.0] * count), args[0])

    return vector(vector, types.int64), emit


@intrinsic
def differ(typing, a, b):
    """Are two vectors different in some lane?"""
    count = a.count

    def emit(context, builder, signature, args):
        found = builder.fcmp_unordered("!=", *args)
        return builder.icmp_unsigned("!=", builder.bitcast(found, ir.IntType(count)), ir.IntType(count)(0))

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
        return array[at : at + len(lanes)].astype(np.float64)

    def store(array, at, vector):
        """The same, as NumPy has it."""
        array[at : at + len(vector)] = vector

    def spread(value, lanes):
        """The same, as NumPy has it."""
        return np.full(len(lanes), value)

    def least(a, b):
        """The same, as NumPy has it."""
        return np.minimum(a, b)

    def most(a, b):
        """The same, as NumPy has it."""
        return np.maximum(a, b)

    def without(vector, bits):
        """The same, as NumPy has it."""
        return np.where(int(bits) >> np.arange(len(vector)) & 1, 0.0, vector)

    def differ(a, b):
        """The same, as NumPy has it."""
        return bool((a != b).any())
