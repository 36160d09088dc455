"""What all tests share: where the real data sets are."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir():
    """The folder with the real data sets; tests that need it are skipped where it is not."""
    beside_repository = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LLSVM_DATA", beside_repository))
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}: set LLSVM_DATA")
    return folder
