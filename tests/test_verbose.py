"""What functions and estimators say while they train, where they are asked to."""

import builtins
import sys
import types

import pytest
from oracle import rows

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.progress import Progress
from llsvm.training.progress_display import report_display

X, Y = rows(n=300, d=5)


def lines(capsys, verbose):
    model = llsvm.train(X, Y, tol=1e-5, verbose=verbose)
    found = capsys.readouterr()
    assert found.out == ""
    return model, found.err.splitlines()


def test_where_no_terminal_is_there_are_lines_on_standard_error(capsys):
    model, said = lines(capsys, 1)
    assert len(said) >= len(model.history) + 1  # the first reading too
    assert sum("pass" in line for line in said) >= len(model.history)
    assert lines(capsys, 0)[1] == []


@pytest.mark.parametrize(("verbose", "said"), [(1, 0), (2, 1)])
def test_epochs_are_for_those_who_ask_for_more(capsys, verbose, said):
    with report_display(Progress(), Settings(), verbose) as show:
        show(Report("epoch", 1))
    assert len(capsys.readouterr().err.splitlines()) == said


@pytest.mark.parametrize(
    "fit", [lambda made: made.fit(X, Y), lambda made: made.partial_fit(X, Y, classes=[0, 1])]
)
def test_estimators_say_it_too(capsys, fit):
    made = fit(LLSVMClassifier(verbose=1))
    assert f"pass {made.n_iter_}: within" in capsys.readouterr().err
    fit(LLSVMClassifier())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_search_for_C_says_it_too(capsys, caplog, verbose):
    reports = []
    with caplog.at_level("INFO", "llsvm"):
        found = llsvm.tune(X, Y, C="0.1,1", folds=2, verbose=verbose, callback=reports.append)
    assert found.model.converged
    kinds = [report.kind for report in reports]
    assert kinds.count("pass") >= found.model.certificate.passes
    assert len(caplog.records) >= kinds.count("pass")
    assert (capsys.readouterr().err.count("pass") >= kinds.count("pass")) == bool(verbose)
    made = LLSVMClassifierCV([0.1, 1.0], cv=2, verbose=verbose).fit(X, Y)
    assert made.n_iter_
    assert ("pass" in capsys.readouterr().err) == bool(verbose)


def test_a_notebook_gets_lines_that_take_their_own_place(capsys, monkeypatch):
    """As Jupyter is known to rich, and as IPython is known to us: by what ``display`` is given."""
    shown = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, drawn):
            shown.append(drawn)

    def display(drawn, display_id):
        shown.append(drawn)
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display, module.HTML = display, lambda text: ("HTML", text)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    llsvm.train(X, Y, tol=1e-5, verbose=1)
    assert "text/html" in shown[0]._repr_mimebundle_(include=(), exclude=())
    assert shown[-1] == ("HTML", "")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verbose", ["loud", None, 0.5])
def test_what_is_no_number_is_refused(verbose):
    for call in (
        lambda: LLSVMClassifier(verbose=verbose).fit(X, Y),
        lambda: llsvm.train(X, Y, verbose=verbose),
        lambda: llsvm.tune(X, Y, C="0.1,1", verbose=verbose),
    ):
        with pytest.raises(llsvm.UsageError, match="verbose must be a whole number"):
            call()
    assert LLSVMClassifier(verbose=False).fit(X, Y).score(X, Y) > 0.5
