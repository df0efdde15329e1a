"""How many products one kernel runs through.

Ordering them is not what bounds it: the search of ``codegen.chain_search`` takes a fixed number of looks, on one core
2 s for 49 products, 9 s for 93, 5 s for 182, 17 s for 324, 5 s for 676 and 23 s for 841. The compiler does: every plane
is a sum of its own in the text, and Triton unrolls all products of a tile as well.
"""

from __future__ import annotations

from codegen.plan import Plan

MOST_PRODUCTS = {
    # nvcc takes 11 s for 7 products, 19 s for 49, 35 s for 182, 90 to 130 s for 343, 190 s for 529 and for 841 the
    # ten minutes after which a build is given up, on one core.
    "fused": 512,
    # Triton takes 7 s for 7 products, 35 to 50 s for 23 to 26, 90 to 160 s for 49 and 390 s for 93, on one core, for
    # each of five tiles.
    "triton": 64,
}
# With more than these the compiler takes a minute or more.
SLOW_PRODUCTS = {"fused": 200, "triton": 20}


def why_not_chained(plan: Plan, kernel: str) -> str:
    """Why no kernel runs through all products of a plan; empty if one does.

    Args:
        plan: what is to be computed.
        kernel: "fused" or "triton".
    """
    most = MOST_PRODUCTS[kernel]
    if plan.rank <= most:
        return ""
    what = f"{plan.levels} level(s) of {plan.base.format}:{plan.base.rank} have {plan.rank} products"
    return (
        f"{what}, more than the {most} that a {kernel} kernel is compiled for; use fewer levels, or the path cuda, "
        "where the vendor's library does them"
    )


def check_chained(plan: Plan, kernel: str) -> None:
    """Refuse a plan before its products are ordered.

    Raises:
        ValueError: it has more products than a kernel of this kind runs through.
    """
    if reason := why_not_chained(plan, kernel):
        raise ValueError(reason)
