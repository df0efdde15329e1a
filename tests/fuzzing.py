"""How many random examples a property is tried on: few in `make test`, $SUBCUBIC_FUZZ times as many in `make fuzz`."""

import os

from hypothesis import settings

FACTOR = int(os.environ.get("SUBCUBIC_FUZZ", "1"))


def examples(count: int):
    """Settings for ``count`` examples; without a deadline, since a first call may compile."""
    return settings(max_examples=count * FACTOR, deadline=None)
