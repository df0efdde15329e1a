"""Seeds built by formula: the standard algorithm of any format, Strassen's scheme and Winograd's form of it."""

from __future__ import annotations

import numpy as np

from catalog.scheme import Format, Ring, Scheme


def classical(format: Format, ring: Ring = Ring.Z) -> Scheme:
    """The standard algorithm: rank m*k*n, one product a[i,j]*b[j,l] per term."""
    m, k, n = format
    i, j, col = (index.ravel() for index in np.indices((m, k, n)))
    term = np.arange(m * k * n)
    u, v, w = (np.zeros((rows, term.size), dtype=np.int64) for rows in (m * k, k * n, m * n))
    u[i * k + j, term] = v[j * n + col, term] = w[i * n + col, term] = 1
    return Scheme(format, ring, u, v, w)


def strassen(ring: Ring = Ring.Z) -> Scheme:
    """Strassen's 2x2x2 scheme of rank 7 (Numerische Mathematik 13, 1969): 18 additions."""
    products = [
        ("a11+a22", "b11+b22", "c11+c22"),
        ("a21+a22", "b11", "c21-c22"),
        ("a11", "b12-b22", "c12+c22"),
        ("a22", "b21-b11", "c11+c21"),
        ("a11+a12", "b22", "c12-c11"),
        ("a21-a11", "b11+b12", "c22"),
        ("a12-a22", "b21+b22", "c11"),
    ]
    return _two_by_two(products, ring)


def winograd(ring: Ring = Ring.Z) -> Scheme:
    """Winograd's form of Strassen's scheme: rank 7 with 15 additions (Linear Algebra and its Applications 4, 1971).

    It needs four non-trivial planes a side where Strassen's own needs five.
    """
    products = [
        ("a11", "b11", "c11+c12+c21+c22"),
        ("a12", "b21", "c11"),
        ("a12-a21-a22+a11", "b22", "c12"),
        ("a22", "b21-b11+b12-b22", "c21"),
        ("a21+a22", "b12-b11", "c12+c22"),
        ("a21+a22-a11", "b22-b12+b11", "c12+c21+c22"),
        ("a11-a21", "b22-b12", "c21+c22"),
    ]
    return _two_by_two(products, ring)


def _two_by_two(products: list[tuple[str, str, str]], ring: Ring) -> Scheme:
    factors = np.zeros((3, 4, len(products)), dtype=np.int64)
    for term, product in enumerate(products):
        for mode, text in enumerate(product):
            sign = 1
            for symbol in text.replace("+", " + ").replace("-", " - ").split():
                if symbol in "+-":
                    sign = 1 if symbol == "+" else -1
                else:
                    factors[mode, 2 * int(symbol[1]) + int(symbol[2]) - 3, term] = sign
    return Scheme(Format(2, 2, 2), ring, *factors)
