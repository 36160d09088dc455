"""scikit-learn's callbacks, from its version 1.9 on: a fit is a task, and each full pass one of its subtasks.

Of an older scikit-learn an estimator has no ``set_callbacks``, and nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llsvm.models.model import Model
from llsvm.solvers.base import Report
from llsvm.training.training import Training

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FRAMES = 1  # that ``with_callbacks`` adds to a call
except ImportError:
    FRAMES = 0

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Mixin without callbacks."""

    def with_callbacks(method: Any) -> Any:
        return method


class Tasks:
    """Tasks of one fit, which an estimator's callbacks are told of."""

    def __init__(
        self,
        estimator: Any,
        told: Mapping[str, Any],
        max_passes: int | None,
        attributes: Callable[[Model], Mapping[str, Any]],
    ) -> None:
        """The fit begins. told: X, y and metadata, as far as there are any. attributes: of the estimator, if it
        were fitted with a model."""
        self._reported = {"estimator": estimator, **told}
        self._attributes = attributes
        # the last one is begun, and ends as nothing
        max_subtasks = None if max_passes is None else max_passes + 1
        self._whole = estimator._init_callback_context(max_subtasks=max_subtasks)
        self._whole.call_on_fit_task_begin(**self._reported)
        self._pass: Any = None  # that is under way

    def follow(self, report: Report, training: Training) -> None:
        """Call the callbacks after each report. Raises KeyboardInterrupt where a callback has had enough."""
        stop = False
        if report.kind == "pass" and self._pass is not None:

            def reached() -> Mapping[str, Any] | None:
                model = training.model_so_far()
                return None if model is None else self._attributes(model)

            stop = self._pass.call_on_fit_task_end(reconstruction_attributes=reached, **self._reported)
            self._pass = None
        if stop:
            raise KeyboardInterrupt
        if self._pass is None:
            self._pass = self._whole.subcontext(task_name="pass")
            self._pass.call_on_fit_task_begin(**self._reported)

    def end(self, model: Model) -> None:
        """End the fit."""
        if self._pass is not None:
            self._pass.call_on_fit_task_end(estimator=self._reported["estimator"])
        self._whole.call_on_fit_task_end(
            reconstruction_attributes=lambda: self._attributes(model), **self._reported
        )
