"""Settings, ``llsvm train`` and the estimator have the same options, with the same defaults, and explain each."""

import inspect
import re
from dataclasses import fields

import pytest
from typer.main import get_command

from llsvm.cli import app
from llsvm.cli.train import train
from llsvm.estimators import _READING, LLSVMClassifier
from llsvm.settings.settings import Settings

DEFAULTS = {field.name: field.default for field in fields(Settings)}
COMMAND = {"multiclass": "multi_class", "memory": "memory_limit"}  # as the command calls some of them
COMMAND_ONLY = {"data", "model", "json", "quiet"}
ESTIMATOR = {
    "max_iter": "max_passes",
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
    given = {COMMAND.get(name, name): default for name, default in parameters(train).items()}
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
