"""Batches that are spread over two devices come out as on one."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("mctx", reason="no mctx; install the extra player")

from tests.search.player.spread_outcome import PLAYER, outcome

pytestmark = pytest.mark.usefixtures("compile_quickly")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.rare
def test_two_devices_play_and_learn_as_one(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    command = [sys.executable, "-m", "tests.search.player.spread_outcome", str(tmp_path / "two.npz")]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one = outcome()
    first = np.asarray(jax.tree.leaves(PLAYER.fresh(0))[1])
    assert np.abs(one["weights/1"] - first).max() > 5e-3
    with np.load(tmp_path / "two.npz") as two:
        assert int(one.pop("devices")) == 1 and int(two["devices"]) == 2
        for name, array in one.items():
            if array.dtype.kind == "f":
                # Sums in another order are all that differs; a hundred steps move weights by a hundredth.
                assert np.allclose(array, two[name], atol=2e-3 if name == "record/weights" else 1e-3), name
            else:
                assert np.array_equal(array, two[name]), name
