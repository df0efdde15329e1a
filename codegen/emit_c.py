"""C99 text: ``kernels/twin.c`` for each element type, with the scheme as tables of terms.

Both linear passes go through memory row by row and stay in the first-level cache, so the direct sums cost less than
the temporaries of a shared-subexpression program would (Benson and Ballard, PPoPP 2015, find the same).
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from codegen.heading import comment
from codegen.plan import Plan

TYPES = {"fp32": "float", "fp64": "double", "int64": "int64_t"}


def emit_c(plan: Plan, version: str = "unknown") -> str:
    """Self-contained C99 with one function for each of fp32, fp64 and int64, named ``<plan.name>_<type>``.

    The product is the caller's function or plain loops; OpenMP is used where the compiler has it. The int64 one is
    exact as long as nothing overflows. The first lines name the ``version`` of the emitting program.
    """
    m, k, n = plan.format
    tables = [
        _table("a", "planes of A: block of A, coefficient", plan.scheme.U.T),
        _table("b", "planes of B: block of B, coefficient", plan.scheme.V.T),
        _table("c", "blocks of C: product, coefficient", plan.scheme.W),
    ]
    constants = f"""\
#define SCHEME_M {m}
#define SCHEME_K {k}
#define SCHEME_N {n}
#define SCHEME_RANK {plan.rank}
#define SCHEME_DIVISOR {plan.divisor}
#define SCHEME_STRIP 512
/* Elements below which waking threads costs more than it saves. */
#define SCHEME_SERIAL 65536

enum {{ SCHEME_DONE = 0, SCHEME_NO_MEMORY = 1, SCHEME_MISUSE = 2 }};

typedef struct {{
    int32_t block;
    int64_t coefficient;
}} SCHEME_term;

static int64_t SCHEME_least(int64_t a, int64_t b) {{ return a < b ? a : b; }}
static int64_t SCHEME_split(int64_t size, int64_t parts) {{ return (size + parts - 1) / parts; }}
"""
    twin = files("codegen.kernels").joinpath("twin.c").read_text(encoding="utf-8").split("\n", 2)[2]
    bodies = [_typed(twin, type) for type in TYPES]
    parts = [
        "#include <stdint.h>\n#include <stdlib.h>\n",
        _declarations(),
        constants,
        *tables,
        *bodies,
    ]
    return _banner(plan, version) + "\n" + "\n".join(parts).replace("SCHEME", plan.name)


def header(plan: Plan, version: str = "unknown") -> str:
    """The C header of the three functions."""
    guard = f"{plan.name.upper()}_H"
    text = f"""\
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{_declarations()}
#ifdef __cplusplus
}}
#endif

#endif
"""
    return _banner(plan, version) + "\n" + text.replace("SCHEME", plan.name)


def _typed(text: str, type: str) -> str:
    return text.replace("SCHEME_type", f"SCHEME_{type}").replace("TYPE", TYPES[type])


def _declarations() -> str:
    one = """\
typedef void (*SCHEME_type_gemm)(void *context, int64_t M, int64_t N, int64_t K, const TYPE *A, int64_t lda,
                                 const TYPE *B, int64_t ldb, TYPE *C, int64_t ldc);
int SCHEME_type(int64_t M, int64_t N, int64_t K, TYPE alpha, const TYPE *A, int64_t lda, const TYPE *B, int64_t ldb,
                TYPE beta, TYPE *C, int64_t ldc, SCHEME_type_gemm product, void *context);
"""
    return (
        "/* C = alpha * A B + beta * C, row-major, any sizes; A is M x K, B is K x N. `product` computes C = A B for\n"
        " * a block and gets `context`; NULL stands for plain loops. With beta = 0, C is not read.\n"
        " * Returns 0 done, 1 out of memory, 2 wrong arguments. */\n"
    ) + "".join(_typed(one, type) for type in TYPES)


def _banner(plan: Plan, version: str) -> str:
    return f"""\
/* {plan.format} blocks, {plan.rank} products instead of {plan.format.volume}.
{comment(plan, version, " *")}\
 * build    gcc -O3 -march=native -std=c99 -fopenmp -shared -fPIC -o libscheme.so FILE.c */
"""


def _table(side: str, meaning: str, matrix: np.ndarray) -> str:
    """Sparse rows: the non-zero coefficients of row i are terms start[i] .. start[i+1]-1."""
    rows = [[(j, c) for j, c in enumerate(row) if c] for row in matrix.tolist()]
    starts = np.cumsum([0, *map(len, rows)]).tolist()
    terms = "\n".join("    " + " ".join(f"{{{j}, {c}}}," for j, c in row) for row in rows if row)
    return (
        f"/* {meaning}. */\n"
        f"static const SCHEME_term SCHEME_terms_{side}[] = {{\n{terms}\n}};\n"
        f"static const int SCHEME_start_{side}[] = {{{', '.join(map(str, starts))}}};\n"
    )
