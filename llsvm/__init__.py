"""Linear SVMs on data larger than memory, under a byte limit, with a certificate.

train, tune, predict, write_predictions, explain, evaluate, verify, report, export, load: of files, data frames
and arrays. LLSVMClassifier, LLSVMRegressor, LLSVMOutlierDetector, LLSVMClassifierCV, LLSVMRegressorCV:
scikit-learn estimators. Model and Certificate: what they hand back. LLSVMError and its subclasses: what they raise;
LLSVMWarning: something beside the result went wrong. tracing: a record of what training decides.
"""

from __future__ import annotations

import os

from llsvm.process import VERSION as __version__

TYPE_CHECKING = False  # as typing's, which the program would wait for before it can answer a signal
if TYPE_CHECKING:
    from typing import Any

    from llsvm.errors import (
        BudgetError,
        CertificateError,
        DataError,
        DiskError,
        LLSVMError,
        LLSVMWarning,
        LongRowError,
        MissingColumnError,
        ModelError,
        SpillError,
        UsageError,
    )
    from llsvm.estimators.classifier import LLSVMClassifier
    from llsvm.estimators.outlier_detector import LLSVMOutlierDetector
    from llsvm.estimators.regressor import LLSVMRegressor
    from llsvm.estimators.search import LLSVMClassifierCV, LLSVMRegressorCV
    from llsvm.export import export
    from llsvm.files.tracing import tracing
    from llsvm.models.model import Model
    from llsvm.objective.certificate import Certificate
    from llsvm.predict import evaluate, explain, predict, write_predictions
    from llsvm.report import report
    from llsvm.train import load, train
    from llsvm.tune import Tuned, tune
    from llsvm.verify import verify

__all__ = [
    "BudgetError",
    "Certificate",
    "CertificateError",
    "DataError",
    "DiskError",
    "LLSVMClassifier",
    "LLSVMClassifierCV",
    "LLSVMError",
    "LLSVMOutlierDetector",
    "LLSVMRegressor",
    "LLSVMRegressorCV",
    "LLSVMWarning",
    "LongRowError",
    "MissingColumnError",
    "Model",
    "ModelError",
    "SpillError",
    "Tuned",
    "UsageError",
    "__version__",
    "evaluate",
    "explain",
    "export",
    "load",
    "predict",
    "report",
    "tracing",
    "train",
    "tune",
    "verify",
    "write_predictions",
]

# Before pyarrow is loaded: its own allocators keep what readers free, 100 MB of it after a wide Parquet file.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Loaded when first used, so that ``import llsvm`` and ``llsvm --help`` stay instant; the others are errors.
_WHERE = {
    "Certificate": "llsvm.objective.certificate",
    "LLSVMClassifier": "llsvm.estimators.classifier",
    "LLSVMClassifierCV": "llsvm.estimators.search",
    "LLSVMOutlierDetector": "llsvm.estimators.outlier_detector",
    "LLSVMRegressor": "llsvm.estimators.regressor",
    "LLSVMRegressorCV": "llsvm.estimators.search",
    "Model": "llsvm.models.model",
    "evaluate": "llsvm.predict",
    "explain": "llsvm.predict",
    "export": "llsvm.export",
    "load": "llsvm.train",
    "Tuned": "llsvm.tune",
    "predict": "llsvm.predict",
    "report": "llsvm.report",
    "tracing": "llsvm.files.tracing",
    "train": "llsvm.train",
    "tune": "llsvm.tune",
    "verify": "llsvm.verify",
    "write_predictions": "llsvm.predict",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'llsvm' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_WHERE.get(name, "llsvm.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
