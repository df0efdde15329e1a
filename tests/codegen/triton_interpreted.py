"""Runs emitted Triton modules on the CPU: ``TRITON_INTERPRET=1 python triton_interpreted.py MODULE...``.

For each module and size, integers that every type holds; prints one line of JSON, {module: [whether C is exact]}.
"""

import importlib.util
import json
import sys

import numpy as np
import torch
from triton.runtime import interpreter

TILE = (32, 32, 64, 4, 2)
# Rows of 16 bytes, so that there are descriptors; rows that are not; less than one block.
SIZES = [(70, 136, 48), (33, 131, 21), (1, 3, 2)]


def load(path):
    spec = importlib.util.spec_from_file_location("emitted", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact(module, m, k, n):
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, size).to(module.DTYPE) for size in ((m, k), (k, n)))
    space = torch.full((m, n + 8), float("nan"), dtype=module.DTYPE)
    out = module.matmul(a, b, out=space[:, :n], config=TILE)
    untouched = bool(space[:, n:].isnan().all())
    return untouched and out.data_ptr() == space.data_ptr() and torch.equal(out.double(), a.double() @ b.double())


def repair_bf16():
    """The interpreter keeps bf16 as bits in uint16 and multiplies the bits."""
    original = interpreter.InterpreterBuilder.create_dot

    def wide(x):
        if x.data.dtype != np.uint16:
            return x
        return interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), interpreter.tl.float32)

    def create_dot(self, a, b, *rest):
        return original(self, wide(a), wide(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


if __name__ == "__main__":
    repair_bf16()
    print(json.dumps({path: [exact(load(path), *size) for size in SIZES] for path in sys.argv[1:]}))
