"""Settings, ``llsvm train`` and the estimator have the same options, with the same defaults, and explain each."""

import inspect
import itertools
import pickle
import re
from dataclasses import fields

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import FORMATS
from llsvm.errors import (
    BudgetError,
    DataError,
    LLSVMWarning,
    UsageError,
    in_python,
    options_as_typed,
)
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.outlier_detector import LLSVMOutlierDetector
from llsvm.estimators.regressor import LLSVMRegressor
from llsvm.settings.methods import METHODS
from llsvm.settings.objective import CLASSIFICATION, KINDS
from llsvm.settings.option import COMMON, ESTIMATOR_NAMES, GROUPS, MOST_USED, RENAMED
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.solvers import SOLVERS
from llsvm.tuning.grid import OF_OBJECTIVE

DEFAULTS = {field.name: field.default for field in fields(Settings)}
OF_THE_STATE = {"state", "checkpoint_every", "fresh", "keep_cache"}
COMMAND_ONLY = {"data", "model", "context", "save_run", "test", "json", "quiet", "trace"} | OF_THE_STATE
TO_OPTION = {there: name for name, there in ESTIMATOR_NAMES.items()}
# Of files larger than memory, or for experts: from Python through llsvm.train
NOT_OF_THE_ESTIMATOR = {"paper", "spill_format", "cache", "survivors"}
OF_ESTIMATORS = {"warm_start", "verbose"}
OF_REGRESSION = {"epsilon", "quantile", "delta"}
OF_CLASSES = {"class_weight", "multiclass"}
OF_NESVM = {"step", "mu", "mu_end", "homotopy", "stop"}  # which takes no regression
OF_OUTLIERS = {"nu"}
OF_LABELS = {"C", "loss", "penalty", "l1_ratio", "lambda1", "lambda2", "bias", "intercept"}
NOT_THERE = {
    LLSVMClassifier: NOT_OF_THE_ESTIMATOR | OF_REGRESSION | OF_OUTLIERS,
    LLSVMRegressor: NOT_OF_THE_ESTIMATOR | OF_CLASSES | OF_NESVM | OF_OUTLIERS,
    LLSVMOutlierDetector: NOT_OF_THE_ESTIMATOR | OF_CLASSES | OF_REGRESSION | OF_NESVM | OF_LABELS,
}


def parameters(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


READING = set(parameters(LLSVMClassifier.fit_file)) - {"self", "path"}


def commands():
    return get_command(app).commands


def test_the_command_has_every_option_as_it_is_declared():
    given = {option.name: option for option in commands()["train"].params if option.name not in COMMAND_ONLY}
    assert set(given) == set(OPTIONS) == set(DEFAULTS)
    for name, option in OPTIONS.items():
        typed = given[name]
        assert option.flag in typed.opts, name
        assert (typed.default or None) == (option.default or None), name
        assert typed.help == option.help != "", name
        if option.choices:
            assert typed.metavar.split("|") == list(option.choices), name


def test_the_state_is_asked_for_alike():
    typed = {
        option.name: option.default for option in commands()["train"].params if option.name in OF_THE_STATE
    }
    in_python = {name: default for name, default in parameters(llsvm.train).items() if name in OF_THE_STATE}
    assert typed == in_python
    assert set(typed) == OF_THE_STATE


def test_commands_that_share_an_option_share_its_declaration():
    for name, command in commands().items():
        for each in command.params:
            if each.name in OPTIONS and name != "demo":
                assert each.opts[0] == OPTIONS[each.name].flag, (name, each.name)
                listed = name == "tune" and each.name in OF_OBJECTIVE
                same = each.metavar == (OPTIONS[each.name].stands_for or None)
                assert same or listed or each.name == "penalty"


def test_every_option_has_a_group_and_allowed_values_include_the_default():
    for name, option in OPTIONS.items():
        assert option.group in GROUPS, name
        assert not option.choices or option.default in (None, *option.choices), name
        assert set(option.methods) <= set(METHODS), name
        with pytest.raises(UsageError, match=name):
            Settings(**{name: object()})
    assert set(OPTIONS["format"].choices) == set(FORMATS)


def test_values_that_are_not_allowed_name_the_nearest():
    for name, option in OPTIONS.items():
        if option.choices:
            wrong = option.choices[-1] + "x"
            with pytest.raises(
                UsageError, match=rf"^{name} must be one of .*; did you mean .*{option.choices[-1]}"
            ):
                Settings(**{name: wrong})


def test_help_has_its_options_in_groups_those_that_most_people_need_first():
    text = CliRunner().invoke(app, ["train", "--help"]).stdout
    heads = [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z][a-z ]*:", line)]
    groups = [group for group in GROUPS if group in heads]
    assert heads[:2] == ["Arguments", MOST_USED]
    assert [head for head in heads if head in GROUPS] == groups
    assert len(groups) > 8
    first = text[text.index(MOST_USED) : text.index("\nData:")]
    flags = re.findall(r"^  (-[-\w]+)", first, re.MULTILINE)
    assert flags == ["--model", *(OPTIONS[name].flag for name in COMMON)]
    assert len(flags) == 12


def test_the_estimator_takes_the_joint_problems_as_scikit_learn_writes_them():
    X, y = np.eye(6), np.arange(6) % 3
    for written, option in (("crammer_singer", "crammer-singer"), ("weston_watkins", "weston-watkins")):
        models = [
            LLSVMClassifier(multi_class=name, random_state=0).fit(X, y).model_ for name in (written, option)
        ]
        assert models[0].settings["multiclass"] == option
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    with pytest.raises(UsageError, match=r"^multi_class must be one of ovr, ovo"):
        LLSVMClassifier(multi_class="crammer").fit(X, y)


@pytest.mark.parametrize("estimator", NOT_THERE)
def test_the_estimators_have_every_option(estimator):
    given = parameters(estimator.__init__)
    del given["self"]
    given.pop("fit_intercept", None)
    for name in OF_ESTIMATORS:
        del given[name]
    names = {TO_OPTION.get(name, name) for name in given}
    assert names | READING | NOT_THERE[estimator] == set(DEFAULTS)
    assert not names & NOT_THERE[estimator]


@pytest.mark.parametrize(
    ("text", "names"),
    [(estimator.__doc__, set(parameters(estimator.__init__)) - {"self"}) for estimator in NOT_THERE],
)
def test_every_option_is_explained(text, names):
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_every_command_explains_its_options():
    for name, command in commands().items():
        for option in command.params:
            assert option.help or option.name == "help", (name, option.name)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_old_names_are_refused_with_the_new_one_named(old, new):
    done = CliRunner().invoke(app, ["train", "data", "--model", "m", f"--{old.replace('_', '-')}", "x"])
    assert done.exit_code == 2
    assert f"--{old.replace('_', '-')} is now called --{new}" in done.stderr
    with pytest.raises(UsageError, match=f"{old} is now called {new}"):
        llsvm.train("data", **{old: "x"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trian", "no command trian; did you mean train"),
        ("nonsense", "no command nonsense; there are train, path"),
        ("--versoin", "no option --versoin; did you mean --version"),
        ("train --toll 3", "no option --toll; did you mean --tol "),
        ("train --n-jobs 3", "--n-jobs is the estimator's name, here it is called --threads"),
        ("train --max-iter 3", "--max-iter is the estimator's name, here it is called --max-passes"),
        ("train --zzz", r"no option --zzz \(llsvm train --help"),
        ("train --tol x", r"--tol.*not a valid float.*llsvm train --help"),
        ("train data", "Missing option '--model'"),
        ("train data --label --model m", "--label needs a value, and --model is an option"),
        ("tune data --probabilities -C 1 --model m", "--probabilities needs a value, and -C is an option"),
        ("convert a b.svm --to parq", "--to must be one of .*, not 'parq'; did you mean parquet"),
        (
            "export m p --to liblin",
            "--to must be one of liblinear, onnx, not 'liblin'; did you mean liblinear",
        ),
        ("train x --model m --format cvs", "--format must be one of .*; did you mean csv"),
        ("evaluate m d --header yes", "llsvm evaluate has no option --header"),
    ],
)
def test_words_that_make_no_sense_get_one_sentence(words, said):
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert re.fullmatch(rf"llsvm: error: .*{said}.*\n", done.stderr)


@pytest.mark.parametrize("command", ["", *commands()])
def test_every_command_has_short_help(command):
    words = command.split()
    done = CliRunner().invoke(app, [*words, "-h"])
    assert done.exit_code == 0
    assert done.stdout == CliRunner().invoke(app, [*words, "--help"]).stdout


def test_the_memory_limit_has_a_short_form():
    option = next(each for each in commands()["train"].params if each.name == "memory_limit")
    assert option.opts == ["--memory-limit", "--memory"]


def test_messages_name_options_as_their_reader_writes_them(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(DataError) as python:
        llsvm.train(rows)
    assert "pass label with a name" in str(python.value)
    done = CliRunner().invoke(app, ["train", str(rows), "--model", str(tmp_path / "m")])
    assert "pass --label with a name" in done.stderr
    with pytest.raises(UsageError, match=r"^max_passes must be 0 \(no limit\) or a positive number, not -1$"):
        llsvm.train(rows, max_passes=-1)
    done = CliRunner().invoke(app, ["train", str(rows), "--model", str(tmp_path / "m"), "--max-passes", "-1"])
    assert done.stderr == "llsvm: error: --max-passes must be 0 (no limit) or a positive number, not -1\n"
    with pytest.raises(UsageError, match=r"^max_iter must be 0 \(no limit\) or a positive number, not -1$"):
        LLSVMClassifier(max_iter=-1).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(
        UsageError, match=r"^penalty l1 is for solver smsvm or nesvm, not for llsvm: pass solver"
    ):
        llsvm.train(rows, penalty="l1", solver="llsvm")


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        (
            "pass --memory-limit 2GB (--no-homotopy), or -C 3",
            "pass memory_limit 2GB (homotopy=False), or C 3",
        ),
        ("not -1, -inf, a-b, x--y, /data/--x or '--x'", "not -1, -inf, a-b, x--y, /data/--x or '--x'"),
        ("write `llsvm import PATH --model NEW` (--label)", "write `llsvm import PATH --model NEW` (label)"),
    ],
)
def test_options_in_sentences(sentence, said):
    assert in_python(sentence) == str(UsageError(sentence)) == str(LLSVMWarning(sentence)) == said
    with options_as_typed():
        assert str(UsageError(sentence)) == sentence
    error = BudgetError("rows", 1, 2, {"rows": 1})
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_solver_has_a_method_and_every_method_a_solver():
    assert set(SOLVERS) == set(METHODS)
    for method in METHODS.values():
        assert set(method.objectives) <= set(OPTIONS["loss"].choices)
        assert set(method.multiclass) <= set(OPTIONS["multiclass"].choices)
        assert method.solver in ("", *OPTIONS["solver"].choices)
        for penalties in method.objectives.values():
            assert set(penalties) <= set(OPTIONS["penalty"].choices)


def test_what_a_method_does_not_take_is_refused_and_what_it_takes_is_not():
    """Every loss, penalty and form with every solver: Settings says what METHODS says."""
    axes = [OPTIONS[name].choices for name in ("solver", "loss", "penalty", "multiclass")]
    for solver, loss, penalty, form in itertools.product(*axes):
        able = [
            method.name
            for method in METHODS.values()
            if solver in ("auto", method.solver)
            and (form == "ovr" or KINDS[loss] == CLASSIFICATION)
            and penalty in method.objectives.get(loss, ())
            and form in method.multiclass
            and not method.kernels
        ]
        options = {"solver": solver, "loss": loss, "penalty": penalty, "multiclass": form}
        if able:
            assert Settings(**options).method.name == able[0]
        else:
            with pytest.raises(UsageError):
                Settings(**options)
