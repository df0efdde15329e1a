"""``from subcubic import matmul, pack``: light to import, and wired to the schemes and results that come with it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import subcubic
from evaluate.decision import _FUSED, _HOST, _LIBRARY
from subcubic import library
from tests.test_house import HEAVY

ROOT = Path(__file__).resolve().parents[2]


def loaded_after(code: str) -> set[str]:
    text = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_itself_imports_nothing():
    assert not loaded_after("import subcubic") & {"numpy", "typer", "evaluate", *HEAVY}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = subcubic.nothing


def test_a_small_product_imports_nothing_heavy():
    code = "import numpy\nfrom subcubic import matmul, pack\nx = numpy.ones((2, 2))\nmatmul(x, pack(x))"
    assert not loaded_after(code) & {"typer", "h5py", *HEAVY}


def test_the_face_multiplies():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    found, told = subcubic.matmul(a, b, explain=True)
    assert np.array_equal(found, a @ b) and told.choice == "numpy.matmul"
    assert np.array_equal(subcubic.matmul(a, subcubic.pack(b)), a @ b)
    assert str(told) == "numpy.matmul: the product is too small for any scheme; 1.00 times the vendor's error"


@pytest.mark.parametrize("one", [*_FUSED, *_HOST, *_LIBRARY], ids=lambda one: one.label)
def test_every_scheme_of_the_menu_is_at_hand(one):
    made = library.plan_of(one.reference, one.levels, one.orbit)
    assert made.levels == one.levels and made.base.rank < made.base.format.volume


def test_a_member_that_would_have_to_be_searched_is_not_at_hand():
    with pytest.raises(LookupError, match="python -m subcubic.members"):
        library.plan_of("2x3x4", 1, "planes_given")
    with pytest.raises(LookupError):
        library.plan_of("9x9x9", 1, "")


def test_measured_rows_come_from_the_results(monkeypatch, tmp_path):
    rows = library.rows_of("NVIDIA H200", ("fused", "cuda"))
    assert rows and all(row["reference"] for row in rows)
    (tmp_path / "bad.json").write_text("{}")
    monkeypatch.setattr(library, "RESULTS", tmp_path)
    assert library.rows_of("another", ("c",)) == []


def test_on_an_h200_the_short_list_is_made_of_what_won(monkeypatch):
    from evaluate.decision import Question, shortlist
    from evaluate.device_model import device_model
    from evaluate.machine import Machine

    rows = library.rows_of("NVIDIA H200", ("fused", "cuda"))
    machine = Machine("NVIDIA H200", "", None, device_model("h200"), rows, True)

    def listed(size, dtype, paths, operands="variable"):
        shape = (size, size, size)

        def predicted(one):
            return machine.predicted(library.plan_of(one.reference, one.levels, one.orbit), one, shape, dtype)

        question = Question(shape, dtype, paths, operands)
        return [one.label for one in shortlist(question, rows, predicted, lambda one: 4.0)[0]]

    fused = ("fused", "cuda")
    assert {one.split(",")[0] for one in listed(4096, "bf16", fused)} <= {"classical-1x1x1"}
    assert "path fused" in listed(16384, "bf16", fused)[0]
    assert listed(16384, "bf16", fused, "b_constant")[0].startswith("4x4x2 turned for b_constant")
    assert listed(8192, "fp32", ("cuda",))[0].startswith("winograd, 2 levels, path cuda")
