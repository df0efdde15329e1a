"""A process that adds schemes to a catalog, to be killed: python store_writer.py PATH FIRST COUNT [KILL_AT].

It prints the id of every scheme once ``add`` has returned. With KILL_AT it kills itself just before the KILL_AT-th
call of os.fsync or os.replace, which are the points between which a write can be cut.
"""

import os
import signal
import sys
from itertools import count

import numpy as np

from catalog.known import strassen
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.store import Catalog


def scheme(number: int):
    """A scheme of its own for every number below 10,000."""
    x, y = ([[1, s], [0, 1]] for s in divmod(number, 100))
    return sandwich(strassen(), x, y, np.eye(2, dtype=int))


def kill_before(call: int) -> None:
    """Replace the two system calls by ones that count."""
    calls = count(1)

    def counted(original):
        def wrapper(*args):
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args)

        return wrapper

    os.fsync, os.replace = counted(os.fsync), counted(os.replace)


if __name__ == "__main__":
    path, first, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print("ready", flush=True)
    if len(sys.argv) > 4:
        kill_before(int(sys.argv[4]))
    for index in range(first, first + number):
        print(Catalog(path).add(scheme(index), Provenance("formula")).id, flush=True)
