"""Kernels compile whether or not a cache can be written."""

from search.compiled import kernel


def test_without_a_cache_folder_a_kernel_still_runs():
    # Code without a file has no place for a cache, like an installation that cannot be written.
    names = {}
    exec("def double(x):\n    return 2 * x\n", names)
    assert kernel(names["double"])(21) == 42


def test_a_kernel_of_a_file_is_cached():
    from search.walks.walk_f2 import walk_f2

    assert walk_f2.stats.cache_path


def test_every_state_of_the_sources_has_a_cache_of_its_own(tmp_path, monkeypatch):
    import numba

    import search.compiled

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    folders = []
    for content in (b"A = 1", b"A = 2", b"A = 1"):
        (tmp_path / "kernels.py").write_bytes(content)
        monkeypatch.setattr(search.compiled, "__file__", str(tmp_path / "compiled.py"))
        search.compiled._choose_cache.cache_clear()
        search.compiled.state_of_sources.cache_clear()
        search.compiled._choose_cache()
        folders.append(numba.config.CACHE_DIR)
    search.compiled._choose_cache.cache_clear()
    search.compiled.state_of_sources.cache_clear()
    assert folders[0] == folders[2] != folders[1] and folders[0].startswith(str(tmp_path))
