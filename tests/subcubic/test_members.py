"""Kept members of orbits: exact, of the scheme that they are named for, and no dearer than it."""

import pytest

from catalog.formats import write
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Scheme
from catalog.store import Catalog
from catalog.verify import NotExactError
from codegen.orbit import CONSTANT_B, assess
from codegen.plan import plan
from codegen.schedule import schedule
from subcubic.bench_schemes import Schemes
from subcubic.bench_sets import set_lines
from subcubic.kept_members import FOLDER, cheapest_member, kept_path
from subcubic.reference import factors
from subcubic.starter import shipped

# Of a product of schemes the outermost is turned.
NEEDED = dict.fromkeys((factors(line.scheme)[0], line.operands) for line in set_lines("hopper") if line.turned)


@pytest.mark.parametrize(("reference", "operands"), NEEDED)
def test_what_the_sets_turn_is_kept_and_cheap(reference, operands):
    scheme = Schemes(Catalog(shipped())).resolved(reference).scheme
    assert kept_path(scheme, operands).exists(), "run python -m subcubic.members"
    kept = cheapest_member(scheme, operands)
    assert (kept.format, kept.rank, kept.ring) == (scheme.format, scheme.rank, scheme.ring)
    if operands == "planes_given":  # they cost nothing, and publications do
        counts = [schedule(plan(one)).publications for one in (kept, scheme)]
    else:
        counts = [int((abs(one.U).sum(axis=0) > 1).sum()) for one in (kept, scheme)]
    assert counts[0] <= counts[1]


def test_a_kept_member_is_taken_and_proved(tmp_path):
    path = kept_path(strassen(), "variable", tmp_path)
    write(winograd(), path)
    assert (cheapest_member(strassen(), "variable", tmp_path).U == winograd().U).all()
    write(classical(Format(2, 2, 2)), path)
    with pytest.raises(ValueError, match="holds a 2x2x2:8 scheme; remove it"):
        cheapest_member(strassen(), "variable", tmp_path)
    wrong = winograd()
    write(Scheme(wrong.format, wrong.ring, -wrong.U, wrong.V, wrong.W), path)
    with pytest.raises(NotExactError):
        cheapest_member(strassen(), "variable", tmp_path)


def test_without_a_kept_member_the_orbit_is_searched(tmp_path):
    found = cheapest_member(strassen(), "b_constant", tmp_path)
    assert assess(found, CONSTANT_B).cost < assess(strassen(), CONSTANT_B).cost
    assert FOLDER.name == "schemes"
