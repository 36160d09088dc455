"""Options of ``llsvm train`` that belong to solver nesvm, kernels and feature maps; each is a field of Settings."""

from __future__ import annotations

from typing import Annotated

import typer

Intercept = Annotated[
    bool,
    typer.Option(
        "--intercept", help="A constant feature whose weight is not penalised, as LIBSVM's (solver nesvm)."
    ),
]
Step = Annotated[
    str,
    typer.Option(
        metavar="auto|paper", help="Of nesvm: searched in each pass, or the paper's Lipschitz constant."
    ),
]
Mu = Annotated[
    float | None,
    typer.Option(metavar="FLOAT", help="Of nesvm: the first smoothing parameter.", show_default="1; paper 5"),
]
MuEnd = Annotated[
    float, typer.Option(metavar="FLOAT", help="Of nesvm with --stop change: smoothing at which it may stop.")
]
Homotopy = Annotated[
    bool, typer.Option("--homotopy/--no-homotopy", help="Of nesvm: let the smoothing parameter fall.")
]
Stop = Annotated[
    str,
    typer.Option(
        metavar="gap|change",
        help="Of nesvm: stop by the gap, or when the objective changes by less than --tol.",
    ),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        metavar="rbf|poly|linear|precomputed",
        help="Kernel machine (solver nesvm), or what --feature-map approximates. rbf: exp(-gamma |x - z|^2); "
        "poly: (gamma x.z + coef0)^degree; precomputed: the rows are the kernel matrix's.",
        show_default="none; rbf with a map",
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(metavar="FLOAT", help="Of the kernel.", show_default="1 / number of features"),
]
Degree = Annotated[int, typer.Option(metavar="INT", help="Of kernel poly.")]
Coef0 = Annotated[float, typer.Option(metavar="FLOAT", help="Of kernel poly.")]
FeatureMap = Annotated[
    str | None,
    typer.Option(
        metavar="nystroem|rff",
        help="Approximate the kernel by so many --components; any solver then trains on them.",
        show_default="none",
    ),
]
Components = Annotated[int, typer.Option(metavar="INT", help="Of the feature map.")]
