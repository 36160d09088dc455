"""llsvm and its peers on the same files, in turn, each in its own process: a table, JSON and plots.

python -m tools.bench --data a9a,covtype --rounds 3          the comparison
python -m tools.bench read --data text --rows 200000         reading alone
python -m tools.bench scale --kind text --rows 100000        1x, 4x and 16x rows, 1 and 2 threads
python -m tools.bench hard --quick                           hard problems: what ends certified, and when
python -m tools.bench hard --counted --against COMMIT            their counted work, beside another commit's
python -m tools.bench losses                                 every loss that is offered beside an oracle
python -m tools.bench tune                                   C's and folds beside 35 runs, and grid searches
python -m tools.bench vectorise                              raw text to rows, beside scikit-learn and others
python -m tools.bench vocabulary                             n-grams counted out of core, in a memory cgroup
python -m tools.bench.regress                                counts against the bounds in configs/bench.toml
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.bench import datasets, scaling
from tools.bench.contestants import CONTESTANTS, Setup
from tools.bench.measure import memory_cgroup
from tools.bench.results import size, words

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "bench.toml"


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] in (["hard"], ["losses"], ["tune"], ["vectorise"], ["vocabulary"]):
        table = import_module(f"tools.bench.{given[0]}")
        return int(table.main(given[1:], tomllib.loads(CONFIG.read_text())))
    command, rest = (given[0], given[1:]) if given[:1] in (["read"], ["scale"]) else ("run", given)
    options = _options(command, rest)
    config = tomllib.loads(CONFIG.read_text())
    options.work.mkdir(parents=True, exist_ok=True)
    return {"run": _run, "read": scaling.read, "scale": scaling.scale}[command](options, config)


def _options(command: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench" + (f" {command}" if command != "run" else ""),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names, contestants = ",".join(datasets.NAMES), ",".join(CONTESTANTS)
    parser.add_argument("--work", type=Path, default=Path("build/bench/work"), help="data and models (large)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="tables, JSON, plots")
    parser.add_argument("--rows", type=int, default=None, help="of the generated data sets")
    parser.add_argument(
        "--threads", type=_integers, default=None, help="of llsvm and peers that can; default: all"
    )
    parser.add_argument("--rounds", type=int, default=None)
    if command == "scale":
        parser.add_argument("--kind", choices=("text", "dense"), default="text")
        parser.add_argument("--factors", type=_integers, default=[1, 4, 16])
        parser.add_argument(
            "--memory-limit", "--memory", dest="memory", type=size, default=400_000_000, help="llsvm's limit"
        )
        return parser.parse_args(arguments)
    parser.add_argument("--data", type=words, default=words(names), help=names)
    if command == "read":
        parser.add_argument("--block", type=size, default=16_000_000, help="bytes of a block")
        return parser.parse_args(arguments)
    parser.add_argument("--contestants", type=words, default=words(contestants), help=contestants)
    parser.add_argument(
        "--peers", type=Path, default=Path("build/bench/peers"), help="folder of PyPI's peers"
    )
    parser.add_argument(
        "--stop",
        choices=("within", "default"),
        default="within",
        help="first setting within 0.1 %% of the best primal known, or the program's own default",
    )
    parser.add_argument("--cgroup", type=size, default=None, metavar="SIZE", help="run in a memory cgroup")
    parser.add_argument(
        "--no-curve", action="store_true", help="leave out LIBLINEAR's objective against time"
    )
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, config: dict[str, Any]) -> int:
    from tools.bench import report
    from tools.bench.runner import compete

    unknown = set(options.contestants) - set(CONTESTANTS)
    if unknown:
        print(f"no such contestant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if options.cgroup is not None and not _can_fence(options.cgroup):
        options.cgroup = None
    rounds = options.rounds or config["run"]["rounds"]
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python -m tools.bench " + " ".join(sys.argv[1:]),
        "machine": report.machine(options.peers),
        "rounds": rounds,
        "datasets": [],
        "missing": {},
    }
    setup = Setup(options.work.resolve(), options.peers.resolve(), threads=(options.threads or [None])[0])
    for name in options.data:
        print(f"{name}:", file=sys.stderr)
        try:
            dataset = datasets.make(name, config["data"].get(name, {}), setup.work, options.rows)
        except datasets.Missing as error:
            results["missing"][name] = str(error)
            continue
        result = compete(
            dataset,
            options.contestants,
            setup,
            config,
            rounds=rounds,
            stop=options.stop,
            cgroup_bytes=options.cgroup,
            curve=not options.no_curve,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
        results["datasets"].append(result)
        text = report.write(results, options.out)  # after each: an interrupted run keeps what it has
    if not results["datasets"]:
        text = report.write(results, options.out)
    print(text)
    _draw(results, options.out)
    return 0


def _draw(results: dict[str, Any], out: Path) -> None:
    try:
        from tools.bench.plots import draw

        for path in draw(results, out):
            print(path, file=sys.stderr)
    except ImportError as error:
        print(f"no plots: {error} (pip install matplotlib)", file=sys.stderr)


def _can_fence(limit_bytes: int) -> bool:
    try:
        with memory_cgroup(limit_bytes):
            return True
    except OSError as error:
        print(f"no memory cgroup can be made here ({error}): running without one", file=sys.stderr)
        return False


def _integers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
