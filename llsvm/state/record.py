"""Record: what a state says of the run that it belongs to; and what another run has to have in common with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from llsvm.errors import UsageError
from llsvm.files.fingerprint import FileFingerprint
from llsvm.settings.settings import OPTIONS

# What may change from run to run: how exact, how long, with what means.
MAY_CHANGE = frozenset(
    {
        *("tol", "max_passes", "max_seconds"),
        *("memory_limit", "threads", "disk_limit", "spill_dir", "spill_format", "cache"),
    }
)
# What may change too where a run begins at the dual variables of another: they are as good a start in other bounds.
MAY_DIFFER = MAY_CHANGE | {"C", "lambda2", "class_weight", "solver", "seed", "survivors", "prune"}
_MAX_NAMED = 3  # files and options in a sentence


@dataclass(frozen=True, slots=True)
class Record:
    """settings: of the run, resolved, plain values. limit_bytes: of its memory. doubled: values are 64-bit floats
    where 32 bits would hide the optimum. data: of the rows, as ``llsvm.solvers.state.data_of`` has it. columns: as
    llsvm.training.columns.columns_of has it: where it is the same, so are the known rows as numbers, but for the
    scales of columns. files: what was read, a fingerprint of each; None of arrays. history: of the passes so far.
    seconds: taken so far. written: when, as people read it. passes: full ones so far. version: of the package."""

    settings: dict[str, Any]
    limit_bytes: int
    doubled: bool
    data: dict[str, Any]
    columns: str
    files: list[dict[str, Any]] | None
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    written: str = ""
    passes: int = 0
    version: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Record:
        return cls(**values)

    def differing(self, settings: Mapping[str, Any], may: frozenset[str] = frozenset()) -> list[str]:
        """The names of the settings that are different in another run, but for those that may be."""
        return [name for name in OPTIONS if name not in may and self.settings.get(name) != settings.get(name)]

    def changes(self, settings: Mapping[str, Any], names: Sequence[str]) -> str:
        """What has become of the settings of those names, in words, "" for none."""
        return _listed([_option(name, self.settings.get(name), settings.get(name)) for name in names])

    def require_settings(self, settings: Mapping[str, Any], where: str) -> None:
        """Raise UsageError where the settings are others, beyond what may differ. where: the file that has it."""
        if others := self.differing(settings, MAY_DIFFER):
            raise UsageError(
                f"{where}: the state of another training: {self.changes(settings, others)}; go on as it was begun, "
                "name another folder with --state, or pass --fresh to begin anew"
            )

    def require_data(self, data: Mapping[str, Any], files: list[dict[str, Any]] | None, where: str) -> None:
        """Raise UsageError where the rows are others than those of the state."""
        if self.data == data:
            return
        what = _listed(self._other_files(files)) or _listed(
            [
                f"{name} {_shown(self.data.get(name))}, now {_shown(value)}"
                for name, value in data.items()
                if self.data.get(name) != value and name != "data"
            ]
        )
        raise UsageError(
            f"{where}: the state of other data: {what or 'their content differs'}; go on with the same, name "
            "another folder with --state, or pass --fresh to begin anew"
        )

    def _other_files(self, now: list[dict[str, Any]] | None) -> list[str]:
        if self.files is None or now is None:
            return []
        known, found = ({each["digest"]: each for each in files} for files in (self.files, now))
        paths = {each["path"]: each for each in self.files}
        told = []
        for digest, each in found.items():
            if digest in known:
                continue
            before = paths.get(each["path"])
            told.append(
                f"{each['path']} is new" if before is None else f"{each['path']} {_how(before, each)}"
            )
        there = {each["path"] for each in now}
        told += [
            f"{each['path']} is missing"
            for digest, each in known.items()
            if digest not in found and each["path"] not in there
        ]
        return told or ["the files come in another order"] * ([*known] != [*found])


def described(
    files: Sequence[FileFingerprint] | None, file_rows: Sequence[int] | None
) -> list[dict[str, Any]] | None:
    """Fingerprints as JSON has them: of each file path, bytes, rows (None: not known), digest, and checksums by
    chunk."""
    if files is None:
        return None
    counts = [None] * len(files) if file_rows is None else list(file_rows)
    return [
        {
            "path": each.path,
            "n_bytes": each.n_bytes,
            "rows": rows,
            "digest": each.digest,
            "parts": {what: checksums.hex() for what, checksums in each.parts},
        }
        for each, rows in zip(files, counts, strict=True)
    ]


def _how(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What has become of a file, in words."""
    if before["n_bytes"] == now["n_bytes"]:
        return "has changed"
    change = "grown" if now["n_bytes"] > before["n_bytes"] else "shrunk"
    return f"has {change} from {before['n_bytes']:,} to {now['n_bytes']:,} bytes"


def _option(name: str, before: Any, now: Any) -> str:
    return f"{OPTIONS[name].flag} {_shown(before)}, now {_shown(now)}"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _MAX_NAMED
    return "; ".join([*words[:_MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _shown(value: Any) -> str:
    if value is None or value == [] or value == "":
        return "not given"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
