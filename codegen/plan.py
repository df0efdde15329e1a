"""What an emitter needs to know of a scheme: recursion levels unrolled, one program per side, names."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from catalog.additions import Program, kron_program, relabel, sides, straight_line
from catalog.canonical import digest
from catalog.provenance import Provenance
from catalog.scheme import Format, Scheme
from catalog.transform import kron
from catalog.verify import require_exact

# Beyond this the planes alone would outweigh any gain, and the emitted text would have megabytes.
MAX_PRODUCTS = 4096
MAX_LEVELS = 12  # at which even rank 2 has as many


@dataclass(frozen=True)
class Plan:
    """A scheme made ready for code: A and B blocks -> planes -> ``rank`` block products -> blocks of C.

    Attributes:
        base: the scheme of one level.
        levels: recursion levels, unrolled by Kronecker powers.
        scheme: ``base`` to the power ``levels``; its format counts the blocks.
        digest: catalog id of ``base``, 64 hexadecimal digits.
        planes_a: [m*k inputs] blocks of A, row-major, to ``rank`` planes.
        planes_b: [k*n inputs] blocks of B, row-major, to ``rank`` planes.
        outputs_c: [rank inputs] products to the blocks of C, row-major, times ``divisor``.
        provenance: where ``base`` comes from, if that is known.
    """

    base: Scheme
    levels: int
    scheme: Scheme
    digest: str
    planes_a: Program
    planes_b: Program
    outputs_c: Program
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """A C identifier: format, rank, levels and the first digits of the id."""
        m, k, n = self.base.format
        return f"subcubic_{m}x{k}x{n}_r{self.base.rank}_l{self.levels}_{self.digest[:8]}"

    @property
    def format(self) -> Format:
        """Numbers of blocks: A is cut into m x k of them, B into k x n, C into m x n."""
        return self.scheme.format

    @property
    def rank(self) -> int:
        """Number of block products."""
        return self.scheme.rank

    @property
    def additions(self) -> int:
        """Additions of blocks after common-subexpression elimination."""
        return self.planes_a.additions + self.planes_b.additions + self.outputs_c.additions

    @property
    def divisor(self) -> int:
        """What the sums of products must be divided by; 1 unless the scheme has denominators."""
        return self.scheme.denominator


def plan(scheme: Scheme, levels: int = 1, provenance: Provenance | None = None, *, any_ring: bool = False) -> Plan:
    """Plan ``levels`` recursion levels of a scheme.

    Args:
        scheme: the scheme of one level.
        levels: recursion levels.
        provenance: where the scheme comes from, for the first lines of what is emitted.
        any_ring: also take schemes over F2 and F3, for targets that compute nothing.

    Raises:
        ValueError: the ring is finite and ``any_ring`` is not set, ``levels`` is below 1, or the Kronecker power is
            absurdly large.
        catalog.verify.NotExactError: the scheme violates a Brent equation.
    """
    if scheme.ring.modulus and not any_ring:
        raise ValueError(f"a scheme over {scheme.ring} gives wrong numbers on real matrices; lift it to Z first")
    if levels < 1:
        raise ValueError(f"levels must be at least 1, not {levels}")
    if levels > MAX_LEVELS:  # said before the power, which would not end
        raise ValueError(f"more than {MAX_LEVELS} levels need more than {MAX_PRODUCTS} products; use fewer levels")
    if scheme.rank**levels > MAX_PRODUCTS:
        raise ValueError(
            f"{levels} levels of rank {scheme.rank} need {scheme.rank**levels} products, more than {MAX_PRODUCTS}; "
            "use fewer levels"
        )
    require_exact(scheme)
    power, programs = scheme, tuple(straight_line(side) for side in sides(scheme))
    for _ in range(levels - 1):
        programs = _next_level(scheme, power, programs)
        power = kron(scheme, power)
    planes_a, planes_b, outputs_c = programs
    return Plan(scheme, levels, power, digest(scheme), planes_a, planes_b, outputs_c, provenance)


def _next_level(scheme: Scheme, power: Scheme, programs: tuple[Program, ...]) -> tuple[Program, ...]:
    """The three programs of ``kron(scheme, power)`` from those of ``power``.

    Each level keeps its own shared sums, which is far quicker to find than a new search over the whole power.
    """
    (m1, k1, n1), (m2, k2, n2) = scheme.format, power.format
    shapes = ((m1, k1, m2, k2), (k1, n1, k2, n2), (m1, n1, m2, n2))
    terms = range(scheme.rank * power.rank)
    result = []
    for mode, (shape, side, inner) in enumerate(zip(shapes, sides(scheme), programs, strict=True)):
        # kron numbers blocks row-major in the whole matrix, kron_program numbers (outer block, inner block).
        p, q, s, t = shape
        blocks = np.arange(p * q * s * t).reshape(p, s, q, t).transpose(0, 2, 1, 3).ravel()
        program = kron_program(straight_line(side), inner)
        if mode < 2:
            result.append(relabel(program, blocks.tolist(), terms))
        else:
            result.append(relabel(program, terms, np.argsort(blocks).tolist()))
    return tuple(result)
