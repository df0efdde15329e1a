import pytest

from evaluate.device import DeviceInfo


def test_every_failing_line_ends_with_its_remedy(cli):
    done = cli("doctor", "--json")
    checks = done.json["checks"]
    expected = {"python", "package names", "gcc", "nvcc", "nvdisasm", "catalog", "GPU", "fused kernels"}
    assert expected <= {check["name"] for check in checks}
    assert all(check["ok"] or check["fix"] for check in checks)
    assert done.code == 0


def test_a_broken_catalog_folder_is_reported(cli, home):
    (home / "catalog").write_text("a file")
    done = cli("doctor")
    assert done.code == 1
    assert "FAIL  catalog" in done.out and "--catalog" in done.out


@pytest.mark.parametrize(
    ("arch", "ok", "says"),
    [
        ("sm_90", True, "for sm_90: subcubic export --arch sm_90a"),
        ("sm_120", True, "for sm_120: subcubic export --arch sm_120"),
        ("sm_75", False, "there are no fused kernels for sm_75"),
    ],
)
def test_fused_kernels_for_the_gpu_are_named(cli, monkeypatch, tmp_path, arch, ok, says):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("NVCC", str(nvcc))
    device = DeviceInfo("a card", arch, "1", "13.0", 1 << 20, "0")
    monkeypatch.setattr("evaluate.device.usable_gpu", lambda: device)
    (check,) = [check for check in cli("doctor", "--json").json["checks"] if check["name"] == "fused kernels"]
    assert check["ok"] is ok and says in check["detail"]
    monkeypatch.setenv("NVCC", str(tmp_path / "none"))
    (check,) = [check for check in cli("doctor", "--json").json["checks"] if check["name"] == "fused kernels"]
    assert not check["ok"] and check["fix"].startswith("install the CUDA toolkit")


def test_installed_packages_of_the_same_name_are_reported(cli, monkeypatch):
    owners = {"evaluate": ["evaluate"], "codegen": ["subcubic", "other-codegen"], "numpy": ["numpy"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: owners)
    done = cli("doctor", "--json")
    (check,) = [check for check in done.json["checks"] if check["name"] == "package names"]
    assert done.code == 1 and not check["ok"] and check["fix"].startswith("uninstall")
    assert "evaluate is also a package of the installed distribution evaluate" in check["detail"]
    assert "distribution other-codegen" in check["detail"] and "numpy" not in check["detail"]


def test_a_package_that_is_imported_in_place_of_ours_is_reported(cli, monkeypatch, tmp_path):
    import importlib.util

    other = tmp_path / "evaluate" / "__init__.py"
    other.parent.mkdir()
    other.write_text("")
    real = importlib.util.find_spec
    spec = importlib.util.spec_from_file_location("evaluate", other)
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: spec if name == "evaluate" else real(name, *rest)
    )
    (check,) = [check for check in cli("doctor", "--json").json["checks"] if check["name"] == "package names"]
    assert not check["ok"] and f"evaluate comes from {tmp_path / 'evaluate'}" in check["detail"]
