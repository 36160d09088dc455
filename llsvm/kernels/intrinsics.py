"""What Numba lacks: ``fetch`` tells the processor which memory comes next, ``load_word`` and ``store_word`` move
eight bytes at once, ``trailing_zeros`` finds the lowest bit that is set.

They are no compiled functions but code that is put in place.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic


@intrinsic
def fetch(typing, array, index):
    """Prefetch the cache line of ``array[index]``, if it is an array and not None; nothing waits for it."""

    def emit(context, builder, signature, args):
        if isinstance(array, types.NoneType):
            return context.get_dummy_value()
        values = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.bitcast(builder.gep(values.data, [args[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(prefetch, [place, number(0), number(3), number(1)])  # to read, to all caches, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@intrinsic
def load_word(typing, data, k):
    """``data[k:k + 8]`` (uint8) as one little-endian uint64, unchecked, wherever it lies."""

    def emit(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), emit


@intrinsic
def store_word(typing, data, k, word):
    """``data[k:k + 8]`` (uint8) becomes the bytes of a little-endian uint64, unchecked, wherever it lies."""

    def emit(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        store = builder.store(args[2], builder.bitcast(place, ir.IntType(64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), emit


@intrinsic
def trailing_zeros(typing, word):
    """Return the number of trailing zero bits of a uint64, as int64; 64 for 0."""

    def emit(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), emit


if config.DISABLE_JIT:

    def fetch(array, index):
        """Leave the cache as it is: there is no prefetch without the compiler."""

    def load_word(data, k):
        """The same, as Python has it."""
        return np.uint64(int.from_bytes(data[k : k + 8].tobytes(), "little"))

    def store_word(data, k, word):
        """The same, as Python has it."""
        data[k : k + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)

    def trailing_zeros(word):
        """The same, as Python has it."""
        word = int(word)
        return (word & -word).bit_length() - 1 if word else 64
