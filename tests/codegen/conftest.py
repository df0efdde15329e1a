import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    """Tests that need nvcc: an empty cache; without nvcc they fail in CI and are skipped elsewhere."""
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    if not (shutil.which("nvcc") or Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc").exists()):
        message = "nvcc was not found; install the CUDA toolkit and put its bin folder on PATH"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
