"""Shapes of matrix products as data: squares, linear layers of public models, DeepGEMM's list, thin and expert shapes.

A layer multiplies M tokens by its weights, so that its (N, K) is (outputs, inputs). Sizes are facts; where a set names
a source, the sizes were read there or follow from the dimensions that it gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluate.cases import Shape
from evaluate.operands import check_choice

SQUARES = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384, 24576, 32768)
# Tokens of the grid of FalconGEMM (arXiv 2605.06057), section on evaluation.
GRID_TOKENS = tuple(range(512, 20480 + 1, 512))
# DeepGEMM's forward benchmarks: tests/generators.py of github.com/deepseek-ai/DeepGEMM, commit 0274ad7.
DEEPGEMM_TOKENS = (1, 128, 4096)


@dataclass(frozen=True)
class Layer:
    """Weights of a linear layer.

    Attributes:
        model: whose layer it is.
        name: of the layer.
        n: outputs.
        k: inputs.
    """

    model: str
    name: str
    n: int
    k: int


@dataclass(frozen=True)
class Grouped:
    """Products of one shape, each with weights of its own, as the experts of a layer have them.

    Attributes:
        groups: number of products.
        shape: M, N, K of each.
    """

    groups: int
    shape: Shape


# FalconGEMM names three models and 24 pairs (N, K) and no list of them; these are the distinct large linear layers that
# the published dimensions of the three give, eight each.
LAYERS = (
    # DeepSeek-R1, config.json: hidden 7168, 128 heads of 128 + 64 (values 128), ranks of queries 1536 and of keys and
    # values 512, dense layers 18432 wide, experts 2048 wide; gate and up are one product.
    Layer("DeepSeek-R1", "down projections of queries, keys and values", 2112, 7168),
    Layer("DeepSeek-R1", "up projection of queries", 24576, 1536),
    Layer("DeepSeek-R1", "up projection of keys and values", 32768, 512),
    Layer("DeepSeek-R1", "output of attention", 7168, 16384),
    Layer("DeepSeek-R1", "gate and up, dense", 36864, 7168),
    Layer("DeepSeek-R1", "down, dense", 7168, 18432),
    Layer("DeepSeek-R1", "gate and up of an expert", 4096, 7168),
    Layer("DeepSeek-R1", "down of an expert", 7168, 2048),
    # Qwen3.5-397B-A17B, model card: hidden 4096, 32 gated query and 2 key heads of 256, linear attention with 64 value
    # and 16 key heads of 128, 512 experts 1024 wide.
    Layer("Qwen3.5-397B", "queries with gates", 16384, 4096),
    Layer("Qwen3.5-397B", "keys and values", 1024, 4096),
    Layer("Qwen3.5-397B", "output of attention", 4096, 8192),
    Layer("Qwen3.5-397B", "queries, keys and values of linear attention", 12288, 4096),
    Layer("Qwen3.5-397B", "gate of linear attention", 8192, 4096),
    Layer("Qwen3.5-397B", "gate and up of an expert", 2048, 4096),
    Layer("Qwen3.5-397B", "down of an expert", 4096, 1024),
    Layer("Qwen3.5-397B", "router", 512, 4096),
    # HunyuanVideo (arXiv 2412.03603), table of the architecture: hidden 3072, feed-forward 12288, 20 blocks of two
    # streams and 40 of one, whose first layer joins queries, keys, values and feed-forward; text features of 4096.
    Layer("HunyuanVideo", "queries, keys and values", 9216, 3072),
    Layer("HunyuanVideo", "output of attention", 3072, 3072),
    Layer("HunyuanVideo", "up", 12288, 3072),
    Layer("HunyuanVideo", "down", 3072, 12288),
    Layer("HunyuanVideo", "first layer of a single-stream block", 21504, 3072),
    Layer("HunyuanVideo", "second layer of a single-stream block", 3072, 15360),
    Layer("HunyuanVideo", "modulation", 18432, 3072),
    Layer("HunyuanVideo", "text features", 3072, 4096),
)
# (N, K) of the same file, 16-bit and 32-bit results.
DEEPGEMM_LAYERS = (
    *((2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)),
    *((256, 7168), (129280, 7168)),
)
# Its grouped products: contiguous rows, then the masked ones of decoding.
DEEPGEMM_GROUPED = tuple(
    Grouped(groups, (m, n, k))
    for groups, m in ((4, 8192), (8, 4096), (32, 192), (6, 1024), (32, 20), (6, 20))
    for n, k in ((6144, 7168), (7168, 3072), (4096, 4096), (4096, 2048))
)
# What inference asks for: [M, K] x [K, N] of single tokens and small batches.
THIN: tuple[Shape, ...] = (
    (1, 128, 4096),
    (1, 512, 2048),
    (1, 4096, 512),
    (1, 4096, 4096),
    (1, 14336, 4096),
    (8, 14336, 4096),
)
EXPERTS = (Grouped(64, (16, 1536, 4096)), Grouped(8, (1, 4096, 512)))
SETS = ("squares", "llm960", "deepgemm", "thin")


def shapes_of(name: str) -> list[Shape]:
    """The single products of a set, M, N, K each; grouped ones are ``DEEPGEMM_GROUPED`` and ``EXPERTS``.

    Args:
        name: one of ``SETS``.

    Raises:
        ValueError: there is no such set.
    """
    check_choice("set of shapes", name, SETS)
    if name == "squares":
        return [(size, size, size) for size in SQUARES]
    if name == "llm960":
        return [(m, layer.n, layer.k) for layer in LAYERS for m in GRID_TOKENS]
    if name == "deepgemm":
        return [(m, n, k) for m in DEEPGEMM_TOKENS for n, k in DEEPGEMM_LAYERS]
    return list(THIN)
