"""What a reference means: products of schemes, and what is refused."""

import pytest

from catalog.canonical import digest
from catalog.known import strassen, winograd
from catalog.scheme import Ring
from catalog.store import Catalog
from catalog.transform import kron, reduce_mod
from catalog.verify import require_exact
from subcubic.bench_schemes import Schemes
from subcubic.errors import UsageError
from subcubic.reference import provenance, resolve
from subcubic.starter import shipped


def test_a_product_is_exact_and_names_its_factors(tmp_path):
    found = resolve("strassen*classical-1x2x3*winograd", Catalog(tmp_path))
    scheme = require_exact(found.scheme)
    assert (str(scheme.format), scheme.rank, found.id) == ("4x8x12", 7 * 6 * 7, None)
    assert found.origin == "built-in strassen * built-in classical-1x2x3 * built-in winograd"
    assert len(found.provenance.parents) == 3 and found.provenance.parents[0] == digest(strassen())


def test_a_file_of_that_name_goes_first(tmp_path, monkeypatch):
    from catalog.formats import write

    monkeypatch.chdir(tmp_path)
    write(winograd(), tmp_path / "a*b.json")
    assert resolve("a*b.json", Catalog(tmp_path / "shelf")).scheme.rank == 7


@pytest.mark.parametrize("reference", ["winograd*", "*", "2x2x2**strassen"])
def test_an_empty_factor_is_refused(tmp_path, reference):
    with pytest.raises(UsageError, match="has an empty factor"):
        resolve(reference, Catalog(tmp_path))


def test_rings_must_agree(tmp_path):
    shelf = Catalog(tmp_path)
    (added,) = shelf.add_many([(reduce_mod(strassen(), Ring.F2), provenance("test"))])
    with pytest.raises(ValueError, match="rings differ"):
        resolve(f"{added.id}*winograd", shelf)


def test_the_outermost_factor_is_turned_for_measuring():
    known = Schemes(Catalog(shipped()))
    turned, facts = known.plan("4x4x2*strassen", 1, "b_constant")
    outer, _ = known.plan("4x4x2", 1, "b_constant")
    assert digest(turned.scheme) == digest(kron(outer.scheme, strassen()))
    assert facts == {"reference": "4x4x2*strassen", "orbit": "b_constant"}
