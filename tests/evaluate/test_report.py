"""Documents as files, as text and as the README's table."""

import pytest

from evaluate.report import load, results_table, save, table, text
from evaluate.timing import PAIRS


def test_saved_documents_come_back_and_are_never_overwritten(document, tmp_path):
    paths = [save(document, tmp_path / "results") for _ in range(3)]
    assert len(set(paths)) == 3 and load(tmp_path / "results") == [document] * 3
    assert not list((tmp_path / "results").glob(".*"))
    assert results_table(tmp_path / "results") == ""  # no row has enough pairs
    assert results_table(tmp_path / "nothing") == ""


def test_the_table_has_what_was_timed_on_enough_pairs(document, tmp_path):
    rows = [row | {"pairs": row["pairs"] and PAIRS - index % 2} for index, row in enumerate(document["rows"])]
    save(document | {"rows": rows}, tmp_path)
    lines = results_table(tmp_path).splitlines()[2:]
    assert len(lines) == sum(row["pairs"] == PAIRS for row in rows) == 4
    assert all("50 x 61 x 47 unaligned" in line and "*" not in line for line in lines)


def test_text_marks_ratios_of_few_pairs_and_unaligned_shapes(document):
    few = text(document["rows"]).splitlines()
    assert few[-1] == "* fewer than 30 pairs" and len(few) == 2 + len(document["rows"])
    for row, line in zip(document["rows"], few[1:], strict=False):
        assert ("] *" in line or "] = *" in line or "] ? *" in line) == (row["path"] != "emulated")
        assert "50 x 61 x 47 unaligned" in line
    enough = text([document["rows"][0] | {"pairs": PAIRS, "aligned": True}])
    assert "*" not in enough and "unaligned" not in enough and enough.count("\n") == 1


def test_a_damaged_results_file_is_named(document, tmp_path):
    path = save(document, tmp_path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=path.name):
        load(tmp_path)


def test_a_document_that_cannot_be_written_leaves_nothing(document, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        OSError, match=r"^cannot write results to .*: no space left on device; choose another place or make room$"
    ):
        save(document, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_fused_rows_say_what_they_were_given(document):
    fused = {"path": "fused", "dtype": "bf16", "product_dtype": "fp32", "layout": "nn"}
    rows = [
        document["rows"][0] | fused | {"plane_dtype": "bf16", "operands": "variable"},
        document["rows"][0] | fused | {"plane_dtype": "fp16", "operands": "b_constant", "options": {"sync": 0}},
        document["rows"][0] | fused | {"plane_dtype": "bf16", "operands": "planes_given", "layout": "nt"},
    ]
    cells = [line[2:4] for line in table(rows)[1:]]
    assert cells == [
        ["fused", "bf16"],
        ["fused sync=0, b constant", "bf16 (planes fp16)"],
        ["fused nt, planes given", "bf16"],
    ]
