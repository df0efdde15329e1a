"""What a product was done by and why, and an operand that was packed for such products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evaluate.candidate import Candidate


@dataclass(frozen=True)
class Explanation:
    """Of one product.

    Attributes:
        choice: what ran: the vendor's GEMM, or a scheme with its levels, planes and operands.
        why: in one clause.
        device: where.
        shape: M, N, K of the product that was decided; M counts the rows of all leading dimensions that were folded.
        dtype: of A, B and C.
        layout: how A and B lie in memory, see ``evaluate.variants.LAYOUTS``.
        predicted_ratio: vendor over ours by the cost model: at the shape itself for a scheme whose trial was at another
            shape of the bucket, else at the largest sizes of the bucket; None where it knows nothing.
        measured_ratio: in the trial on this device; None without one.
        ratio_low: lower end of its 95 % interval.
        ratio_high: upper end.
        error_factor: relative Frobenius error over the vendor's; 1 for the vendor, None where it is not known.
        workspace_bytes: of device memory besides A, B, C and packed planes.
        copied: operands that were copied first, since the kernel cannot read them where they lie.
        repaid_after: calls after which compiling and trying are repaid; None if never.
    """

    choice: str
    why: str
    device: str = ""
    shape: tuple[int, int, int] | None = None
    dtype: str = ""
    layout: str = ""
    predicted_ratio: float | None = None
    measured_ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    error_factor: float | None = None
    workspace_bytes: int = 0
    copied: tuple[str, ...] = ()
    repaid_after: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.choice}: {self.why}"]
        if self.predicted_ratio:
            parts.append(f"predicted ratio {self.predicted_ratio:.3f}")
        if self.measured_ratio and self.ratio_low and self.ratio_high:
            parts.append(f"measured {self.measured_ratio:.3f} [{self.ratio_low:.3f}, {self.ratio_high:.3f}]")
        if self.error_factor is not None:
            parts.append(f"{self.error_factor:.2f} times the vendor's error")
        if self.repaid_after:
            parts.append(f"repaid after {self.repaid_after} calls")
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class Packed:
    """A constant right operand. It must not change as long as it is used, since plain blocks are read where they lie.

    Attributes:
        matrix: [K, N] as it is stored, or a copy where no kernel could read it.
        planes: what was made of it, in the caller's memory; None where no scheme should pay.
        candidate: what it was packed for; None likewise.
        dtype: fp16, bf16, fp32 or fp64.
        layout: of the kernel that made the planes.
    """

    matrix: Any
    planes: Any
    candidate: Candidate | None
    dtype: str
    layout: str

    @property
    def shape(self) -> tuple[int, int]:
        """K, N."""
        k, n = self.matrix.shape
        return k, n

    @property
    def scheme(self) -> str:
        """What it was packed for, in words; "" where no scheme should pay."""
        return self.candidate.label if self.candidate else ""

    def __repr__(self) -> str:
        return f"Packed({self.shape[0]} x {self.shape[1]}, {self.dtype}, {self.scheme or 'no scheme should pay'})"
