def test_every_failing_line_ends_with_its_remedy(cli):
    done = cli("doctor", "--json")
    checks = done.json["checks"]
    assert {"python", "package names", "gcc", "nvcc", "catalog", "GPU"} <= {check["name"] for check in checks}
    assert all(check["ok"] or check["fix"] for check in checks)
    assert done.code == 0


def test_a_broken_catalog_folder_is_reported(cli, home):
    (home / "catalog").write_text("a file")
    done = cli("doctor")
    assert done.code == 1
    assert "FAIL  catalog" in done.out and "--catalog" in done.out
