"""The parser of svmlight text: rows of bytes in, CSR arrays out, eight digits at a time.

It only tells good lines from bad ones. What is wrong with a bad line is worked out by slow, plain Python
(``llsvm.data.svmlight_labels``), which keeps the rules of this file.

The eight-byte steps take the first byte for the lowest (little-endian), as on x86-64 and on ARM.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

from fractions import Fraction

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from llsvm.kernels.intrinsics import load_word
from llsvm.kernels.options import CALLED, JIT, njit

# The parser may look this many bytes beyond the text that it is given.
PADDING_BYTES = 16

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, DOT, COLON = (np.uint8(ord(c)) for c in "\t\n\r #+-.:")
LOWER_E, UPPER_E, ZERO = (np.uint8(ord(c)) for c in "eE0")
QID = np.uint64(int.from_bytes(b"qid:", "little"))
FOUR_BYTES = np.uint64(0xFFFFFFFF)
BYTE = np.uint64(0xFF)

ZEROS = np.uint64(0x3030303030303030)
ABOVE_NINE = np.uint64(0x7676767676767676)  # added to a byte, sets its highest bit if it was above 9
ABOVE_SPACE = np.uint64(0x2121212121212121)
HIGH_BITS = np.uint64(0x8080808080808080)
PAIRS, QUADS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
TEN, HUNDRED, TEN_THOUSAND = np.uint64(10), np.uint64(100), np.uint64(10_000)
BITS8, BITS16, BITS32 = np.uint64(8), np.uint64(16), np.uint64(32)

MAX_INDEX = 2**31 - 1
NORMAL_FLOAT32 = 2.0**-126  # rounding numbers nearer to 0 takes more than 2^-24 of them
MAX_EXPONENT = 308  # of a float64
ROOM_FOR_A_DIGIT = np.uint64((2**64 - 10) // 10)
BELOW_FLOAT32 = np.uint64(2**29 - 1)  # what a float64's mantissa has beyond a float32's
LEAST_EXPONENT = -342  # 2^64 times less is no float64 but 0
LARGE_POWER, SHRUNK = 200, 2.0**-300  # larger powers are kept times SHRUNK, to be multiplied without overflow
_EXACT_POWERS = [
    Fraction(10**k) * (Fraction(SHRUNK) if k > LARGE_POWER else 1) for k in range(1 - LEAST_EXPONENT)
]
POWERS = np.array([float(power) for power in _EXACT_POWERS])
POWERS_REST = np.array(
    [float(power - Fraction(float(power))) for power in _EXACT_POWERS]
)  # what rounding took off
WHOLE_BELOW = np.uint64(2**53)  # whole numbers up to here are float64
UPPER_BITS = np.uint64(2**64 - 2**11)  # those of a number below 2^64 that a float64 holds
MAX_EXACT_POWER = 22  # 10^22 is a float64
SPLITTER = 2.0**27 + 1.0
WHOLE_POWERS = np.array([10**k for k in range(9)], np.uint64)


@intrinsic
def _trailing_zeros(typing, word):
    """Return how many of the lowest bits are zero; 64 if all are."""

    def emit(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@intrinsic
def _bits(typing, value):
    """Return a float64's 64 bits."""

    def emit(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), emit


@njit(**JIT, **CALLED)
def _digit_run(digits):
    """Return how many leading bytes of ``digits`` (text with "0" taken off each byte) are digits: 0 to 8."""
    return _trailing_zeros(((digits + ABOVE_NINE) | digits) & HIGH_BITS) >> 3


@njit(**JIT, **CALLED)
def _token_length(word):
    """Return how many leading bytes of ``word`` are neither blanks nor other control characters: 0 to 8."""
    return _trailing_zeros((word - ABOVE_SPACE) & ~word & HIGH_BITS) >> 3


@njit(**JIT, **CALLED)
def _whole(digits, n):
    """Return the number that the first ``n`` (0 to 8) bytes of ``digits`` spell."""
    half = np.uint64(32 - 4 * n)  # in two steps, as a shift by 64 is undefined
    digits = (digits << half) << half
    digits = (digits * TEN + (digits >> BITS8)) & PAIRS
    digits = (digits * HUNDRED + (digits >> BITS16)) & QUADS
    return (digits * TEN_THOUSAND + (digits >> BITS32)) & FOUR_BYTES


@njit(**JIT, **CALLED)
def _byte(word, n):
    """Return byte ``n`` (0 to 7) of a word."""
    return np.uint8((word >> np.uint64(8 * n)) & BYTE)


@njit(**JIT, **CALLED)
def _at(text, p):
    """``text[p]``, told to be no negative ``p``, for which Numba would count from the end: worth a tenth."""
    return text[np.uint64(p)]


@njit(**JIT, **CALLED)
def _is_digit(c):
    return np.uint8(c - ZERO) <= 9


@njit(**JIT, **CALLED)
def _ends_token(c):
    return c in (SPACE, NEWLINE, TAB, RETURN, HASH)


@njit(**JIT, **CALLED)
def _error_of_product(a, b, product):
    """``a`` x ``b`` less their rounded product, exactly: both are split into halves whose products are exact
    (Dekker 1971)."""
    p, q = a * SPLITTER, b * SPLITTER
    a1, b1 = p - (p - a), q - (q - b)
    a2, b2 = a - a1, b - b1
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


@njit(**JIT, **CALLED)
def _in_two(mantissa):
    """``mantissa`` as the sum of two float64, the second 0 where the first can be all of it."""
    upper = mantissa if mantissa < WHOLE_BELOW else mantissa & UPPER_BITS
    return np.float64(upper), np.float64(mantissa - upper)


@njit(**JIT, **CALLED)
def _over_power(mantissa, decimals):
    """``mantissa`` / 10^decimals (0 to 342) as the nearest float64, but for near ties, since the last digit counts
    where a column's values differ in nothing else: the quotient of the mantissa's upper bits and the power, and
    what is left over by both."""
    power = POWERS[decimals]
    if mantissa < WHOLE_BELOW and decimals <= MAX_EXACT_POWER:
        return np.float64(mantissa) / power
    unit = SHRUNK if decimals > LARGE_POWER else 1.0
    upper, lower = _in_two(mantissa)
    upper, lower = unit * upper, unit * lower
    quotient = upper / power
    product = quotient * power
    error = _error_of_product(quotient, power, product)
    return quotient + ((upper - product) - error + lower - quotient * POWERS_REST[decimals]) / power


@njit(**JIT, **CALLED)
def _times_power(mantissa, exponent):
    """``mantissa`` x 10^exponent (0 to 308), rounded as ``_over_power`` rounds, possibly inf."""
    power = POWERS[exponent]
    unit = SHRUNK if exponent > LARGE_POWER else 1.0
    upper, lower = _in_two(mantissa)
    product = upper * power
    rest = _error_of_product(upper, power, product) + upper * POWERS_REST[exponent] + lower * power
    return (product + rest) / unit


@njit(**JIT, **CALLED)
def _number(text, p):
    """Return the decimal number at ``p``, whatever its form, as float64 (possibly inf), and its end (-1: no
    number).

    Up to 19 digits are kept exactly, and scaled by a power of ten.
    """
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += 1
    mantissa = np.uint64(0)
    exponent = 0
    start = p
    while _is_digit(text[p]):
        if mantissa <= ROOM_FOR_A_DIGIT:
            mantissa = mantissa * TEN + np.uint64(text[p] - ZERO)
        else:
            exponent += 1
        p += 1
    n_digits = p - start
    if text[p] == DOT:
        p += 1
        start = p
        while _is_digit(text[p]):
            if mantissa <= ROOM_FOR_A_DIGIT:
                mantissa = mantissa * TEN + np.uint64(text[p] - ZERO)
                exponent -= 1
            p += 1
        n_digits += p - start
    if n_digits == 0:
        return 0.0, -1
    if text[p] == LOWER_E or text[p] == UPPER_E:
        p += 1
        below_one = text[p] == MINUS
        if below_one or text[p] == PLUS:
            p += 1
        if not _is_digit(text[p]):
            return 0.0, -1
        power = 0
        while _is_digit(text[p]):
            power = min(power * 10 + np.int64(text[p] - ZERO), 1 << 50)
            p += 1
        exponent += -power if below_one else power
    if mantissa == 0 or exponent < LEAST_EXPONENT:
        value = 0.0
    elif exponent > MAX_EXPONENT:
        value = np.inf
    elif exponent >= 0:
        value = _times_power(mantissa, exponent)
    else:
        value = _over_power(mantissa, -exponent)
    return -value if negative else value, p


@njit(**JIT)
def parse(text, start, stop, lowest, indptr, indices, data, y):
    """Parse the lines ``text[start:stop]`` into CSR arrays, up to the first bad line.

    text: (any,) uint8; ``text[stop - 1]`` must be a newline, followed by PADDING_BYTES more of anything.
    start, stop: int, the range of bytes.
    lowest: int, the smallest index allowed, 0 or 1.
    indptr: (lines + 1,) int64, filled.
    indices: (colons,) int32, filled.
    data: (colons,) float32 or float64, filled.
    y: (lines,) float64, filled.
    Returns rows, stored values, the smallest and the largest index (MAX_INDEX and -1 where there is none),
    where the first bad line starts (-1: all are good), and what values were: 0 float32, 1 not all of them,
    2 some nearer to 0 than float32 has all its digits, 3 some that are 0 then. A value that is no finite
    number in ``data`` makes a line bad.
    """
    row = 0
    k = 0
    smallest = MAX_INDEX
    largest = -1
    seen = np.uint64(0)
    rounded = 0
    indptr[0] = 0
    p = start
    while p < stop:
        line = p
        c = _at(text, p)
        while c in (SPACE, TAB, RETURN):
            p += 1
            c = _at(text, p)
        if c != NEWLINE and c != HASH:
            label, p = _number(text, p)
            if p < 0 or not abs(label) < np.inf or not _ends_token(_at(text, p)):
                return row, k, smallest, largest, line, 0
            y[row] = label
            last = lowest - 1
            may_be_qid = True
            while True:
                c = _at(text, p)
                while c in (SPACE, TAB, RETURN):
                    p += 1
                    c = _at(text, p)
                if c in (NEWLINE, HASH):
                    break
                # Where the pair ends is known from its first 16 bytes: the next one need not wait for its numbers.
                # Where the first eight bytes have no end, ``end`` is 8: only then does ``more`` count.
                word = load_word(text, p)
                end = _token_length(word)
                more = _token_length(load_word(text, p + 8))
                after = p + end + (more & -(end >> 3))

                # the index and its colon
                digits = word ^ ZEROS
                n = _digit_run(digits)
                if 0 < n < 8 and _byte(word, n) == COLON:
                    index = np.int64(_whole(digits, n))
                elif may_be_qid and word & FOUR_BYTES == QID and _is_digit(_at(text, p + 4)):
                    p += 5
                    while _is_digit(_at(text, p)):
                        p += 1
                    if not _ends_token(_at(text, p)):
                        return row, k, smallest, largest, line, 0
                    may_be_qid = False
                    continue
                else:
                    index = 0
                    n = 0
                    while _is_digit(_at(text, p + n)):
                        index = min(index * 10 + np.int64(_at(text, p + n) - ZERO), MAX_INDEX + 1)
                        n += 1
                    if n == 0 or _at(text, p + n) != COLON:
                        return row, k, smallest, largest, line, 0
                may_be_qid = False
                if index <= last or index > MAX_INDEX:
                    return row, k, smallest, largest, line, 0
                if last < lowest:
                    smallest = min(smallest, index)
                last = index
                p += n + 1

                # the value, most often [-]digit[.digits] of at most 8 digits behind the point, or [-]digits
                if _at(text, after) in (SPACE, NEWLINE):
                    negative = _at(text, p) == MINUS
                    first = p + negative
                    n = after - first
                    word = load_word(text, first)
                    decimals = 0
                    if 2 <= n <= 10 and _byte(word, 1) == DOT:
                        decimals = n - 2
                        lead = (word & BYTE) ^ ZERO
                        digits = load_word(text, first + 2) ^ ZEROS
                        good = lead <= 9 and decimals <= _digit_run(digits)
                        mantissa = lead * _at(WHOLE_POWERS, decimals) + _whole(digits, decimals)
                    else:
                        digits = word ^ ZEROS
                        good = 0 < n < 8 and n <= _digit_run(digits)
                        mantissa = _whole(digits, n)
                    if good:
                        value = np.float64(mantissa) / _at(POWERS, decimals)
                        if negative:
                            value = -value
                        data[np.uint64(k)] = value
                        seen |= _bits(value)
                        indices[np.uint64(k)] = index
                        k += 1
                        p = after
                        continue

                # or [-]digits[.digits] of at most 7 + 16 digits, or else anything
                value_start = p
                negative = _at(text, p) == MINUS
                if negative:
                    p += 1
                word = load_word(text, p)
                digits = word ^ ZEROS
                n = _digit_run(digits)
                good = 0 < n < 8
                mantissa = np.uint64(0)
                decimals = 0
                if good:
                    mantissa = digits & BYTE if n == 1 else _whole(digits, n)
                    c = _byte(word, n)
                    p += n
                    if c == DOT:
                        whole_digits = n
                        p += 1
                        word = load_word(text, p)
                        digits = word ^ ZEROS
                        n = _digit_run(digits)
                        mantissa = mantissa * WHOLE_POWERS[n] + _whole(digits, n)
                        decimals = n
                        p += n
                        if n == 8:
                            word = load_word(text, p)
                            digits = word ^ ZEROS
                            n = _digit_run(digits)
                            mantissa = mantissa * WHOLE_POWERS[n] + _whole(digits, n)
                            decimals += n
                            p += n
                            good = whole_digits + decimals <= 19
                        c = _at(text, p)
                    good = good and c in (SPACE, NEWLINE)
                if good:
                    value = _over_power(mantissa, decimals)
                    if negative:
                        value = -value
                    data[k] = value
                    seen |= _bits(value)
                else:
                    value, p = _number(text, value_start)
                    if p < 0 or not _ends_token(_at(text, p)):
                        return row, k, smallest, largest, line, 0
                    data[k] = value
                    if not abs(data[k]) < np.inf:
                        return row, k, smallest, largest, line, 0
                    seen |= _bits(value)
                    if abs(value) < NORMAL_FLOAT32 and np.float64(data[k]) != value:
                        rounded = max(rounded, 2 if data[k] != 0.0 else 3)
                indices[k] = index
                k += 1
            largest = max(largest, last)
            row += 1
            indptr[row] = k
        while _at(text, p) != NEWLINE:
            p += 1
        p += 1
    rounded = max(rounded, np.int64((seen & BELOW_FLOAT32) != 0))
    return row, k, smallest, largest, -1, rounded
