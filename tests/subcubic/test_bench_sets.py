"""Named sets of measurements, and the shape table, as far as they need no GPU."""

import json

import pytest

from catalog.store import Catalog
from codegen.schedule import schedule
from evaluate.device import DeviceInfo
from evaluate.report import save
from subcubic.bench_schemes import Schemes
from subcubic.bench_sets import Line, set_cases, set_lines
from subcubic.errors import UsageError

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 26, "0")
# What the targets of the fused kernels name: scheme, levels, operands, size, regime.
TARGETS = [
    *[("classical-1x1x1", 1, "variable", size, "burst") for size in (4096, 8192, 16384, 6144)],
    *[("winograd", 1, mode, size, "burst") for mode in ("planes_given", "variable") for size in (8192, 16384, 6144)],
    *[("winograd", 1, mode, 32768, "steady") for mode in ("planes_given", "variable")],
    *[("winograd", 1, "b_constant", size, "burst") for size in (4096, 8192, 16384)],
    *[("winograd", 2, "b_constant", 16384, "burst"), ("4x4x2", 1, "b_constant", 32768, "steady")],
    ("4x4x2*strassen", 1, "b_constant", 32768, "steady"),
    *[("winograd", 2, "variable", size, "burst") for size in (8192, 16384)],
]
WIDE = {"pending_bits": 32}
SWITCHES = [
    {"pace": 0, "share": 0, **WIDE},
    {"pace": 0, **WIDE},
    WIDE,
    {},
]  # of the kernel, one after the other switched on


def test_the_set_has_every_target_in_parts_without_repeats():
    lines = set_lines("hopper")
    assert len(lines) == len(set(lines)) < 130
    measured = {(line.scheme, line.levels, line.operands, line.size, line.regime) for line in lines}
    assert measured >= set(TARGETS)
    assert {(line.dtype, line.size) for line in set_lines("hopper-wide")} == {("fp32", 8192), ("fp64", 16384)}
    assert {line.dtype for line in set_lines("hopper-fp16")} == {"fp16"}
    *halves, plain, scaled, guarded = set_lines("hopper-accuracy")
    assert {line.plane_dtype for line in halves} == {"fp16"} and plain.options == ()
    assert (scaled.options, guarded.options) == ((("scale", 1),), (("guard", 1),))
    unfused, *fused = set_lines("hopper-ablation")
    assert unfused.path == "cuda" and [dict(line.options) for line in fused] == SWITCHES
    assert [(line.scheme, line.path) for line in set_lines("hopper-triton")] == [
        (scheme, path) for scheme in ("winograd", "3x3x3") for path in ("triton", "fused")
    ]
    assert all(line.regime == "steady" for line in lines if line.size == 32768)
    # Each burst of one phase has its settled counterpart, so that a table can show both.
    for line in set_lines("hopper-constant"):
        assert line.options or (line.scheme, line.levels, line.operands, line.size, "steady") in measured


def test_sets_of_shapes_measure_the_plain_kernel_and_constant_weights():
    lines = {name: set_lines(name) for name in ("squares", "llm960", "deepgemm", "thin")}
    assert {name: len(found) for name, found in lines.items()} == {
        "squares": 36,
        "llm960": 960,
        "deepgemm": 27 + 9,
        "thin": 6,
    }
    assert {(line.scheme, line.operands) for line in lines["llm960"]} == {("winograd", "b_constant")}
    assert all(line.scheme == "classical-1x1x1" for line in lines["thin"] + lines["deepgemm"] if line.shape[0] < 512)
    assert lines["llm960"][0].shape == (512, 2112, 7168) and lines["squares"][0].shape == (1024,) * 3


def test_an_unknown_set_is_named_with_what_there_is():
    with pytest.raises(UsageError, match="unknown set 'ampere'; choose one of hopper, hopper-plain"):
        set_lines("ampere")


def test_lines_become_cases_and_missing_schemes_are_left_out(tmp_path, capsys):
    lines = [
        Line("winograd", 64, plane_dtype="fp16", levels=2),
        Line("7x7x7", 64),
        Line("7x7x7", 128),
        Line("classical-1x1x1", 64, regime="steady", plane_dtype="fp16"),
    ]
    known = Schemes(Catalog(tmp_path))
    found = list(set_cases(lines, "hopper", known, pairs=None, seed=3))
    assert capsys.readouterr().err.count("left out") == 1
    assert [(case.plan.rank, case.variant.plane_dtype, case.settings.pairs) for case in found] == [
        (49, "fp16", 9),
        (1, "bf16", 7),
    ]
    assert all((case.settings.set, case.settings.seed) == ("hopper", 3) for case in found)
    assert [case.settings.load for case in found] == [False, True]
    assert found[0].facts["reference"] == "winograd"
    assert [case.settings.pairs for case in set_cases(lines, "x", known, pairs=9)] == [9, 9]


def fake_measure(found, gpu, *, commit, on_row, keep, until):
    """Every case becomes a row with invented figures; each is kept as a real one would be."""
    from evaluate.cases import identity

    document = {"schema_version": 1, "created_utc": "2026-11-29T22:00:00+00:00", "device": gpu.name, "commit": commit}
    document |= {"rows": [], "skipped": [], "interrupted": False, "until": until}
    for case in found:
        figures = {"seconds": 1e-3, "baseline_seconds": 1.1e-3, "ratio": 1.1, "ratio_low": 1.09, "ratio_high": 1.11}
        rest = {"pairs": 15, "regime": case.settings.regime, "correct": True, "error_fro": 1e-3}
        document["rows"].append({**identity(case), **figures, **rest, "baseline_error_fro": 1e-3})
        on_row(document["rows"][-1])
        if keep:
            keep(document)
    return document


@pytest.fixture
def on_h200(monkeypatch):
    monkeypatch.setattr("evaluate.device._probe", lambda: H200)
    monkeypatch.setattr("evaluate.bench.measure", fake_measure)


def test_a_set_runs_in_one_command_and_is_saved_row_by_row(cli, home, on_h200):
    done = cli("bench", "--set", "hopper-noise", "--out", home / "results", "--total", 60, "--json")
    assert done.code == 0, done.err
    assert [(row["path"], row["dtype"]) for row in done.json["rows"]] == [
        ("cublas", dtype) for dtype in ("bf16", "fp16")
    ]
    assert done.json["until"] == 60 and all(row["set"] == "hopper-noise" for row in done.json["rows"])
    (saved,) = (home / "results").glob("*.json")
    assert len(json.loads(saved.read_text())["rows"]) == 2


def test_a_resumed_set_leaves_out_what_was_measured(cli, home, on_h200):
    options = ("bench", "--set", "thin", "--out", home / "results", "--resume", "--json")
    done = cli(*options)
    assert done.code == 0 and len(done.json["rows"]) == 6, done.err
    (saved,) = (home / "results").glob("*.json")
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "rows": document["rows"][:4]}))
    again = cli(*options)
    assert [row["N"] for row in again.json["rows"]] == [row["N"] for row in document["rows"][4:]]
    assert "has a row of everything" in cli(*options).err
    assert cli("bench", "--set", "thin", "--resume").code == 2


def test_the_table_chooses_what_measured_fastest(cli, home, on_h200):
    facts = {"reference": "winograd", "levels": 1, "path": "fused", "dtype": "bf16", "plane_dtype": "bf16"}
    timing = {"ratio": 1.08, "ratio_low": 1.07, "ratio_high": 1.09, "pairs": 15, "regime": "burst"}
    rest = {"M": 8192, "N": 8192, "K": 8192, "layout": "nn", "operands": "planes_given", "correct": True}
    rest |= {"format": "2x2x2", "rank": 7, "product_dtype": "fp32"}
    head = {"device": H200.name, "created_utc": "2026-11-29T20:00:00+00:00"}
    save({**head, "rows": [{**facts, **timing, **rest}]}, home / "measured")
    options = ("--path", "table", "--results", home / "measured", "--dtype", "bf16", "--size", 6144, "--json")
    done = cli("bench", *options, "--operands", "variable", "--operands", "planes_given")
    assert done.code == 0, done.err
    rows = [(row["path"], row["rank"], row["operands"], row["chosen_ratio"]) for row in done.json["rows"]]
    assert rows == [("cublas", 1, "variable", 1.0), ("fused", 7, "planes_given", 1.08)]
    assert done.json["rows"][1]["chosen_at"] == [8192] * 3


def test_fused_variants_reach_the_cases(cli, on_h200):
    options = ["--dtype", "bf16", "--size", 512, "--levels", 1, "--path", "fused", "--emitter", "sync=0", "--json"]
    options += ["--operands", "b_constant", "--plane-dtype", "fp16", "--plane-dtype", "input", "--layout", "nt"]
    done = cli("bench", "winograd", *options)
    assert done.code == 0, done.err
    assert [(row["plane_dtype"], row["operands"], row["layout"], row["options"]) for row in done.json["rows"]] == [
        ("fp16", "b_constant", "nt", {"sync": 0}),
        ("bf16", "b_constant", "nt", {"sync": 0}),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["winograd", "--set", "hopper"], "either a SCHEME"),
        (["--set", "hopper", "--path", "table"], "either a SCHEME"),
        (["--set", "ampere"], "unknown set 'ampere'"),
        (["--set", "squares", "--device", "cpu"], "a set is measured on a GPU; leave --device cpu out"),
        (["winograd", "--total", "0"], "--total 0"),
        (["winograd", "--emitter", "sync"], "NAME=NUMBER"),
    ],
)
def test_bad_input_is_one_sentence(cli, on_h200, arguments, says):
    done = cli("bench", *arguments)
    assert (done.code, says in done.err.replace("\n", " ")) == (2, True), done.err


def test_a_turned_scheme_is_the_cheapest_of_its_orbit(cli, on_h200):
    options = ["--dtype", "bf16", "--size", 512, "--levels", 1, "--path", "fused", "--turn", "variable", "--json"]
    done = cli("bench", "strassen", *options)
    assert done.code == 0, done.err
    (row,) = done.json["rows"]
    assert (row["reference"], row["orbit"], row["rank"]) == ("strassen", "variable", 7)


def test_orbits_are_searched_once_for_each_kind_of_operands(tmp_path):
    known = Schemes(Catalog(tmp_path))
    plain, (one, facts), (two, _) = (known.plan("strassen", *rest) for rest in ((1,), (1, "variable"), (2, "variable")))
    order = [schedule(found) for found in (plain[0], one)]
    assert [len(made.planes_a) + len(made.planes_b) for made in order] == [10, 8]
    assert facts == {"reference": "strassen", "orbit": "variable"} and plain[1] == {"reference": "strassen"}
    assert two.base is one.base and known.plan("strassen", 1, "variable")[0] is one
