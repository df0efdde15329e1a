"""Python text for PyTorch: the block algorithm in plain Torch operations, on any device and with gradients."""

from __future__ import annotations

from codegen.emit_python import module
from codegen.plan import Plan


def emit_torch(plan: Plan, version: str = "unknown") -> str:
    """A self-contained module with ``matmul(A, B)`` and a layer ``Linear`` that needs only Torch.

    It runs wherever Torch does, autograd and ``torch.compile`` see through it, and integers stay exact. Planes and
    products of FP16 and BF16 are of that type, as in the emitted kernels, and their sums FP32. Each operation is a
    pass over memory of its own, so it is the readable twin and the gradient of the fused kernel, not its equal in
    speed; the text says how to get that one.

    Args:
        plan: what to compute.
        version: of the emitting program, for the first lines of the text.
    """
    fused = f"subcubic export {plan.digest[:12]} --to cuda --dtype bf16 --arch sm_90a" + (
        f" --levels {plan.levels}" if plan.levels > 1 else ""
    )
    return module(
        plan,
        version,
        f"""\
# Every step is a Torch operation, so that gradients, torch.compile and every device work. One fused kernel for NVIDIA
# GPUs, with a loader torch_ext.py that records no gradient, is written by
#     {fused}
import torch""",
        '''\
def matmul(A, B):
    """A @ B; A is [..., M, K], B is [..., K, N], both of one dtype and on one device.

    FP16 and BF16: planes and products are of that type, their sums FP32. Gradients are those of these operations.
    """
    if A.dtype != B.dtype:
        raise ValueError(f"A and B must have one dtype, not {A.dtype} and {B.dtype}")
    wide = torch.float32 if A.dtype in (torch.float16, torch.bfloat16) else A.dtype
''',
        "torch.matmul({}, {}).to(wide)",
        "torch",
        padding="    return torch.nn.functional.pad(X, (0, columns, 0, rows))",
        quotient=[
            "whole = not (torch.is_floating_point(C) or torch.is_complex(C))",
            f'C = torch.div(C, {plan.divisor}, rounding_mode="floor") if whole else C / {plan.divisor}',
        ],
        result=["C = C.to(A.dtype)"],
        join=("cat", "dim"),
        after='''

class Linear(torch.nn.Linear):
    """``torch.nn.Linear``, its product taken by ``matmul``; it loads the same parameters."""

    def forward(self, X):
        """X [..., in_features] to [..., out_features]."""
        rows = X.reshape(-1, self.in_features)
        Y = matmul(rows, self.weight.mT).reshape(*X.shape[:-1], self.out_features)
        return Y if self.bias is None else Y + self.bias
''',
    )
