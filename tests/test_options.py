"""Settings, ``llsvm train`` and the estimator have the same options, with the same defaults, and explain each."""

import inspect
import re
from dataclasses import fields

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.cli.train import train
from llsvm.errors import UsageError
from llsvm.estimators import _READING, LLSVMClassifier
from llsvm.settings.renamed import RENAMED
from llsvm.settings.settings import Settings

DEFAULTS = {field.name: field.default for field in fields(Settings)}
COMMAND_ONLY = {"data", "model", "json", "quiet"}
ESTIMATOR = {
    "max_iter": "max_passes",
    "multi_class": "multiclass",
    "n_jobs": "threads",
    "random_state": "seed",
    "intercept_scaling": "bias",
    "penalize_intercept": "intercept",
}
# scikit-learn's names and habits: an intercept by default, random seeds
OTHER_DEFAULTS = {"random_state", "intercept_scaling", "penalize_intercept"}
# Of files larger than memory, or for experts: from Python through llsvm.train
NOT_OF_THE_ESTIMATOR = {"paper", "spill_format", "cache", "survivors"}


def parameters(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def test_the_command_has_every_option_with_its_default():
    given = parameters(train)
    assert set(given) - COMMAND_ONLY == set(DEFAULTS)
    for name, default in DEFAULTS.items():
        assert given[name] == default or (given[name] is None and default == ()), name


def test_the_estimator_has_every_option_with_its_default():
    given = parameters(LLSVMClassifier.__init__)
    del given["self"], given["fit_intercept"]
    names = {ESTIMATOR.get(name, name) for name in given}
    assert names | _READING | NOT_OF_THE_ESTIMATOR == set(DEFAULTS)
    assert not names & NOT_OF_THE_ESTIMATOR
    for name, default in given.items():
        if name not in OTHER_DEFAULTS:
            assert default == DEFAULTS[ESTIMATOR.get(name, name)], name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (Settings.__doc__, DEFAULTS),
        (LLSVMClassifier.__doc__, set(parameters(LLSVMClassifier.__init__)) - {"self"}),
        (LLSVMClassifier.fit_file.__doc__, _READING),
    ],
)
def test_every_option_is_explained(text, names):
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_every_command_explains_its_options():
    for name, command in get_command(app).commands.items():
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
        ("train --zzz", r"no option --zzz \(llsvm train --help"),
        ("train --tol x", r"--tol.*not a valid float.*llsvm train --help"),
        ("train data", "Missing option '--model'"),
    ],
)
def test_words_that_make_no_sense_get_one_sentence(words, said):
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert re.fullmatch(rf"llsvm: error: .*{said}.*\n", done.stderr)


@pytest.mark.parametrize("command", ["", *get_command(app).commands])
def test_every_command_has_short_help(command):
    words = command.split()
    done = CliRunner().invoke(app, [*words, "-h"])
    assert done.exit_code == 0
    assert done.stdout == CliRunner().invoke(app, [*words, "--help"]).stdout


def test_the_memory_limit_has_a_short_form():
    option = next(each for each in get_command(app).commands["train"].params if each.name == "memory_limit")
    assert option.opts == ["--memory-limit", "--memory"]
