"""How the program starts: what it does not load."""

import json
import subprocess
import sys

_RUN = """
import sys
from llsvm.cli import main
try:
    main()
except SystemExit:
    pass
import json
names = ("scipy.linalg", "cffi", "sklearn", "pyarrow", "h5py")
print(json.dumps([name for name in names if sys.modules.get(name)]))
import scipy.linalg  # what was hidden is there again
"""


def test_training_loads_no_library_that_it_does_not_use(tmp_path):
    rows = "".join(f"{1 if i % 2 else -1} 1:{i % 2} 2:{i % 7 / 7}\n" for i in range(40))
    (tmp_path / "a.svm").write_text(rows)
    command = [
        sys.executable,
        "-c",
        _RUN,
        "train",
        str(tmp_path / "a.svm"),
        "--model",
        str(tmp_path / "m"),
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
