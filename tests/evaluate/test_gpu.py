"""The GPU path as far as it needs no GPU."""

from time import sleep
from types import SimpleNamespace

from evaluate.gpu import load_snapshot


def test_clocks_are_read_while_the_arm_runs(monkeypatch):
    launched, seen = [], []

    def snapshot(device):
        seen.append(len(launched))
        sleep(0.05)
        seen.append(len(launched))
        return {"power_w": 100.0}

    stream = SimpleNamespace(synchronize=lambda: sleep(0.001))
    xp = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setattr("evaluate.gpu.snapshot", snapshot)
    assert load_snapshot(xp, launched.append, 0.01, None) == {"power_w": 100.0}
    # Half a second of launches goes before, and they go on while the question is open.
    assert seen[0] >= 50 and seen[1] > seen[0]
