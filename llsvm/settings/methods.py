"""Methods, and what each of them takes. ``Settings``, ``solver="auto"`` and llsvm.solvers.SOLVERS ask here, nobody
else decides.

A method that has learnt a loss, a penalty or a form of multi-class gets a word in METHODS; the options that only
some methods look at name them where they are declared (``methods`` of llsvm.settings.option.Option).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from llsvm.errors import UsageError
from llsvm.settings.features import KERNEL_NAMES
from llsvm.settings.objective import DEFAULT_LOSS, DIRECT, KINKED, LOSSES, SOFTMAX
from llsvm.settings.option import Option


class Objective(Protocol):
    """Objective that settings ask a method for, beside the options that some methods have."""

    @property
    def solver(self) -> str: ...
    @property
    def loss(self) -> str: ...
    @property
    def penalty(self) -> str: ...
    @property
    def multiclass(self) -> str: ...
    @property
    def paper(self) -> bool: ...
    @property
    def kernel_machine(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Method:
    """name: key of METHODS. solver: the value of option ``solver`` that asks for it; "" where its multi-class form
    does. objectives: loss -> the penalties that go with it. multiclass: the forms that it has; two classes are
    "ovr". kernels: that it is a kernel machine for, without a feature map; a method has kernels, or is linear."""

    name: str
    solver: str
    objectives: Mapping[str, tuple[str, ...]]
    multiclass: tuple[str, ...]
    kernels: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.solver or _TITLES[self.name]


_TITLES = {"sequential-dual": "the sequential dual method", "softmax": "multinomial logistic regression"}
_ANY = ("l2", "l1", "elasticnet")
_SMOOTHED = (  # by smsvm, whose kernels take the logistic loss and any of four numbers (PLQLoss)
    *("hinge", "squared_hinge", "least-squares", "logistic"),
    *("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber"),
)
_SQUARES = {"squared_hinge": ("l2",), "least-squares": ("l2",)}

# In the order in which "auto" takes the first that does what is asked for.
METHODS = {
    method.name: method
    for method in (
        Method(
            "llsvm",
            "llsvm",
            dict.fromkeys(LOSSES, ("l2",)),
            ("ovr", "ovo"),
        ),
        Method("smsvm", "smsvm", dict.fromkeys(_SMOOTHED, _ANY), ("ovr", "ovo")),
        Method("nesvm", "nesvm", {**_SQUARES, "hinge": ("l2", "l1")}, ("ovr", "ovo")),
        Method("smo", "smo", {**_SQUARES, "hinge": ("l2",)}, ("ovr", "ovo"), KERNEL_NAMES),
        Method("kernel", "nesvm", {**_SQUARES, "hinge": ("l2",)}, ("ovr", "ovo"), KERNEL_NAMES),
        Method("sequential-dual", "", {"hinge": ("l2",)}, DIRECT),
        Method("softmax", "", {"logistic": ("l2",)}, (SOFTMAX,)),
    )
}
SMOOTHING = ("mu", "homotopy")  # options of how losses are smoothed
TRIAL = ("llsvm", "smsvm")  # between these, where both do it, "auto" decides as it goes: llsvm.solvers.auto


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that is asked for: in words, as the options that ask for it, and which methods can do it."""

    words: str
    asked: str
    met_by: Callable[[Method], bool]

    @property
    def solvers(self) -> str:
        """Return the methods that can do it, as a message names them."""
        able = [method for method in METHODS.values() if self.met_by(method)]
        named = list(dict.fromkeys(method.solver for method in able if method.solver))
        return f"--solver {' or '.join(named)}" if named else able[0].title


def demands(settings: Objective, options: Mapping[str, Option]) -> list[Demand]:
    """Return what the settings ask of a method; options: the declarations."""
    all_demands = []
    if settings.paper:
        all_demands.append(Demand("the paper's algorithm", "--paper", _looks_at(options["paper"])))
    form, kernel = settings.multiclass, settings.kernel_machine
    all_demands.append(
        Demand(
            "one against one" if form == "ovo" else form,
            f"--multiclass {form}",
            lambda method: form in method.multiclass,
        )
    )
    if kernel is None:
        all_demands.append(Demand("a linear model", "no --kernel", lambda method: not method.kernels))
    else:
        all_demands.append(
            Demand(f"the {kernel} kernel", f"--kernel {kernel}", lambda method: kernel in method.kernels)
        )
    for name, each in options.items():
        value = getattr(settings, name)
        if each.methods and name != "paper" and value != each.default:
            asked = _asked(each, value)
            if name in SMOOTHING and settings.loss not in KINKED:
                raise UsageError(
                    f"{asked} is of how a loss with a kink is smoothed, and --loss "
                    f"{settings.loss} has none: leave one of them out"
                )
            words = name if value is True else f"{name} {value}"
            all_demands.append(Demand(words, asked, _looks_at(each)))
    loss, penalty = settings.loss, settings.penalty
    return [
        *all_demands,
        Demand(f"the {loss} loss", f"--loss {loss}", lambda method: loss in method.objectives),
        Demand(
            f"the {penalty} penalty",
            f"--penalty {penalty}",
            lambda method: any(penalty in each for each in method.objectives.values()),
        ),
    ]


def _asked(option: Option, value: Any) -> str:
    """Return the option as the command line has it."""
    if isinstance(value, bool) and option.flags:
        return option.flags[0].partition("/")[0 if value else 2]
    return option.flag if value is True else f"{option.flag} {value}"


def _looks_at(option: Option) -> Callable[[Method], bool]:
    return lambda method: method.name in option.methods


def able_methods(settings: Objective, demanded: list[Demand]) -> list[Method]:
    """Return the methods that do all of it, in the order of "auto"; of these the named solver's, if one is named.
    Raises UsageError where there are none."""
    for each in demanded:
        if not any(map(each.met_by, METHODS.values())):
            raise UsageError(f"no solver has {each.asked} yet: leave it out")
    able = [
        method
        for method in METHODS.values()
        if all(each.met_by(method) for each in demanded)
        and settings.penalty in method.objectives[settings.loss]
    ]
    named = [method for method in able if settings.solver in ("auto", method.solver)]
    if named:
        return named
    if settings.solver == "auto" or (able and not able[0].solver):
        raise UsageError(_conflict(settings, demanded, able))
    raise UsageError(_not_with_solver(settings, demanded))


def _conflict(settings: Objective, demanded: list[Demand], able: list[Method]) -> str:
    """Why no method does all of it."""
    if able:
        return (
            f"--multiclass {settings.multiclass} has a solver of its own, {able[0].title}, not {settings.solver}: "
            "leave --solver out"
        )
    pairs = [(a, b) for i, b in enumerate(demanded) for a in demanded[:i] if not _are_compatible(a, b)]
    if pairs:
        one, other = pairs[0]
        if one.solvers == other.solvers:
            return f"{one.asked} and {other.asked} do not go together: leave one of them out"
        if other.asked == f"--loss {DEFAULT_LOSS}":  # nobody need have asked for it
            losses = dict.fromkeys(loss for m in METHODS.values() if one.met_by(m) for loss in m.objectives)
            return f"{one.asked} needs --loss {' or '.join(losses)}"
        asked, remedy = one.asked + other.asked, "leave one of them out"
        if "--kernel" in asked and "precomputed" not in asked:
            remedy += ", or pass --feature-map nystroem or rff in the place of the kernel"
        return f"{one.asked} is for {one.solvers}, {other.asked} for {other.solvers}: {remedy}"
    if all(settings.penalty not in method.objectives.get(settings.loss, ()) for method in METHODS.values()):
        return (
            f"no solver has --loss {settings.loss} with --penalty {settings.penalty}: leave one of them out"
        )
    given = [each for each in demanded if each.asked.startswith("-")]
    asked = ", ".join(each.asked for each in given if not all(map(each.met_by, METHODS.values())))
    return f"no solver does all of {asked}: leave one of them out"


def _are_compatible(one: Demand, other: Demand) -> bool:
    return any(one.met_by(method) and other.met_by(method) for method in METHODS.values())


def _not_with_solver(settings: Objective, demanded: list[Demand]) -> str:
    """Why the named solver does not do it."""
    named = [method for method in METHODS.values() if method.solver == settings.solver]
    same_kind = [method for method in named if bool(method.kernels) == (settings.kernel_machine is not None)]
    method = (same_kind or named)[0]
    if all(each.kernels for each in named) and settings.kernel_machine is None:
        words = "pass --kernel, without --feature-map, or leave --solver out"
        return f"{settings.solver} is for kernel machines: {words}"
    for each in demanded:
        if each.met_by(method):
            continue
        if any(map(each.met_by, named)):
            return f"{each.asked} does not go with --kernel {settings.kernel_machine}: leave one of them out"
        hint = ""
        if each.asked.startswith("--kernel"):
            hint = "; or pass --feature-map nystroem or rff, which works with every solver"
        elif each.asked == "--paper" and settings.solver == "nesvm":
            hint = "; for NESVM's Algorithm 1 with its own step pass --step paper"
        remedy = f"pass {each.solvers}" if "--solver" in each.solvers else "leave --solver out"
        return (
            f"{each.asked} is for {each.solvers}, not for {settings.solver}: {remedy}, or leave it out{hint}"
        )
    goes = " or ".join(method.objectives[settings.loss])
    return (
        f"--loss {settings.loss} of --solver {settings.solver} goes with --penalty {goes}, not with "
        f"{settings.penalty}"
    )


def only_method(able: list[Method], demanded: list[Demand]) -> tuple[Method, str] | None:
    """Return the one method that "auto" takes, and why; None where a trial decides between those of TRIAL."""
    names = [method.name for method in able]
    if all(name in names for name in TRIAL):
        return None
    method = able[0]
    others = {name for name in TRIAL if name != method.name}
    others |= set(list(METHODS)[: list(METHODS).index(method.name)])
    without = [(each.words, {name for name in others if not each.met_by(METHODS[name])}) for each in demanded]
    words: list[str] = []  # of the first demand that all others fail, else of those that they fail together
    for each, failing in sorted(without, key=lambda pair: pair[1] != others):
        if failing & others:
            words.append(each)
            others -= failing
    return method, f"{' with '.join(words)} is {method.title}'s"
