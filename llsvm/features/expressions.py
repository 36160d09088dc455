"""Expressions over a table's columns, as ``--where`` and ``--label`` have them: ``month < 12 and carrier != "AA"``.

    comparisons     < <= > >= == !=, in (1, 2), not in ("a", "b"), is null, is not null
    truth           and, or, not, and columns of truth values
    numbers         + - * / and parentheses, in 64-bit floats
    literals        numbers, "text", 'text', true, false; dates and times are text: day >= "2024-06-01"
    columns         by their names, in back quotes where a name is no word: `dep delay`

The text is parsed by Python's grammar (``ast``), walked here, and computed by pyarrow; nothing of it is run. As in
SQL, what is compared with a missing value is neither true nor false; NaN is missing. See
``llsvm.features.expressions`` for types.
"""

from __future__ import annotations

import ast
import datetime
import keyword
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.errors import DataError, UsageError
from llsvm.features.arrow_types import decoded
from llsvm.features.spelling import BOOLS, NUMBER, kind_of_word
from llsvm.features.table_options import listed, own_names

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
}
_COMPUTED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: pc.add,
    ast.Sub: pc.subtract,
    ast.Mult: pc.multiply,
    ast.Div: pc.divide,
}
_WORDS = {"true": True, "True": True, "false": False, "False": False}
_NULLS = ("null", "None", "missing")
_OF_SYNTAX = ("and", "or", "not", "in", "is", "True", "False", "None")
_MAX_CHARACTERS = 4_000
_NO_NUMERALS: Mapping[str, Numerals] = {}
_Columns = Mapping[str, Any]  # of a batch, by name
_SYNTAX = 'comparisons, and, or, not, in (...), is null, + - * /, numbers, "text" and columns\' names'


class Expression:
    """An expression as it was typed. option: which has it, as messages call it. Raises UsageError, naming the
    character, for what is none.

    columns: that it needs, in order, each once.
    """

    def __init__(self, text: str, option: str) -> None:
        self.text, self._option = text, option
        self._quoted: dict[str, str] = {}  # what stands for names in back quotes
        self._stored_names: dict[str, str] = {}  # of a table's columns, that are written otherwise
        if len(text) > _MAX_CHARACTERS:
            raise UsageError(
                f"--{option}: an expression of {len(text):,} characters; {_MAX_CHARACTERS:,} are allowed"
            )
        self._places: dict[str, int] = {}
        self._plain = plain = self._without_quotes()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # Python's, of its own meaning of "is"
                self._tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            offset = (error.offset if isinstance(error, SyntaxError) else None) or 1
            compares = "==" in str(error) or "=" in text[max(0, offset - 2) : offset + 1]
            hint = _syntax_hint(plain) or "; == compares" * compares
            self._refuse(offset - 1, f"this is no expression{hint}")
        try:
            self._check(self._tree)
        except RecursionError:
            self._refuse(0, "too much within itself")
        self.columns = tuple(self._places)

    @property
    def is_column(self) -> bool:
        """Return whether the expression is the name of a column, or a literal, and nothing else."""
        return isinstance(self._tree, ast.Name | ast.Constant)

    def require(self, where: str, names: Sequence[str]) -> None:
        """Find the columns among those of the table ``where``, see ``own_names``. Raises DataError."""
        self._stored_names = own_names(names, self._places)
        self.columns = tuple(self._stored_names.get(name, name) for name in self._places)
        names = [*names, *self._stored_names]
        for name, place in self._places.items():
            if name not in names:
                near = get_close_matches(name, names, 3)
                hint = f"did you mean {' or '.join(near)}?" if near else f"the columns are {listed(names)}"
                raise DataError(
                    f"{where}: --{self._option} {self.text!r}: character {place + 1}: there is no column "
                    f"{name!r}; {hint}"
                )

    def value(self, batch: pa.RecordBatch, numerals: Mapping[str, Numerals] = _NO_NUMERALS) -> pa.Array:
        """Return the values (n,) of the rows of a batch. numerals: its columns of text that read as numbers. Raises
        DataError where a column's type cannot be what is asked of it."""
        try:
            result = self._value(
                self._tree, {**dict(zip(batch.schema.names, batch.columns, strict=True)), **numerals}
            )
        except DataError:
            raise
        except (pa.ArrowException, ValueError, ArithmeticError) as error:
            kinds = ", ".join(f"{name} is {batch.schema.field(name).type}" for name in self.columns)
            why = error if isinstance(error, NotComparable) else "a value is too large to be compared"
            raise DataError(f"--{self._option} {self.text!r} cannot be computed ({kinds}): {why}") from error
        result = result.text if isinstance(result, Numerals) else result
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, batch.num_rows)
        return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result

    # -- parsing ------------------------------------------------------------------------------------------

    def _without_quotes(self) -> str:
        """Return the text with a word of the same length for each name in back quotes."""
        out, at, quote = "", 0, ""
        while at < len(self.text):
            letter = self.text[at]
            if quote or letter in "\"'":
                quote = "" if letter == quote else quote or letter
            elif letter == "`":
                end = self.text.find("`", at + 1)
                if end < at + 2:
                    self._refuse(at, "a back quote that is not closed, or with nothing in it")
                word = f"_{len(self._quoted)}".ljust(end + 1 - at, "_")
                while word in self.text or word in self._quoted:
                    word = f"{word[:-1]}ø" if word.endswith("_") else f"ø{word[1:]}"
                self._quoted[word] = self.text[at + 1 : end]
                out, at = out + word, end + 1
                continue
            elif letter == "\n":
                letter = " "
            out, at = out + letter, at + 1
        return out

    def _refuse(self, place: int, why: str) -> NoReturn:
        raise UsageError(f"--{self._option} {self.text!r}: character {place + 1}: {why}; there are {_SYNTAX}")

    def _check(self, node: ast.AST) -> None:
        """Raise UsageError for what is not among these few kinds; notes the columns."""
        place = getattr(node, "col_offset", 0)
        match node:
            case ast.BoolOp(values=values):
                parts: list[ast.expr] = values
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                parts = [operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
                parts = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=others):
                parts = [left]
                for compared, other in zip(ops, others, strict=True):
                    parts += self._compared(compared, other)
            case ast.Name(id=name):
                if name not in _WORDS:
                    self._places.setdefault(self._quoted.get(name, name), place)
                parts = []
            case ast.Constant(value=bool() | int() | float() | str()):
                parts = []
            case ast.Attribute():
                self._refuse(
                    place,
                    f"this cannot stand here; `{ast.unparse(node)}`, a name with a dot, stands in back quotes",
                )
            case _:
                self._refuse(place, "this cannot stand here")
        for part in parts:
            self._check(part)

    def _compared(self, op: ast.cmpop, other: ast.expr) -> list[ast.expr]:
        """Return the nodes of the right side of a comparison that are still to be checked."""
        if isinstance(op, ast.Is | ast.IsNot):
            if not _is_null(other):
                self._refuse(other.col_offset, "is and is not are for null; == compares")
            return []
        if isinstance(op, ast.In | ast.NotIn):
            several = isinstance(other, ast.Tuple | ast.List)
            if not (several or self._is_in_parentheses(other)) or not all(map(_is_literal, _listed(other))):
                self._refuse(other.col_offset, "in needs values in parentheses, such as in (1, 2)")
            return []
        if type(op) not in _COMPARED or _is_null(other):
            self._refuse(other.col_offset, "is null asks for missing values")
        return [other]

    def _is_in_parentheses(self, node: ast.expr) -> bool:
        return self._plain.encode()[: node.col_offset].rstrip().endswith(b"(")

    # -- computing ----------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, batch: _Columns) -> Any:
        match node:
            case ast.BoolOp(op=op, values=values):
                join = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                result = truth(self._value(values[0], batch))
                for each in values[1:]:
                    result = join(result, truth(self._value(each, batch)))
                return result
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return pc.invert(truth(self._value(operand, batch)))
            case ast.UnaryOp(operand=ast.Constant(value=int() | float())):
                return literal(_literal(node))
            case ast.UnaryOp(operand=operand):
                return pc.negate(number(self._value(operand, batch)))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = number(self._value(left, batch)), number(self._value(right, batch))
                return _missing_as_null(_COMPUTED[type(op)](a, b))
            case ast.Compare(left=left, ops=ops, comparators=others):
                result, a = None, self._value(left, batch)
                for compared, other in zip(ops, others, strict=True):
                    part, a = self._comparison(a, compared, other, batch)
                    result = part if result is None else pc.and_kleene(result, part)
                return result
            case ast.Name(id=name) if name not in _WORDS:
                name = self._quoted.get(name, name)
                column = batch[self._stored_names.get(name, name)]
                return column if isinstance(column, Numerals) else _missing_as_null(column)
            case _:
                return literal(_literal(node))

    def _comparison(self, a: Any, op: ast.cmpop, other: ast.expr, batch: _Columns) -> tuple[Any, Any]:
        """Return the truth of one comparison, and what a next one in the chain compares."""
        if isinstance(op, ast.Is | ast.IsNot):
            gone = _is_missing(a)
            return (gone if isinstance(op, ast.Is) else pc.invert(gone)), a
        if isinstance(op, ast.In | ast.NotIn):
            result = None
            for each in _listed(other):
                part = pc.equal(*alike(a, literal(_literal(each))))
                result = part if result is None else pc.or_kleene(result, part)
            if result is None:  # in ()
                result = pc.and_kleene(pc.invert(_is_missing(a)), False)
            return (result if isinstance(op, ast.In) else pc.invert(result)), a
        b = self._value(other, batch)
        return _COMPARED[type(op)](*alike(a, b)), b


def _syntax_hint(text: str) -> str:
    """Return a hint at what words that are no expression often mean, to follow them in a sentence. text: without
    the names in back quotes."""
    bare = re.sub(r"""(["']).*?\1""", "", text)  # without text in quotes
    if date := re.search(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?", bare):
        return f'; dates and times stand in quotes: "{date[0]}"'
    words = (word for word in re.findall(r"[^\W\d]\w*", bare) if word not in _OF_SYNTAX)
    if (word := next(filter(keyword.iskeyword, words), None)) is not None:
        return f"; a column that is called {word} stands in back quotes: `{word}`"
    return ""


def _is_missing(value: Any) -> Any:
    """Return which rows have no value: of text that reads as numbers, also those with a word for a missing
    number."""
    if not isinstance(value, Numerals):
        return pc.is_null(value)
    try:
        return pc.is_null(value.read())
    except DataError:  # some of it is text
        return pc.is_null(value.text)


def _missing_as_null(column: pa.Array) -> pa.Array:
    column = decoded(column)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _is_null(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or (
        isinstance(node, ast.Name) and node.id in _NULLS
    )


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int | float)
    if isinstance(node, ast.Name):
        return node.id in _WORDS
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str)


def _listed(node: ast.expr) -> list[ast.expr]:
    """Return what stands within the parentheses of ``in``; Python takes no notice of those around a single
    value."""
    return node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.UnaryOp(operand=operand):
            return -_literal(operand)
        case ast.Name(id=name):
            return _WORDS[name]
        case ast.Constant(value=value):
            return value
    raise AssertionError(ast.dump(node))  # was checked


# What two sides of a comparison become so that they can be compared, as SQL has it; and the sentence for sides
# that cannot be.

_KIND_NAMES = {
    "number": "numbers",
    "truth": "truth values",
    "text": "text",
    "date": "dates",
    "moment": "times",
    "clock": "times of day",
}
_DIGITS = 76  # of decimals in which whole numbers and decimals are compared
_MOST_DIGITS = 38  # of literals there
_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")
_FORMS = {
    **dict.fromkeys(("date", "moment"), 'a day such as "2024-06-01" or a time such as "2024-06-01 12:30:00"'),
    "clock": 'a time of day such as "12:30"',
}


class NotComparable(ValueError):
    """Says what is wrong with an expression's operands."""


class Numerals(NamedTuple):
    """A column of text that reads as numbers: beside text it is text, and else numbers.

    text: the column. read: gives the numbers, and may refuse a cell.
    """

    text: Any
    read: Callable[[], Any]


def literal(value: bool | int | float | str) -> pa.Scalar:
    """Return a literal as a scalar. Whole numbers that no 64 bits have are decimals, or 64-bit floats."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return pa.scalar(Decimal(value) if abs(value) < 10**_MOST_DIGITS else float(value))
    return pa.scalar(value)


def number(value: Any) -> Any:
    """Return a side of + - * /, as 64-bit floats. Raises NotComparable."""
    value = value.read() if isinstance(value, Numerals) else value
    kind = value.type
    if types.is_null(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return value.cast(pa.float64(), safe=False)
    if not types.is_floating(kind):
        raise NotComparable(f"+ - * / are for numbers, not for {_named(kind)}")
    return value.cast(pa.float64(), safe=False)


def truth(value: Any) -> Any:
    """Return a side of and, or, not. Raises NotComparable."""
    value = value.text if isinstance(value, Numerals) else value
    if types.is_null(value.type):
        return value.cast(pa.bool_())
    if not types.is_boolean(value.type):
        raise NotComparable(f"and, or, not are for truth values, not for {_named(value.type)}: compare it")
    return value


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two sides of a comparison as they can be compared. A literal is taken for what the other side is.
    Raises NotComparable."""
    a, b = _with_numerals_read(a, b), _with_numerals_read(b, a)
    if types.is_null(a.type) or types.is_null(b.type):
        other = b.type if types.is_null(a.type) else a.type
        return (a, b) if types.is_null(other) else (a.cast(other), b.cast(other))
    kinds = _kind(a.type), _kind(b.type)
    if kinds == ("number", "number"):
        return _numbers(a, b)
    if kinds == ("text", "text"):
        return a.cast(pa.large_string()), b.cast(pa.large_string())
    if set(kinds) == {"truth", "number"}:
        return _numbers(
            *(value.cast(pa.int8()) if types.is_boolean(value.type) else value for value in (a, b))
        )
    for one, other in ((a, b), (b, a)):
        kind = _kind(one.type)
        if kind in _FORMS and isinstance(other, pa.Scalar) and types.is_string(other.type):
            read = _read(other.as_py(), one.type, kind)
            sides = (one, read) if one is a else (read, one)
            return _moments(*sides) if kind == "date" else sides
        if kind == "truth" and isinstance(other, pa.Scalar) and other.as_py() in BOOLS:
            said = other.cast(pa.bool_())
            return (one, said) if one is a else (said, one)
    if set(kinds) <= {"date", "moment"}:
        return _moments(a, b)
    if kinds[0] != kinds[1]:
        hint = _unquoted(a, b) or _hint(*kinds)
        raise NotComparable(f"{_named(a.type)} cannot be compared with {_named(b.type)}{hint}")
    if kinds[0] == "clock":
        return a.cast(pa.time64("ns")), b.cast(pa.time64("ns"))
    return a, b


def _with_numerals_read(value: Any, other: Any) -> Any:
    """Return a side of a comparison, with numerals read as what the other side is."""
    if not isinstance(value, Numerals):
        return value
    numbers = not isinstance(other, Numerals) and _is_number(other.type)
    return value.read() if numbers else value.text


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _kind(type_: pa.DataType) -> str:
    if types.is_boolean(type_):
        return "truth"
    if _is_number(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_date(type_):
        return "date"
    if types.is_timestamp(type_):
        return "moment"
    if types.is_time(type_):
        return "clock"
    raise NotComparable(
        f"values of type {type_} cannot be compared: `is null` is all that can be asked of them"
    )


def _named(type_: pa.DataType) -> str:
    try:
        return _KIND_NAMES[_kind(type_)]
    except NotComparable:
        return f"values of type {type_}"


def _unquoted(a: Any, b: Any) -> str:
    """Return the remedy for a number in quotes beside numbers. It is not read as one: where another format has the
    column as text, 01 is not "1"."""
    for one, other in ((a, b), (b, a)):
        if isinstance(other, pa.Scalar) and _is_number(one.type) and _kind(other.type) == "text":
            word = other.as_py()
            return f": write {word}, without quotes" if kind_of_word(word) == NUMBER else ""
    return ""


def _hint(a: str, b: str) -> str:
    if "number" in (a, b) and (form := _FORMS.get(b if a == "number" else a)):
        return f": write {form}, in quotes"
    if "text" not in (a, b):
        return ""
    other = b if a == "text" else a
    alike = {"number": "numbers", "truth": "true or false"}.get(other)
    return f": write both as text, in quotes, or both as {alike}, without" if alike else ""


def _numbers(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both as numbers that compare as in SQL: exactly, unless one is a float; a literal is as narrow as the
    other side."""
    columns = [value.type for value in (a, b) if not isinstance(value, pa.Scalar)]
    if len(columns) == 1 and types.is_decimal(columns[0]):
        return _decimals(
            *(_as_decimal(value) if types.is_floating(value.type) else value for value in (a, b))
        )
    if any(types.is_floating(value.type) for value in (a, b)):
        narrow = pa.float32() in columns and pa.float64() not in columns
        float_ = pa.float32() if narrow else pa.float64()
        return tuple(value.cast(pa.float64(), safe=False).cast(float_, safe=False) for value in (a, b))
    if any(types.is_decimal(value.type) for value in (a, b)):
        return _decimals(a, b)
    if any(types.is_uint64(value.type) for value in (a, b)) and a.type != b.type:
        return a.cast(pa.decimal128(20, 0)), b.cast(pa.decimal128(20, 0))
    return a, b


def _as_decimal(value: pa.Scalar) -> pa.Scalar:
    """Return a literal as it is written."""
    exact = Decimal(repr(value.as_py()))
    if (
        not exact.is_finite()
        or len(exact.as_tuple().digits) + abs(int(exact.as_tuple().exponent)) > _DIGITS // 2
    ):
        raise NotComparable(f"{value.as_py()} cannot be compared with decimals")
    return pa.scalar(exact)


def _decimals(a: Any, b: Any) -> tuple[Any, Any]:
    scale = max(0, *(value.type.scale for value in (a, b) if types.is_decimal(value.type)))
    type_ = pa.decimal256(_DIGITS, scale)
    return a.cast(type_), b.cast(type_)


def _moments(a: Any, b: Any) -> tuple[Any, Any]:
    """Return dates and times as they stand beside each other: a date is its midnight."""
    if all(types.is_date(value.type) for value in (a, b)):  # of infinite ones there are no midnights
        return a.cast(pa.date32()), b.cast(pa.date32())
    units = [value.type.unit for value in (a, b) if types.is_timestamp(value.type)]
    zones = [value.type.tz for value in (a, b) if types.is_timestamp(value.type)]
    unit = max((*units, "s"), key=("s", "ms", "us", "ns").index) if units else "ms"
    zoned = [zone for zone in zones if zone is not None]
    if zoned and len(zoned) < 2 and zoned[0] not in _UTC:
        raise NotComparable(
            f"times with a zone ({zoned[0]}) cannot be compared with days or times without one; write the zone, "
            'as in "2024-06-01T00:00:00+02:00"'
        )
    target = pa.timestamp(unit, "UTC" if zoned else None)
    return _moment(a, unit, target), _moment(b, unit, target)


def _moment(value: Any, unit: str, target: pa.DataType) -> Any:
    if types.is_timestamp(value.type) and value.type.tz is not None:
        return value.cast(target)
    value = value.cast(pa.timestamp(unit))
    return value if target.tz is None else pc.assume_timezone(value, "UTC")


def _read(text: str, type_: pa.DataType, kind: str) -> pa.Scalar:
    """Return the value of a literal beside a date or a time. Raises NotComparable."""
    form, zone = _FORMS[kind], type_.tz if kind == "moment" else None
    try:
        if kind == "clock":
            return pa.scalar(datetime.time.fromisoformat(text), pa.time64("us"))
        read = datetime.datetime.fromisoformat(_with_dashes(text))
        if kind == "date" and (read.tzinfo, read.time()) == (None, datetime.time()):
            return pa.scalar(read.date())
        if zone is None and read.tzinfo is not None:
            form += ", without a zone, as the column has none"
        elif zone not in (None, *_UTC) and read.tzinfo is None:
            form = f'a time with its zone, as the column has one ({zone}): "2024-06-01T00:00:00+02:00"'
        else:
            return pa.scalar(read if zone is None else _in_utc(read), pa.timestamp("us", zone))
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    raise NotComparable(f"{text!r} is compared with {_KIND_NAMES[kind]}; write {form}")


def _in_utc(read: datetime.datetime) -> datetime.datetime:
    return read.replace(tzinfo=datetime.UTC) if read.tzinfo is None else read.astimezone(datetime.UTC)


def _with_dashes(text: str) -> str:
    """Refuses the short forms of ISO 8601, such as 2024-W01."""
    if text[4:5] != "-" or text[7:8] != "-":
        raise ValueError(text)
    return text
