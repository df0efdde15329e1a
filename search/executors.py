"""Where blocks of walks are carried out: on threads of this process, or on the workers of a Dask cluster.

A block is a pure function of the arrays of a walk, the steps, the target and the policy. So a walk ends in the same
state wherever its blocks run, and a block whose worker is lost runs again elsewhere.

Threads are the default: kernels release the GIL and walks change in place. A pool of spawned processes would walk
just as fast, but takes seconds to start, imports everything once per process and copies every walk twice per block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from catalog.scheme import Ring
from search.events import Notice
from search.jobs import Executor, Job
from search.walks.blocks import Walk, advance, compile_kernel
from search.walks.orbits import Group
from search.walks.policies import Policy

# Seconds between two looks at the limits of a search and at the executor while a block is under way.
_POLL_S = 0.5
_ADDRESS = re.compile(r"(tcp|tls)://\S+:\d+")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require(name: str) -> str:
    """Check the name of an executor before a search begins; the address in it, or an empty string.

    Args:
        name: "local", "dask" for a cluster of processes on this machine, or "dask=tcp://HOST:PORT" for a scheduler.

    Raises:
        ValueError: there is no such executor or the address is malformed.
        ModuleNotFoundError: Dask is asked for and not installed.
    """
    kind, given, address = name.partition("=")
    if name == "local":
        return ""
    if kind != "dask":
        raise ValueError(f"unknown executor {name!r}; choose local, dask or dask=tcp://HOST:PORT")
    if given and not _ADDRESS.fullmatch(address):
        raise ValueError(f"executor {name!r} names no scheduler; write it as dask=tcp://HOST:PORT")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ModuleNotFoundError(
            "the executor dask needs distributed, which is not installed; install the extra `dask` "
            "(pip install -e '.[dask]')"
        ) from None
    return address


@contextmanager
def opened(name: str, workers: int) -> Iterator[Executor]:
    """An executor that is closed at the end.

    Args:
        name: see ``require``.
        workers: threads, or processes of a cluster on this machine; a scheduler elsewhere has its own.

    Raises:
        ValueError, ModuleNotFoundError: see ``require``.
        OSError: the scheduler does not answer or has no workers.
    """
    address = require(name)
    executor: Executor
    if name == "local":
        executor = Threads(workers)
    else:
        from search.dask_executor import Dask

        executor = Dask(address, workers)
    try:
        yield executor
    finally:
        executor.close()


def wait(job: Job, executor: Executor, check: Callable[[], None]) -> Generator[Notice, None, Walk | None]:
    """Wait for a block; yields what a person should know meanwhile.

    Args:
        job: the block.
        executor: where it is carried out.
        check: called now and then; it may cancel the job.

    Returns:
        The walk, None if the job was given up.
    """
    told = ""
    while True:
        check()
        if job.cancelled():
            return None
        try:
            return job.result(_POLL_S)
        except TimeoutError:
            trouble = executor.trouble()
            if trouble and trouble != told:
                yield Notice(trouble)
            told = trouble


class Threads:
    """Threads of this process; walks change in place."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers)

    def prepare(self, ring: Ring, symmetry: Group | None = None) -> float:
        """Compile the kernel of a ring; the seconds that took."""
        return compile_kernel(ring, symmetry)

    def submit(self, walk: Walk, steps: int, target: int, policy: Policy) -> Job:
        """Begin a block."""
        return self._pool.submit(_in_place, walk, steps, target, policy)

    def trouble(self) -> str:
        """Threads do not go away."""
        return ""

    def close(self) -> None:
        """Wait for the blocks that run; those that wait are given up."""
        self._pool.shutdown(cancel_futures=True)


def _in_place(walk: Walk, steps: int, target: int, policy: Policy) -> Walk:
    advance(walk, steps, target, policy)
    return walk
