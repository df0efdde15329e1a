import sys

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.picture import plot
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring


def test_a_picture_shows_signs_by_mark_too(tmp_path):
    pytest.importorskip("matplotlib")
    text = plot(winograd(), tmp_path / "w.svg").read_text()
    assert "<svg" in text
    # Matplotlib draws glyphs as paths and names them in comments.
    assert text.count("<!-- + -->") == sum(int((f > 0).sum()) for f in winograd().factors)
    assert text.count("<!-- \N{MINUS SIGN} -->") == sum(int((f < 0).sum()) for f in winograd().factors)


def test_pictures_of_fractions_and_large_formats(tmp_path):
    pytest.importorskip("matplotlib")
    halves = sandwich(strassen(Ring.Q), [[2, 0], [1, 1]], *[np.eye(2, dtype=int)] * 2)
    assert "<!-- +1/2 -->" in plot(halves, tmp_path / "q.svg").read_text()
    png = plot(classical(Format(3, 2, 4)), tmp_path / "c.PNG").read_bytes()
    assert png.startswith(b"\x89PNG")


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="suffix must be one of"):
        plot(strassen(), tmp_path / "w.bmp")
    with pytest.raises(ValueError, match="cannot draw .*no such file"):
        pytest.importorskip("matplotlib")
        plot(strassen(), tmp_path / "no" / "w.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match="install the extra `plot`"):
        plot(strassen(), tmp_path / "w.png")
