"""``subcubic accuracy`` from the command line."""


def test_it_says_where_an_error_comes_from(cli):
    done = cli("accuracy", "winograd", "--size", 64, "--seeds", 2)
    assert done.code == 0, done.err
    assert "growth factor 17.85, stability factor 18" in done.out and "normal inputs, 2 seeds" in done.out
    lines = [line.split()[:3] for line in done.out.splitlines() if line.startswith(("bf16", "fp16"))]
    arms = ["fp32", "planes", "products", "both", "fused"]
    pairs = [("bf16", "bf16"), ("bf16", "fp16"), ("fp16", "fp16")]
    assert lines == [[*pair, arm] for pair in pairs for arm in arms]


def test_json_has_one_document(cli):
    found = cli(
        *("accuracy", "strassen", "--shape", "40,50,60", "--dtype", "bf16", "--plane-dtype", "bf16", "--levels", 2),
        *("--distribution", "cancellation", "--seeds", 1, "--seed", 4, "--json"),
    ).json
    assert found["schema_version"] == 1 and found["format"] == "2x2x2" and found["levels"] == 2
    assert len(found["rows"]) == 5
    row = found["rows"][0]
    assert (row["M"], row["N"], row["K"], row["distribution"], row["seed"]) == (40, 50, 60, "cancellation", 4)
    assert row["error_cancellation"] > 20 and row["error_fro"] > 0 and "error_fro_worst" not in row


def test_bad_options_are_usage_errors(cli):
    assert cli("accuracy", "strassen", "--dtype", "fp64").code == 2
    assert cli("accuracy", "strassen", "--seeds", 0).code == 2
    assert cli("accuracy", "strassen", "--shape", "1,2").code == 2
