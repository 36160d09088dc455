"""A model's claim, its certificate, beside what has been worked out again over all rows: what holds and differs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.files.fingerprint import TRAINED_ON, FileFingerprint, files_summary
from llsvm.models.header import PRUNED
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.models.tables import trained_classes
from llsvm.settings.objective import CLASSIFICATION, ONE_CLASS, SOFTMAX
from llsvm.settings.option import with_new_names
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.verification.at_weights import dual_at_weights
from llsvm.verification.dual import FoundDual, KeptDual, dual_sums
from llsvm.verification.machines import LinearMachine, machine_of
from llsvm.verification.problems import Problems
from llsvm.verification.products import pieces
from llsvm.verification.reading import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """Objectives worked out again. problems: names. primal: (p,) of each. size: (p,) of the terms that it is the
    sum of. rounding: (p,) by how much the rounding of scores and kernels may have changed the primal. dual: of dual
    variables that were kept, with their sums made; None where there are none."""

    problems: list[str]
    primal: Array
    size: Array
    rounding: Array
    dual: FoundDual | None = None


def measure_objectives(
    model: Model,
    settings: Settings,
    rows: Rows,
    mapped_dtype: type[np.floating] = np.float32,
    saved_dual: KeptDual | None = None,
) -> Measured:
    """Measure in one pass over the ``rows``, which have been read, and are of the classes and columns of the model.
    mapped_dtype: see ``machine_of``. saved_dual: a dual point of these rows, or None."""
    dataset = rows.dataset
    problems = Problems.of(settings, dataset)
    machine = machine_of(model, settings, dataset, rows.scaling, mapped_dtype)
    width = max(machine.width, problems.width)
    dual: FoundDual | None = None
    if saved_dual is not None and saved_dual.has_rows:
        dual = dual_sums(settings, problems, machine, saved_dual, dataset.n_rows)
    elif saved_dual is not None and saved_dual.smoothing is not None and isinstance(machine, LinearMachine):
        dual = dual_at_weights(settings, problems, machine, saved_dual.smoothing)
    losses, rounding, weight = np.zeros(problems.count), np.zeros(problems.count), 0.0
    for block in rows.all():
        for piece in pieces(block, width):
            if piece.weight is not None and not piece.weight.all():
                # rows of weight 0 may have any values, products of which may be no numbers
                piece = piece.take(piece.weight > 0)
                if not piece.n_rows:
                    continue
            scored = machine.scores(piece)
            own_losses, largest = problems.losses(piece, scored.values, scored.lost)
            losses += own_losses
            rounding += largest - own_losses
            if dual is not None:
                dual.add(piece, scored)
            weight += float(problems.cost(piece).sum())
    if dual is not None:
        dual.finish(rows)
    norms = machine.norms()
    if problems.are_joint:
        norms = tuple(each.sum(keepdims=True) for each in norms)
    penalties, lost = problems.penalty(*norms[:2]), problems.penalty(*norms[2:])
    rounding += lost
    # −ν n ρ, n the sum of the weights of rows; −ρ is the constant of rows as they were trained on
    threshold = np.zeros(problems.count)
    if settings.loss == ONE_CLASS:
        assert isinstance(machine, LinearMachine), "kernel machines have no such loss"
        threshold += settings.nu * weight * machine.constant
        rounding += settings.nu * weight * machine.lost
    primal = penalties + losses + threshold
    names = ["all classes"] if problems.are_joint else model.problem_names
    return Measured(names, primal, penalties + losses + np.abs(threshold), rounding, dual)


TOLERANCE = 1e-9  # of a figure: so far sums of the same numbers in another order may be off
UNTOLD = 1e-10  # of the primal: so much of the dual may be rounding that training does not count
NOT_CHECKED = (
    "the dual is not checked, for which the dual variables of all rows are needed (train with --state, and pass it "
    "here): that the gap is no larger than the model says is proved as far as its dual is"
)
NOT_BY_ROW = (
    "the dual is not checked: solver {} has its best dual point neither by row nor at the model's weights, but as "
    "sums over rows, from which it cannot be worked out again; train with --solver llsvm, where that takes loss "
    "and penalty, to have it checked"
)
NOT_KEPT = (
    "the dual is not checked: the state has no dual variables by row; where the run said that there was no room "
    "for them, make room, and train again with --fresh"
)
NOT_KNOWN = (
    "the dual is not checked: at the model's weights it depends on digits of scores that 64-bit floats do not "
    "have, since some rows' costs are very large"
)
NOT_PRUNED = (
    "the dual is not checked: its point is made of the weights before --prune, which the model does not have"
)
_NOT_OF_THE_MODEL = ("memory_limit", "threads", "disk_limit", "spill_dir", "spill_format", "cache")
_SHOWN = 3  # of what differs, in a list


class Claim(Protocol):
    """Claim of a model's certificate: (p,) primal and dual; by how much rounding may have changed the primal,
    or (); and minus the least objective that is as good as 0."""

    @property
    def primal(self) -> tuple[float, ...]: ...
    @property
    def dual(self) -> tuple[float, ...]: ...
    @property
    def rounding(self) -> tuple[float, ...]: ...
    @property
    def negligible(self) -> float: ...


def other_data(
    model: Model, dataset: DatasetInfo, fingerprints: Sequence[FileFingerprint] | None
) -> list[str]:
    """Return a sentence for each way in which the data are not those of the training."""
    files = _other_files(model.extra.get(TRAINED_ON), files_summary(fingerprints))
    if model.n_rows != dataset.n_rows:
        files.append(f"the data have {dataset.n_rows:,} rows, and the model was trained on {model.n_rows:,}")
    return files


def unfit(model: Model, dataset: DatasetInfo, width: int) -> list[str]:
    """Return why nothing can be worked out for these data, a sentence each. width: features of a row."""
    sentences = []
    if dataset.kind == CLASSIFICATION and not np.array_equal(dataset.classes, trained_classes(model)):
        here, there = (
            _few([label_text(each) for each in those]) for those in (dataset.classes, trained_classes(model))
        )
        sentences.append(f"the data have the labels {here}, and the model {there}")
    if width != model.n_features_in_:
        sentences.append(f"the data have {width:,} features, and the model {model.n_features_in_:,}")
    return sentences


def _other_files(before: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    if before is None or now is None or before["digest"] == now["digest"]:
        return []
    known, here = ({each["digest"]: each["name"] for each in those["files"]} for those in (before, now))
    new = [name for digest, name in here.items() if digest not in known]
    gone = [name for digest, name in known.items() if digest not in here]
    changed = [name for name in new if name in gone]
    sentences = [f"{_few(changed)} changed since" if changed else ""]
    sentences.append(
        _listed("{} not among the files of the training", [name for name in new if name not in gone])
    )
    sentences.append(_listed("{} missing", [name for name in gone if name not in new]))
    what = "; ".join(filter(None, sentences))
    if not what and before["n_files"] == now["n_files"] == len(known) == len(here):
        return []  # another order
    return [f"the data are not those that the model was trained on: {what or 'their content differs'}"]


def _listed(words: str, names: list[str]) -> str:
    return words.format(f"{_few(names)} {'is' if len(names) == 1 else 'are'}") if names else ""


def _few(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"{more} more"] if more > 0 else [])])


def primal_differences(certificate: Claim, measured: Measured) -> list[str]:
    """Return a sentence for each primal that is not what the model says."""
    if len(certificate.primal) != len(measured.primal):
        return [
            f"the certificate is of {len(certificate.primal)} problems, and the data make {len(measured.primal)}"
        ]
    sentences = []
    for name, claim, primal, size, rounding in zip(
        measured.problems,
        certificate.primal,
        measured.primal.tolist(),
        measured.size.tolist(),
        measured.rounding.tolist(),
        strict=True,
    ):
        of = f" of {name}" if len(measured.problems) > 1 else ""
        if not (agree(claim, primal, size, rounding) or _as_good_as_0(certificate, claim, primal)):
            off = abs(claim - primal) / max(abs(primal), 1e-300)
            sentences.append(
                f"the primal{of} is {primal:.12g}, and the model says {claim:.12g} ({off:.2g} of it off)"
            )
    return sentences


def other_training(
    model: Model, state: KeptDual, dataset: DatasetInfo, problems: Problems
) -> tuple[list[str], bool]:
    """Return a sentence for each way in which the training of a state was not that of the model; and whether its
    dual point, by its shape, is one for the model and these rows. problems: of the model."""
    now = json.loads(json.dumps(with_new_names(model.settings)))
    sentences = [
        f"the state is of {option.flag} {state.settings.get(name)}, and the model of {now.get(name)}"
        for name, option in OPTIONS.items()
        if name not in _NOT_OF_THE_MODEL and state.settings.get(name) != now.get(name)
    ]
    fits = state.has_rows and state.shape == (dataset.n_rows, problems.row_width)
    if state.has_rows and not fits:
        there, here = (
            f"{rows:,} rows, {each} of each"
            for rows, each in (state.shape, (dataset.n_rows, problems.row_width))
        )
        sentences.append(f"the state has dual variables of {there}, and the data and the model make {here}")
    if state.smoothing is not None and not sentences and PRUNED not in model.extra:
        fits = len(state.smoothing) == (0 if problems.settings.multiclass == SOFTMAX else problems.count)
    return sentences, fits


def proven_dual(certificate: Claim, measured: Measured) -> NDArray[np.float64] | None:
    """Return (p,) D of each problem; None where there is no feasible point, or none that is known."""
    dual = measured.dual
    return (
        dual.values if dual is not None and dual.proves and _is_known(certificate, dual, measured) else None
    )


def _is_known(certificate: Claim, dual: FoundDual, measured: Measured) -> bool:
    """Return False where it falls short of the claim, and rounding is so large that any dual from 0 to the
    primal agrees."""
    size = np.abs(measured.primal)
    short = dual.values + UNTOLD * size + TOLERANCE * np.abs(dual.values) < certificate.dual
    return not (short & (2.0 * dual.rounding > size)).any()


def not_checked(model: Model, state: KeptDual | None, measured: Measured | None) -> str:
    """Return what of the claim is left open, in a sentence, or ""."""
    certificate = model.certificate
    assert certificate is not None
    if (
        measured is not None
        and measured.dual is not None
        and not _is_known(certificate, measured.dual, measured)
    ):
        return NOT_KNOWN
    if state is None:
        return NOT_CHECKED
    if state.smoothing is not None:
        return NOT_PRUNED if PRUNED in model.extra else ""
    if state.has_rows:
        return ""
    solver = model.extra.get("solver", "of the model")
    return NOT_KEPT if solver == "llsvm" else NOT_BY_ROW.format(solver)


def dual_differences(certificate: Claim, measured: Measured) -> list[str]:
    """Return a sentence for each way in which the dual variables do not prove what the model says."""
    dual = measured.dual
    if dual is None:
        return []
    if dual.infeasible:
        return [
            f"{dual.infeasible:,} rows have dual variables outside their bounds, so that their dual proves nothing "
            f"({dual.first})"
        ]
    sentences = []
    for name, claim, value, size, rounding, unbalanced, untold in zip(
        measured.problems,
        certificate.dual,
        dual.values.tolist(),
        dual.sizes.tolist(),
        dual.rounding.tolist(),
        dual.unbalanced.tolist(),
        (UNTOLD * np.abs(measured.primal)).tolist(),
        strict=True,
    ):
        of = f" of {name}" if len(measured.problems) > 1 else ""
        if unbalanced:
            sentences.append(
                f"the dual variables{of} times their signs do not sum to 0, as --intercept asks, so that their "
                "dual proves nothing"
            )
        elif not (
            value >= claim
            or agree(claim, value, size, rounding, untold)
            or _as_good_as_0(certificate, claim, value)
        ):
            sentences.append(f"the dual{of} is {value:.12g}, and the model says {claim:.12g}")
    return sentences


def agree(claim: float, value: float, size: float, rounding: float = 0.0, untold: float = 0.0) -> bool:
    """Return whether two figures agree. size: of the terms that ``value`` is the sum of. rounding: may have
    changed it by so much, and as much the claim. untold: so much more training leaves out of account."""
    allowed = max(TOLERANCE * abs(value), 1e-6 * TOLERANCE * size, untold) + 2.0 * rounding
    return math.isfinite(value) and abs(claim - value) <= allowed


def _as_good_as_0(certificate: Claim, *objectives: float) -> bool:
    """Return whether an objective is as good as 0, see ``Claim``."""
    return max(map(abs, objectives)) <= certificate.negligible < math.inf


def gap_differences(model: Model, settings: Settings, measured: Measured) -> list[str]:
    """Return what the model says of its gap that its own figures, and the primal found, do not bear out."""
    certificate = model.certificate
    assert certificate is not None
    n = min(len(certificate.primal), len(measured.primal))
    off = 2.0 * measured.rounding[:n]  # see ``agree``
    near_primal = np.clip(certificate.primal[:n], measured.primal[:n] - off, measured.primal[:n] + off)
    sentences = []
    rounding = certificate.rounding or (0.0,) * n
    for dual, primal, more in zip(certificate.dual, near_primal.tolist(), rounding, strict=False):
        if dual - primal > more + 1e-7 * abs(dual):
            sentences.append(f"the model says that the dual is {dual:.12g}, which is above the primal")
    gap = gap_of(certificate, near_primal)
    of_these = PRUNED not in model.extra  # a model with --prune says so of the weights before
    if model.converged and of_these and not gap <= settings.tol * (1.0 + 1e-6):
        sentences.append(
            f"the model says that it has converged to {settings.tol:g}, but its gap is {gap:.6g}"
        )
    if any(now < before for before, now in pairwise(row["passes"] for row in model.history)):
        sentences.append("the passes of the model's history do not follow each other")
    return sentences


def gap_of(
    certificate: Claim, primal: NDArray[np.float64] | None = None, dual: NDArray[np.float64] | None = None
) -> float:
    """Return the largest relative gap of the problems. primal, dual: (p,) as found; None: those of the claim."""
    gaps = [0.0]
    rounding = certificate.rounding or (0.0,) * len(certificate.dual)
    primals = certificate.primal if primal is None else primal.tolist()
    duals = certificate.dual if dual is None else dual.tolist()
    for p, d, more in zip(primals, duals, rounding, strict=False):
        if p > 0 or -d > certificate.negligible:
            gaps.append((abs(p - d) + more) / (p if p > 0 else -d))
    return max(gaps)
