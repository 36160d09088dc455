"""Every option is checked where it is set."""

import json

import pytest

from llsvm.errors import UsageError
from llsvm.settings import Settings
from llsvm.train import make_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0),
        ("C", float("nan")),
        ("C", float("inf")),
        ("tol", 0),
        ("tol", -1e-3),
        ("loss", "log"),
        ("max_passes", 0),
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
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=name.replace("_", ".")):
        Settings(**{name: value})


@pytest.mark.parametrize("multi_class", ["crammer-singer", "weston-watkins"])
@pytest.mark.parametrize(
    "others",
    [{"loss": "squared_hinge"}, {"paper": True}, {"penalty": "l1", "solver": "auto"}, {"solver": "smsvm"}],
)
def test_direct_multi_class_has_one_form_and_one_method(multi_class, others):
    with pytest.raises(UsageError, match=f"{multi_class} has"):
        Settings(multi_class=multi_class, **others)
    assert Settings(multi_class=multi_class, solver="auto").multi_class == multi_class


def test_plain_values():
    values = Settings(class_weight={1.0: 2, "b": 3}, C=2).as_dict()
    assert json.loads(json.dumps(values))["class_weight"] == {"1.0": 2.0, "b": 3.0}
    assert make_settings(None, {**values, "class_weight": None}).C == 2


def test_unknown_options_are_named():
    with pytest.raises(UsageError, match="unknown option 'memory'; there are"):
        make_settings(None, {"memory": "1GB"})
