"""Sets of shapes: their counts, and layers against the dimensions they follow from."""

from collections import Counter

import pytest

from evaluate.shapes import DEEPGEMM_GROUPED, EXPERTS, LAYERS, SETS, shapes_of


def test_sizes_of_the_sets():
    counts = {name: len(shapes_of(name)) for name in SETS}
    assert counts == {"squares": 12, "llm960": 960, "deepgemm": 27, "thin": 6}
    assert all(len(set(shapes_of(name))) == count for name, count in counts.items())
    assert len(DEEPGEMM_GROUPED) == 24 and [each.groups for each in EXPERTS] == [64, 8]
    with pytest.raises(ValueError, match="unknown set of shapes 'cubes'"):
        shapes_of("cubes")


def test_layers_follow_from_the_dimensions_of_their_models():
    assert Counter(layer.model for layer in LAYERS) == {"DeepSeek-R1": 8, "Qwen3.5-397B": 8, "HunyuanVideo": 8}
    pairs = {model: {(x.n, x.k) for x in LAYERS if x.model == model} for model in {x.model for x in LAYERS}}
    assert pairs["DeepSeek-R1"] >= {(1536 + 512 + 64, 7168), (128 * 192, 1536), (128 * 256, 512), (7168, 128 * 128)}
    assert pairs["Qwen3.5-397B"] >= {(32 * 256 * 2, 4096), (2 * 2 * 256, 4096), (2 * 16 * 128 + 64 * 128, 4096)}
    assert pairs["HunyuanVideo"] >= {(3 * 3072 + 4 * 3072, 3072), (3072, 3072 + 4 * 3072), (6 * 3072, 3072)}
