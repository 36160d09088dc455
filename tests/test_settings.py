"""Every option is checked where it is set."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llsvm.errors import UsageError
from llsvm.settings import methods
from llsvm.settings.methods import METHODS
from llsvm.settings.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0),
        ("C", float("nan")),
        ("C", float("inf")),
        ("tol", 0),
        ("tol", -1e-3),
        ("loss", "log"),
        ("max_passes", -1),
        ("max_seconds", -1),
        ("threads", 0),
        ("bias", -1.0),
        ("bias", float("inf")),
        ("survivors", 0),
        ("survivors", 1.1),
        ("solver", "magic"),
        ("spill_format", "zip"),
        ("cache", "perhaps"),
        ("zero_based", "maybe"),
        ("class_weight", "even"),
        ("class_weight", {1: -1.0}),
        ("class_weight", {1: float("nan")}),
        ("class_weight", {1: "2"}),
        ("class_weight", 3),
        ("C", "1"),
        ("tol", None),
        ("max_passes", 2.5),
        ("threads", True),
        ("paper", "no"),
        ("features", "age"),
        ("features", [1]),
        ("label", ["a"]),
        ("bias", "much"),
        ("bias", None),
        ("memory_limit", 2.5),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=name.replace("_", ".")):
        Settings(**{name: value})


def test_values_are_taken_in_every_form_that_means_them():
    chosen = Settings(
        C=np.float32(2), max_passes=np.int64(3), paper=np.bool_(False), features=["a"], label=3, positive=1,
        spill_dir=Path("/tmp"), memory_limit=2e9,
    )  # fmt: skip
    assert (chosen.features, chosen.label, chosen.positive) == (("a",), "3", "1")
    assert (chosen.spill_dir, chosen.memory_limit) == ("/tmp", 2_000_000_000)
    assert Settings(bias="auto", class_weight={"a": np.float64(2)}).bias == "auto"


@pytest.mark.parametrize("multiclass", ["crammer-singer", "weston-watkins"])
@pytest.mark.parametrize(
    "others",
    [{"loss": "squared_hinge"}, {"paper": True}, {"penalty": "l1", "solver": "auto"}, {"solver": "smsvm"}],
)
def test_direct_multiclass_has_one_form_and_one_method(multiclass, others):
    with pytest.raises(UsageError, match=f"multiclass {multiclass}( |$)"):
        Settings(multiclass=multiclass, **others)
    assert Settings(multiclass=multiclass, solver="auto").multiclass == multiclass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"C": 3, "lambda1": 1.0, "penalty": "l1"}, "^C and lambda1 say the same"),
        ({"C": 3, "lambda2": 1.0}, "^C and lambda2 say the same"),
        ({"l1_ratio": 0.3}, "^l1_ratio has no meaning here: pass penalty elasticnet"),
        (
            {"l1_ratio": 0.3, "penalty": "elasticnet", "lambda1": 1.0, "lambda2": 1.0},
            "^l1_ratio has no meaning",
        ),
        ({"epsilon": 0.2}, "^epsilon has no meaning here: pass loss epsilon_insensitive or squared_eps"),
        ({"quantile": 0.2}, "^quantile has no meaning here: pass loss quantile"),
        ({"delta": 0.2}, "^delta has no meaning here: pass loss huber"),
        ({"class_weight": "even"}, "^class_weight must be balanced, or factors of labels, not 'even'"),
        ({"max_passes": -1}, r"^max_passes must be 0 \(no limit\) or a positive number, not -1"),
    ],
)
def test_what_would_be_left_aside_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        Settings(**options)


def test_a_loss_that_no_solver_has_is_refused_with_a_sentence(monkeypatch):
    without = {name: replace(each, objectives={"hinge": ("l2",)}) for name, each in METHODS.items()}
    monkeypatch.setattr(methods, "METHODS", without)
    for solver in ("auto", "llsvm"):
        with pytest.raises(UsageError, match=r"^no solver has loss squared_hinge yet: leave it out"):
            Settings(loss="squared_hinge", solver=solver)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epsilon", -0.1, "0 or a positive number"),
        ("epsilon", float("inf"), "0 or a positive number"),
        ("quantile", 0.0, "between 0 and 1"),
        ("quantile", 1, "between 0 and 1"),
        ("delta", 0, "a positive number"),
    ],
)
def test_parameters_of_losses_are_checked(name, value, said):
    with pytest.raises(UsageError, match=f"^{name} must be {said}, not"):
        Settings(**{name: value})


def test_no_limit_of_passes_has_two_forms():
    assert Settings(max_passes=0) == Settings(max_passes=None)


def test_plain_values():
    values = Settings(class_weight={1.0: 2, "b": 3}, C=2).as_dict()
    assert json.loads(json.dumps(values))["class_weight"] == {"1.0": 2.0, "b": 3.0}
    assert Settings(**{**values, "class_weight": None}).C == 2


@pytest.mark.parametrize("name", ["features", "exclude", "categorical", "text", "cross"])
@pytest.mark.parametrize("value", ["1", 1, (1,), ("1", 1)])
def test_a_list_of_text_is_shown_where_there_is_none(name, value):
    with pytest.raises(UsageError, match=rf"{name} must be a list of text, not .*: write \[") as error:
        Settings(**{name: value})
    remedy = json.loads(str(error.value).partition(": write ")[2].replace("'", '"'))
    assert remedy == ["1"] * len(remedy)


@pytest.mark.parametrize("value", [True, (None,), 1.5])
def test_no_list_of_text_is_shown_for_what_names_no_column(value):
    with pytest.raises(UsageError, match=r"exclude must be a list of text, not [^:]*$"):
        Settings(exclude=value)
