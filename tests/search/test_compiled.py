"""Kernels compile whether or not a cache can be written."""

from search.compiled import kernel


def test_without_a_cache_folder_a_kernel_still_runs():
    # Code without a file has no place for a cache, like an installation that cannot be written.
    names = {}
    exec("def double(x):\n    return 2 * x\n", names)
    assert kernel(names["double"])(21) == 42


def test_a_kernel_of_a_file_is_cached():
    from search.walk_f2 import walk_f2

    assert walk_f2.stats.cache_path
