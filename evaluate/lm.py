"""A transformer language model over bytes in plain JAX, whose linear layers multiply by a function of the caller's.

Decoder only, with RMS norms before each part (Zhang, Sennrich 2019, arXiv 1910.07467), rotary positions (Su et al.
2021, arXiv 2104.09864) and GELU. Letters: B sequences, T tokens of each, D width, F hidden width, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY = 256  # bytes

# The product of x [B, T, K] and w [K, N], [B, T, N] of their dtype.
Product = Callable[[jax.Array, jax.Array], jax.Array]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """The sizes of a model.

    Attributes:
        layers: blocks of attention and feed-forward part.
        width: D.
        heads: of attention; they divide the width into even parts.
        hidden: F.
        context: T, tokens that are seen at a time.

    Raises:
        ValueError: a size below 1, or heads that do not divide the width into even parts.
    """

    layers: int = 4
    width: int = 2048
    heads: int = 16
    hidden: int = 8192
    context: int = 512

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads, self.hidden, self.context) < 1:
            raise ValueError(f"every size of a model must be at least 1, not {self}")
        if self.width % (2 * self.heads):
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width} into even parts")

    @property
    def linear_layers(self) -> int:
        """How many products with weights one pass makes."""
        return 4 * self.layers + 1

    @property
    def parameters(self) -> int:
        """Weights of the linear layers and the embedding; norms are left out."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.hidden) + 2 * VOCABULARY * self.width


def shapes(config: Config) -> Parameters:
    """The shapes of all parameters, fp32.

    Returns:
        ``embedding`` [V, D], ``norm`` [D], ``head`` [D, V] and ``layers``, each with ``norm_attention`` [D],
        ``qkv`` [D, 3D], ``out`` [D, D], ``norm_hidden`` [D], ``up`` [D, F], ``down`` [F, D].
    """
    width, hidden = config.width, config.hidden

    def array(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    layer = {
        "norm_attention": array(width),
        "qkv": array(width, 3 * width),
        "out": array(width, width),
        "norm_hidden": array(width),
        "up": array(width, hidden),
        "down": array(hidden, width),
    }
    ends = {"embedding": array(VOCABULARY, width), "norm": array(width), "head": array(width, VOCABULARY)}
    return {**ends, "layers": [layer] * config.layers}


def initial(config: Config, seed: int) -> Parameters:
    """Random parameters as of ``shapes``, the same for the same seed on every device."""
    rng = np.random.default_rng(seed)
    # What is added to the residual stream is drawn smaller, so that its variance does not grow with the depth.
    smaller = dict.fromkeys(("out", "down"), (2 * config.layers) ** -0.5)

    def drawn(place: Any, wanted: jax.ShapeDtypeStruct) -> jax.Array:
        if len(wanted.shape) == 1:
            return jnp.ones(wanted.shape, wanted.dtype)
        name = place[-1].key
        deviation = 0.1 if name == "embedding" else wanted.shape[0] ** -0.5 * smaller.get(name, 1.0)
        return jnp.array(rng.standard_normal(wanted.shape, np.float32) * np.float32(deviation))

    parameters: Parameters = jax.tree_util.tree_map_with_path(drawn, shapes(config))
    return parameters


@functools.partial(jax.jit, static_argnames="dtype")
def cast(parameters: Parameters, dtype: Any) -> Parameters:
    """The parameters rounded to a dtype."""
    rounded: Parameters = jax.tree.map(lambda x: x.astype(dtype), parameters)
    return rounded


def plain(x: jax.Array, w: jax.Array) -> jax.Array:
    """JAX's own product, which sums 16-bit types in fp32 and rounds once."""
    return jnp.matmul(x, w)


def forward(parameters: Parameters, tokens: jax.Array, config: Config, product: Product = plain) -> jax.Array:
    """Logits of the byte after each byte.

    All of it is computed in the dtype of the parameters, with norms, softmax and rotations in fp32 inside.

    Args:
        parameters: as of ``shapes``, of any one dtype.
        tokens: [B, T] integers below V.
        config: of the parameters.
        product: multiplies by the weights, ``config.linear_layers`` times. What it gets is traced only if this
            function is.

    Returns:
        [B, T, V] fp32.
    """
    x = embedded(tokens, parameters["embedding"])
    for layer in parameters["layers"]:
        qkv = product(normalised(x, layer["norm_attention"]), layer["qkv"])
        x = x + product(attention(qkv, config.heads), layer["out"])
        hidden = product(normalised(x, layer["norm_hidden"]), layer["up"])
        x = x + product(activated(hidden), layer["down"])
    return product(normalised(x, parameters["norm"]), parameters["head"]).astype(jnp.float32)


@jax.jit
def embedded(tokens: jax.Array, embedding: jax.Array) -> jax.Array:
    """Rows of the embedding [V, D]: tokens [B, T] integers below V, [B, T, D].

    Each is a sum with one term, so that its gradient is a product too and is summed in a fixed order.
    """
    return jax.nn.one_hot(tokens, VOCABULARY, dtype=embedding.dtype) @ embedding


@jax.jit
def normalised(x: jax.Array, gain: jax.Array) -> jax.Array:
    """RMS norm of x [B, T, D] with a gain [D], in fp32, rounded to the dtype of x."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return (wide * scale * gain.astype(jnp.float32)).astype(x.dtype)


@jax.jit
def activated(x: jax.Array) -> jax.Array:
    """GELU in fp32, rounded to the dtype of x."""
    return jax.nn.gelu(x.astype(jnp.float32)).astype(x.dtype)


@functools.partial(jax.jit, static_argnames="heads")
def attention(qkv: jax.Array, heads: int) -> jax.Array:
    """Causal attention of queries, keys and values side by side, qkv [B, T, 3D]: [B, T, D]."""
    batch, length, width = qkv.shape
    split = qkv.reshape(batch, length, 3, heads, width // (3 * heads))
    query, key, value = rotated(split[:, :, 0]), rotated(split[:, :, 1]), split[:, :, 2]
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=jnp.float32)
    seen = jnp.tril(jnp.ones((length, length), jnp.bool_))
    weights = jax.nn.softmax(jnp.where(seen, logits * (value.shape[-1] ** -0.5), -jnp.inf), axis=-1)
    found = jnp.einsum("bhqk,bkhd->bqhd", weights.astype(qkv.dtype), value, preferred_element_type=jnp.float32)
    return found.astype(qkv.dtype).reshape(batch, length, width // 3)


def rotated(x: jax.Array) -> jax.Array:
    """Rotary positions of x [B, T, heads, size]: pairs of places are turned by angles in proportion to the position."""
    length, size = x.shape[1], x.shape[3]
    frequencies = 10_000.0 ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * frequencies
    cosine, sine = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * cosine - second * sine, first * sine + second * cosine]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def bits(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Bits that coding each target takes: logits [B, T, V] fp32, targets [B, T] integers, [B, T] fp32."""
    chosen = jnp.take_along_axis(logits, targets[..., None].astype(jnp.int32), axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen) / jnp.log(2.0)
