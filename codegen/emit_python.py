"""Python text for NumPy and for JAX: the readable twins of the kernels, and exact on integers."""

from __future__ import annotations

from codegen.heading import comment
from codegen.plan import Plan
from codegen.statements import statements


def emit_numpy(plan: Plan, version: str = "unknown") -> str:
    """A self-contained module with ``matmul(A, B)`` that needs only NumPy.

    Any numeric or object dtype and any sizes; leading dimensions are batches. Integers (Python's, too) stay exact.
    The first lines name the ``version`` of the emitting program.
    """
    return module(
        plan,
        version,
        "import numpy as np",
        '''\
def matmul(A, B):
    """A @ B; A is [..., M, K], B is [..., K, N], of any numeric or object dtype."""
    A, B = np.asarray(A), np.asarray(B)
''',
        "{} @ {}",
        "np",
        # np.pad would fill object arrays with 64-bit zeros, which overflow beside large Python integers.
        padding="""\
    padded = np.zeros((*X.shape[:-2], X.shape[-2] + rows, X.shape[-1] + columns), X.dtype)
    padded[..., : X.shape[-2], : X.shape[-1]] = X
    return padded""",
        quotient=[
            "if C.dtype.kind == 'O':",
            f"    whole = C // {plan.divisor}",
            f"    C = whole if (whole * {plan.divisor} == C).all() else C / {plan.divisor}",
            "else:",
            f"    C = C // {plan.divisor} if C.dtype.kind in 'iu' else C / {plan.divisor}",
        ],
        result=[],
    )


def emit_jax(plan: Plan, version: str = "unknown") -> str:
    """A self-contained module with ``matmul(A, B)`` that needs only JAX and can be traced by ``jax.jit``.

    16-bit floats are multiplied with fp32 accumulation and rounded back at the end. The default precision asks for
    true FP32 products where the hardware has a faster, coarser mode. The first lines name the ``version`` of the
    emitting program.
    """
    return module(
        plan,
        version,
        "import jax\nimport jax.numpy as jnp",
        '''\
def matmul(A, B, *, precision=jax.lax.Precision.HIGHEST):
    """A @ B; A is [..., M, K], B is [..., K, N], both of one dtype."""
    A, B = jnp.asarray(A), jnp.asarray(B)
    if A.dtype != B.dtype:
        raise ValueError(f"A and B must have one dtype, not {A.dtype} and {B.dtype}")
    narrow = jnp.issubdtype(A.dtype, jnp.floating) and A.dtype.itemsize == 2
    accumulator = jnp.dtype(jnp.float32) if narrow else A.dtype
''',
        "jnp.matmul({}, {}, precision=precision, preferred_element_type=accumulator)",
        "jnp",
        padding="    return jnp.pad(X, [(0, 0)] * (X.ndim - 2) + [(0, rows), (0, columns)])",
        quotient=[f"C = C // {plan.divisor} if jnp.issubdtype(C.dtype, jnp.integer) else C / {plan.divisor}"],
        result=["C = C.astype(A.dtype)"],
    )


def module(
    plan: Plan,
    version: str,
    imports: str,
    head: str,
    product: str,
    library: str,
    *,
    padding: str,
    quotient: list[str],
    result: list[str],
    join: tuple[str, str] = ("concatenate", "axis"),
    after: str = "",
) -> str:
    """Assemble a module from what the libraries share and the pieces in which they differ.

    Args:
        plan: what to compute.
        version: of the emitting program.
        imports: the lines that import the library.
        head: ``matmul`` up to its first statement, with checks of its arguments.
        product: one block product, with two places for its factors.
        library: its name in the module.
        padding: the statements that append zeros.
        quotient: statements that divide C by the plan's divisor, if that is not one.
        result: last statements, which may change C.
        join: the function that puts blocks side by side, and what it calls the dimension.
        after: text behind ``matmul``.
    """
    m, k, n = plan.format
    before_a, planes_a = statements(plan.planes_a, _blocks("a", m, k), "s")
    before_b, planes_b = statements(plan.planes_b, _blocks("b", k, n), "t")
    products = [f"p{r}" for r in range(plan.rank)]
    before_c, blocks_c = statements(plan.outputs_c, products, "u")
    cut = [
        "M, K, N = A.shape[-2], A.shape[-1], B.shape[-1]",
        "if B.shape[-2] != K:",
        '    raise ValueError(f"A has {K} columns but B has {B.shape[-2]} rows")',
        f"rows, inner, columns = -(-M // {m}), -(-K // {k}), -(-N // {n})",
        f"A_padded = pad(A, {m} * rows - M, {k} * inner - K)",
        f"B_padded = pad(B, {k} * inner - K, {n} * columns - N)",
        *_cut("a", "A_padded", m, k, "rows", "inner"),
        *_cut("b", "B_padded", k, n, "inner", "columns"),
    ]
    pairs = zip(map(_operand, planes_a), map(_operand, planes_b), strict=True)
    multiply = [f"p{r} = {product.format(*pair)}" for r, pair in enumerate(pairs)]
    function, axis = join
    rows_c = [", ".join(blocks_c[i * n : (i + 1) * n]) for i in range(m)]
    strips = [f"    {library}.{function}([{row}], {axis}=-1)," for row in rows_c]
    whole = [f"C = {library}.{function}([", *strips, f"], {axis}=-2)[..., :M, :N]"]
    body = [
        "# Cut into blocks, padded with zeros to whole ones.",
        *cut,
        "# Planes of A and of B.",
        *before_a,
        *before_b,
        f"# The {plan.rank} products.",
        *multiply,
        "# Blocks of C.",
        *before_c,
        *whole,
        *(quotient if plan.divisor != 1 else []),
        *result,
        "return C",
    ]
    return (
        f'''\
{comment(plan, version, "#")}\
"""C = A @ B with {plan.rank} block products instead of {plan.format.volume}."""

{imports}


def pad(X, rows, columns):
    """X with rows and columns of zeros appended."""
    if not rows and not columns:
        return X
{padding}


{head}'''
        + "".join(f"    {line}\n" for line in body)
        + after
    )


def _blocks(letter: str, rows: int, columns: int) -> list[str]:
    return [f"{letter}{i}_{j}" for i in range(rows) for j in range(columns)]


def _cut(letter: str, matrix: str, rows: int, columns: int, height: str, width: str) -> list[str]:
    return [
        f"{letter}{i}_{j} = {matrix}[..., {_span(i, height)}, {_span(j, width)}]"
        for i in range(rows)
        for j in range(columns)
    ]


def _span(index: int, size: str) -> str:
    start, stop = (size if i == 1 else f"{i} * {size}" for i in (index, index + 1))
    return f":{stop}" if index == 0 else f"{start} : {stop}"


def _operand(expression: str) -> str:
    """An expression that can stand beside ``@``, which binds as tightly as ``*``."""
    return expression if expression.isidentifier() else f"({expression})"
