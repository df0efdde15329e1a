"""Words over F2 and F3 against plain arithmetic."""

import itertools

import numpy as np
import pytest

from search.player import fields

FIELDS = pytest.mark.parametrize("p", [2, 3])


def rank(p, matrix):
    """By plain elimination."""
    rows, found = [[int(entry) % p for entry in row] for row in matrix], 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        scale = pow(rows[found][column], -1, p)
        for i in range(len(rows)):
            if i != found and rows[i][column]:
                factor = rows[i][column] * scale
                rows[i] = [(x - factor * y) % p for x, y in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def unpack(p, row, width):
    words = [np.asarray(word) for word in row]
    bits = [word[..., None] >> np.arange(width) & 1 for word in words]
    return bits[0] if p == 2 else bits[0] - bits[1]


@FIELDS
def test_numbers_are_digits(p):
    vectors = fields.digits(p, 3)
    assert vectors.shape == (p**3, 3) and len(np.unique(vectors, axis=0)) == p**3
    assert (vectors[1] == [1, 0, 0]).all() and (vectors[p] == [0, 1, 0]).all()
    assert set(np.unique(vectors)) == ({0, 1} if p == 2 else {-1, 0, 1})


@FIELDS
def test_rows_add_and_change_sign(p):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 2, (2, 50, 9))
    balanced = {0: 0, 1: 1, 2: -1 if p == 3 else 0}
    packed, other = fields.pack(p, a), fields.pack(p, b)
    expected = np.vectorize(balanced.get)((a + b) % p)
    assert (unpack(p, fields.add(packed, other), 9) == expected).all()
    nothing = fields.add(packed, fields.negative(packed))
    assert np.asarray(fields.is_zero(nothing)).all()
    assert not np.asarray(fields.is_zero(fields.pack(p, np.eye(3, dtype=int)))).any()


@FIELDS
def test_ranks_and_spans(p):
    rng = np.random.default_rng(1)
    matrices = rng.integers(-1, 2, (200, 4, 5)) * (rng.random((200, 4, 1)) < 0.7)
    matrices[::3, 3] = matrices[::3, 0] + matrices[::3, 1]
    echelon, ranks = fields.eliminated(fields.rows_of(fields.pack(p, matrices)))
    assert np.asarray(ranks).tolist() == [rank(p, matrix) for matrix in matrices]
    assert len(set(np.asarray(ranks).tolist())) > 2
    vectors = rng.integers(-1, 2, (200, 5))
    inside = np.asarray(fields.in_span(fields.pack(p, vectors), echelon))
    expected = [
        rank(p, np.vstack([matrix, vector])) == rank(p, matrix)
        for matrix, vector in zip(matrices, vectors, strict=True)
    ]
    assert inside.tolist() == expected and 0 < sum(expected) < 200


@FIELDS
def test_combinations_come_in_the_order_of_their_numbers(p):
    rng = np.random.default_rng(2)
    slices = rng.integers(-1, 2, (3, 2, 4))
    found = unpack(p, fields.combinations(p, fields.pack(p, slices)), 4)
    for number, vector in enumerate(fields.digits(p, 3).astype(int)):
        total = np.einsum("i,ihw->hw", vector, slices)
        assert ((found[number] - total) % p == 0).all()


@FIELDS
def test_the_transform_follows_a_change_of_basis(p):
    kernels = fields.characters(p, 2)
    vectors = fields.digits(p, 2).astype(int)
    numbers = {tuple(vector): i for i, vector in enumerate((vectors % p).tolist())}
    basis = np.array([[1, 1], [0, 1]])
    inverse = np.array([[1, -1], [0, 1]])
    moved = [numbers[tuple(v)] for v in (vectors @ basis.T % p).tolist()]
    dual = [numbers[tuple(v)] for v in (vectors @ inverse % p).tolist()]
    f = np.random.default_rng(3).normal(size=p**2)
    for kernel in kernels:
        # f moved by the basis has a transform moved by the dual basis.
        assert np.allclose((kernel @ f[moved])[np.argsort(np.arange(p**2))], (kernel @ f)[dual], atol=1e-5)
    # Cosine and sine together lose nothing.
    gram = sum(kernel.T @ kernel for kernel in kernels)
    assert np.allclose(gram, np.eye(p**2), atol=1e-5)
    assert all(np.allclose(kernel, kernel.T) for kernel in kernels)


def test_words_hold_their_signs():
    for entries in itertools.product((-1, 0, 1), repeat=3):
        assert unpack(3, fields.pack(3, np.array(entries)), 3).tolist() == list(entries)
