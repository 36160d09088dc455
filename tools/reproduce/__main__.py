"""``python -m tools.reproduce NAME [--quick]``: run a published table again and print it beside the paper's
figures."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

# name -> (module with ``main(quick)``, what it reproduces)
TABLES = {
    "nesvm": ("tools.reproduce.nesvm", "NESVM, Figures 3, 4 and 6 to 11: training time"),
    "sequential-dual": ("tools.reproduce.sequential_dual", "sequential dual, Table 4.2 and Figure 1"),
    "smsvm": ("tools.reproduce.smsvm", "SmSVM, Table 3: accuracy and training time"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reproduce", description=__doc__)
    parser.add_argument(
        "name", choices=sorted(TABLES), help="; ".join(f"{k}: {v[1]}" for k, v in TABLES.items())
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions on fewer rows")
    options = parser.parse_args()
    import_module(TABLES[options.name][0]).main(options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
