"""What a model says of data, and how good its predictions are; here the names of the figures to judge models by."""

# Of a sequence of models all of these are shown, and the first that there is judges
FIGURES = (
    *("accuracy", "pinball_loss", "r2", "outlier_share"),
    *("log_loss", "brier_score", "mean_absolute_error", "mean_squared_error"),
)
LARGER_IS_BETTER = {name: name in ("accuracy", "r2") for name in FIGURES} | {
    "macro_f1": True,
    "balanced_accuracy": True,
    "matthews_corrcoef": True,
    "roc_auc": True,
    "average_precision": True,
    "root_mean_squared_error": False,
}
