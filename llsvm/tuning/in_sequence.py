"""Training of candidates of solver smsvm, for penalties with ‖w‖₁: of each fold, C after C, each of which begins at
the weights of the one before; in passes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import count_problems
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.tuning.held_out import by_column
from llsvm.tuning.trained import WEIGHTS, PassCounts, Trained, TrainingWork


class InSequence:
    """Training of candidates one after the other. objectives: their numbers."""

    def __init__(self, work: TrainingWork, objectives: Sequence[int]) -> None:
        self._work = work
        self.counts = PassCounts("smsvm", objectives)

    def train(
        self, objectives: Sequence[int], costs: Sequence[float], folds: Sequence[int]
    ) -> Iterator[Trained]:
        """Train each of the objectives with each C, ascending, and fold. Raises BudgetError, DiskError,
        Float64Restart."""
        for fold in folds:
            for objective in objectives:
                yield self._trained(objective, costs, fold)
                self.counts.batch_ended()

    def _trained(self, objective: int, costs: Sequence[float], fold: int) -> Trained:
        work, stream = self._work, self._work.stream
        settings = replace(work.objectives[objective], solver="smsvm")
        weight, out, dataset = work.class_weight(objective), work.folds[fold], stream.dataset
        solver = SmSVM(settings, weight, work.threads, leaves_out=out)
        k = count_problems(dataset.n_classes, settings.multiclass == "ovo")
        with stream.budget.reserve(WEIGHTS, weights_bytes(dataset, settings, len(costs))):
            coef = by_column(len(costs), 1, k, dataset.n_columns + 1)
            primals, gaps = np.zeros((2, len(costs), 1))
            solver.prepare(stream)
            for c, C in enumerate(costs):
                last = None
                for report in solver.optimise(Penalty.of(replace(settings, C=C), dataset.weight_sum)):
                    work.take(report)
                    last = report if report.certificate is not None else last
                assert last is not None
                assert last.certificate is not None
                coef[c, 0] = last.coef
                primals[c], gaps[c] = last.certificate.total_primal, last.certificate.relative_gap
            self.counts.add_passes(solver.passes)
            del solver, last
            stream.reset()
        return Trained([(objective, C) for C in costs], [fold], coef, primals, gaps)


def weights_bytes(dataset: DatasetInfo, settings: Settings, n_costs: int) -> int:
    """Return the bytes of the weights of a fold's candidates."""
    k = count_problems(dataset.n_classes, settings.multiclass == "ovo")
    return 8 * n_costs * k * (dataset.n_columns + 1)
