"""How many random examples a property is tried on: few in `make test`, $SUBCUBIC_FUZZ times as many in `make fuzz`."""

import os

import pytest
from hypothesis import settings

FACTOR = int(os.environ.get("SUBCUBIC_FUZZ", "1"))


def examples(count: int):
    """Settings for ``count`` examples; without a deadline, since a first call may compile."""
    return settings(max_examples=count * FACTOR, deadline=None)


def rare(*values: object):
    """A case of a parametrised test that `make fuzz` alone runs: what it could show, others show nearly always."""
    return pytest.param(*values, marks=pytest.mark.rare)
