"""The flash attention of PyTorch or JAX, whichever is there, on arrays of CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluate.device import array_module

# Takes Q, K and V [heads, tokens, head]; returns what computes attention and waits for its end, and what fetches the
# result of the first head.
Prepare = Callable[[Any, Any, Any], tuple[Callable[[], Any], Callable[[], Any]]]


def flash_attentions() -> dict[str, Prepare]:
    """Those that are installed, by name."""
    from importlib.util import find_spec

    found: dict[str, Any] = {}
    if find_spec("torch"):
        found["PyTorch scaled_dot_product_attention"] = _torch
    elif find_spec("jax"):
        found["JAX dot_product_attention by cuDNN"] = _jax
    return found


def _torch(q: Any, k: Any, v: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    tensors = [torch.from_dlpack(x)[None] for x in (q, k, v)]

    def call() -> Any:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            found = torch.nn.functional.scaled_dot_product_attention(*tensors)
        torch.cuda.synchronize()
        return found

    return call, lambda: array_module().from_dlpack(call()[0, 0].contiguous())


def _jax(q: Any, k: Any, v: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import jax

    # Tokens come before heads there.
    arrays = [jax.dlpack.from_dlpack(array_module().ascontiguousarray(x.transpose(1, 0, 2))[None]) for x in (q, k, v)]
    attend = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, implementation="cudnn"))

    def call() -> Any:
        return attend(*arrays).block_until_ready()

    return call, lambda: array_module().from_dlpack(call()[0, :, 0])
