"""``llsvm export`` and ``llsvm import``: models of other programs."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from llsvm.cli.options import check_model_output, check_output
from llsvm.settings.option import EXPORTED, require_choice


def export_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model that llsvm train wrote.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Where to write it; - is standard output.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="|".join(EXPORTED),
            help="The format; onnx needs that package (pip install 'llsvm\\[onnx]').",
        ),
    ] = "liblinear",
) -> None:
    """Write MODEL in the format of another program."""
    from llsvm.cli.display import say
    from llsvm.export import export
    from llsvm.models.model import Model

    require_choice("--to", to, EXPORTED)
    check_output(path, [model], text=to == "liblinear")
    loaded = Model.load(model, with_log=False)
    export(loaded, path, to=cast(Any, to))
    if loaded.index_base == 0 and to == "liblinear":
        say(
            f"{model} was trained on svmlight whose columns count from 0, and LIBLINEAR's count from 1: add 1 to "
            "the indices of the files that its model is to score"
        )
    if to == "onnx" and (documents := loaded.extra.get("text")):
        say(
            f"{path}: of {', '.join(documents['columns'])} it takes the words of each row, not documents: "
            "llsvm guide losses says how to part them"
        )


def import_model(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A LIBLINEAR text model, of any of its solvers.")
    ],
    model: Annotated[str, typer.Option(metavar="PATH", help="Where to write the model.")],
) -> None:
    """Make a model of one that LIBLINEAR trained."""
    from llsvm.models.liblinear import read_liblinear

    check_model_output(model, [path])
    read_liblinear(path).save(model)
