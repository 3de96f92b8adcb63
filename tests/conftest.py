"""What all tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the official data files, named by JAXMATCH_DATA."""
    folder = os.environ.get("JAXMATCH_DATA")
    if not folder:
        pytest.skip("JAXMATCH_DATA does not name a folder with the official data files")
    if not Path(folder).is_dir():
        pytest.skip(f"JAXMATCH_DATA names {folder}, which is not a folder")
    return Path(folder)
