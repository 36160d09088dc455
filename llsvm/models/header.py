"""Header of a model file: every value is of the type and size that later code relies on.

A model may come from anywhere. Whatever its header holds is looked at here before anything else looks at it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from llsvm.errors import CertificateError
from llsvm.features.column import Sort
from llsvm.files.json_checks import (
    MAX_FEATURES,
    Test,
    check,
    is_flag,
    is_number,
    is_scalar,
    is_text,
    is_whole,
    list_of,
    mapping_of,
    maybe,
    one_of,
    shown,
)
from llsvm.objective.certificate import Certificate
from llsvm.settings.objective import REGRESSION, UNLABELLED

TEXT = "text"  # of ``extra``: what a model keeps of its text columns
WHY_HASHED = "note"  # ... among that, where memory has decided so
PRUNED = "pruned"  # what --prune came to
SPREAD = "spread"  # (n_features,) floats, their standard deviations over the rows trained on, where known
MEAN = "mean"  # (m,) float64, of the first m features, dense numbers, over the rows trained on, where known
TIME_TYPE = "time_type"  # NumPy's, of labels that were given to an estimator as dates, times or spans of time
CLASS_NAMES = "class_names"  # what the labels -1 and 1 stand for, where one was trained against the others
CROSSES = "crosses"  # ... and of what is crossed
_TIME_TYPE = re.compile(r"(timedelta|datetime)64\[\d*(Y|M|W|D|h|m|s|ms|us|ns)\]", re.ASCII)
_COLUMN_KINDS = ("number", "text", "document", "vector", "indices", "values", "struct")


def _is_mapping(value: Any) -> bool:
    return type(value) is dict


def _is_size(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_setting(value: Any) -> bool:
    return is_scalar(value) or list_of(is_scalar)(value) or mapping_of(is_number)(value)


def _is_category(value: Any) -> bool:
    return list_of(is_text)(value) and len(value) == 2


_HEADER: dict[str, Test] = {
    "version": is_text,
    "requires": list_of(is_text),
    "index_base": is_whole(0, 1),
    "converged": is_flag,
    "n_rows": is_whole(0),
    "n_features": is_whole(0, MAX_FEATURES),
    "n_weights": is_whole(0),
    "certificate": maybe(_is_mapping),
    "settings": _is_mapping,
    "history": list_of(_is_mapping),
    "feature_names": maybe(list_of(is_text)),
    "extra": _is_mapping,
}
_CERTIFICATE: dict[str, Test] = {
    "primal": list_of(maybe(is_number)),
    "dual": list_of(maybe(is_number)),
    "passes": is_whole(0),
}
# Of what is not always there.
_CERTIFICATE_EXTRA: dict[str, Test] = {"rounding": list_of(_is_size), "negligible": _is_size}
_PASS: dict[str, Test] = {"passes": is_whole(0)}  # a row of the history
CLOCK: dict[str, Test] = {  # ... and what stands beside the model of it: it differs from run to run
    name: maybe(is_number) for name in ("seconds", "bytes_read", "used_bytes", "peak_rss_bytes")
}
_PASS_EXTRA: dict[str, Test] = CLOCK | {
    "primal": maybe(is_number),
    "dual": maybe(is_number),
    "relative_gap": maybe(is_number),
    "survivors": maybe(is_number),
}
# Of what stands beside the model.
_LOG: dict[str, Test] = {"log": _is_mapping, "settings": _is_mapping, "history": list_of(_is_mapping)}
_RESOURCES: dict[str, Test] = {
    **dict.fromkeys(("seconds", "peak_rss_bytes", "memory_limit_bytes"), is_number),
    **dict.fromkeys(("bytes_read", "bytes_spilled"), is_number),
    "spent": mapping_of(is_number),
}
PLACE_SETTINGS: dict[str, Test] = {"spill_dir": maybe(is_text)}  # say where, not what
_SETTINGS: dict[str, Test] = {
    "loss": is_text,
    "bias": lambda value: is_number(value) or is_text(value),
    "label": maybe(is_text),
    "weight": maybe(is_text),
    "features": list_of(is_text),
    "missing": is_text,
    "missing_label": is_text,
    "cross": list_of(is_text),
    "hash_bits": maybe(is_whole(1, 30)),
    "encoding": maybe(is_text),
    "delimiter": maybe(is_text),
    "where": maybe(is_text),
    "quantile": maybe(is_number),
    "tol": maybe(is_number),
}
_EXTRA: dict[str, Test] = {
    "unit_row": is_flag,
    "double": is_flag,
    "centered": is_flag,
    "multi_class": one_of("ovo"),
    "label_kind": one_of(REGRESSION, UNLABELLED),
    "solver": is_text,
    "why": is_text,
    "positive": lambda value: is_text(value) or is_number(value),
    CLASS_NAMES: lambda value: (
        list_of(lambda name: is_text(name) or is_number(name) or is_flag(name))(value) and len(value) == 2
    ),
    TIME_TYPE: lambda value: is_text(value) and _TIME_TYPE.fullmatch(value) is not None,
    "feature_map": _is_mapping,
    "table": _is_mapping,
    "text": _is_mapping,
    "crosses": _is_mapping,
    "sparse_weights": is_flag,
    "calibration": _is_mapping,
    "threshold": _is_mapping,
    "trained_on": _is_mapping,
}
_TABLE: dict[str, Test] = {
    "columns": list_of(_is_mapping),
    "label": maybe(is_text),
    "missing": one_of("refuse", "zero", "mean"),
    "hash_bits": maybe(is_whole(1, 30)),
    "header": is_flag,
    "categories": list_of(_is_category),
    "largest_index": is_whole(-1, MAX_FEATURES),
    "fill": _is_mapping,
}
_TEXT: dict[str, Test] = {
    "columns": list_of(is_text),
    "widths": list_of(is_whole(0, MAX_FEATURES)),
    "documents": list_of(_is_size),
    "options": _is_mapping,
}
_CROSSES: dict[str, Test] = {
    "pairs": list_of(_is_category),
    "widths": lambda value: list_of(is_whole(0, MAX_FEATURES))(value) and len(value) == 3,
    "means": _is_mapping,
}
_COLUMN: dict[str, Test] = {
    "name": is_text,
    "kind": one_of(*_COLUMN_KINDS),
    "width": is_whole(1, MAX_FEATURES),
}
_TRAINED_ON: dict[str, Test] = {
    "n_files": is_whole(1),
    "n_bytes": is_whole(0),
    "digest": is_text,
    "files": list_of(_is_mapping, minimum=1),
}
_FILE: dict[str, Test] = {"name": is_text, "n_bytes": is_whole(0), "digest": is_text}
_SORT: dict[str, Test] = {"sort": maybe(one_of(*Sort)), "dates": maybe(is_flag)}  # see Column.of
_ARRAY: dict[str, Test] = {
    "shape": list_of(is_whole(0)),
    "dtype": is_text,
    "crc32": is_whole(0, 2**32 - 1),
}


def check_header(header: Mapping[str, Any]) -> None:
    """Raise ValueError where a field is missing, of a wrong type, or at odds with another."""
    check(header, _HEADER, "header")
    if header["certificate"] is not None:
        certificate = header["certificate"]
        check(certificate, _CERTIFICATE | _where_there(_CERTIFICATE_EXTRA, certificate), "certificate")
        problems = {len(certificate[name]) for name in ("primal", "dual")}
        if len(problems | ({len(certificate["rounding"])} if certificate.get("rounding") else set())) > 1:
            raise ValueError("its certificate has other numbers of primals and duals")
    for row in header["history"]:
        check(row, _PASS | _where_there(_PASS_EXTRA, row), "history")
    settings, extra = header["settings"], header["extra"]
    check(settings, {name: _SETTINGS.get(name, _is_setting) for name in settings}, "settings")
    check(extra, _where_there(_EXTRA, extra), "extra")
    if missing := [name for name in header["requires"] if name not in extra]:
        raise ValueError(f"it requires {missing[0]}, which it does not hold")
    if "table" in extra:
        if "text" in extra:
            why: dict[str, Test] = {WHY_HASHED: is_text} if WHY_HASHED in extra["text"] else {}
            check(extra["text"], _TEXT | why, "text columns")
        if CROSSES in extra:
            check(extra[CROSSES], _CROSSES, "crosses")
            if not all(map(is_number, extra[CROSSES]["means"].values())):
                raise ValueError("its crosses fill in what is no number")
        _check_table(extra["table"], header["n_features"], extra.get("text"), extra.get(CROSSES))
    elif "text" in extra:
        raise ValueError("it has text columns, but no table")
    if "trained_on" in extra:
        check(extra["trained_on"], _TRAINED_ON, "list of training files")
        for file in extra["trained_on"]["files"]:
            check(file, _FILE, "list of training files")
    arrays = header.get("arrays", {})  # the first files have no list of them
    check(arrays, {}, "list of arrays")
    for name, spec in arrays.items():
        check(spec, _ARRAY, f"list of arrays, {name},")


def check_log(log: Mapping[str, Any]) -> None:
    """Raise ValueError where a field of a model's log is missing, or of a wrong type."""
    check(log, _LOG, "log")
    check(log["log"], _where_there(_RESOURCES, log["log"]), "log")
    check(log["settings"], _where_there(PLACE_SETTINGS, log["settings"]), "settings")
    for row in log["history"]:
        check(row, _where_there(CLOCK, row), "history")


def _where_there(tests: Mapping[str, Test], values: Mapping[str, Any]) -> dict[str, Test]:
    return {name: test for name, test in tests.items() if name in values}


def _check_table(
    table: dict[str, Any], n_features: int, text: dict[str, Any] | None, crosses: dict[str, Any] | None
) -> None:
    check(table, _TABLE, "table")
    for column in table["columns"]:
        check(column, _COLUMN | _where_there(_SORT, column), "table's columns")
        if unknown := set(column) - set(_COLUMN) - set(_SORT):
            raise ValueError(f"its table's columns have {shown(sorted(unknown)[0])}, which is not known")
        if column["width"] != 1 and column["kind"] != "vector":
            raise ValueError(f"its table says width: {column['width']} of a {column['kind']} column")
    if not all(map(is_number, table["fill"].values())):
        raise ValueError("its table fills in what is no number")
    kinds = {kind: [c for c in table["columns"] if c["kind"] == kind] for kind in _COLUMN_KINDS}
    categories = len(table["categories"]) if table["hash_bits"] is None else 1 << table["hash_bits"]
    width = len(kinds["number"]) + sum(c["width"] for c in kinds["vector"])
    width += (categories if kinds["text"] else 0) + table["largest_index"] + 1
    names = [c["name"] for c in kinds["document"]]
    if names != ([] if text is None else text["columns"]) or (text and len(names) != len(text["widths"])):
        raise ValueError("its table has other text columns than its vocabularies")
    width += 0 if text is None else sum(text["widths"])
    width += 0 if crosses is None else sum(crosses["widths"])
    if width != n_features:
        raise ValueError(f"its table has {width:,} features, but the model {n_features:,}")


def certificate_of(values: Mapping[str, Any]) -> Certificate | None:
    """Return the certificate as saved; None where that is no proof (models of kernels have been saved with duals
    above their primals)."""
    try:
        primal, dual = tuple(values["primal"]), tuple(values["dual"])
        rounding, negligible = tuple(values.get("rounding", ())), values.get("negligible", math.inf)
        return Certificate(primal, dual, values["passes"], rounding, negligible=negligible)
    except CertificateError:
        return None


def certificate_values(certificate: Certificate) -> dict[str, Any]:
    values: dict[str, Any] = {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "passes": certificate.passes,
    }
    if certificate.rounding:
        values["rounding"] = certificate.rounding
    if math.isfinite(certificate.negligible):
        values["negligible"] = certificate.negligible
    return values
