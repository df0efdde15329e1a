"""A command line in this process, with a catalog, runs and caches of its own."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from subcubic.__main__ import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CATALOG", str(tmp_path / "catalog"))
    monkeypatch.setenv("SUBCUBIC_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(home, capsys):
    def run(*arguments: object) -> Result:
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return run
