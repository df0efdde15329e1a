"""Blocks of walks on a Dask cluster, on this machine or behind a scheduler's address.

What travels with a block are the arrays of its walk without their zeros at the end: over F2 there are no signs and no
values beyond the slots, so 5x5x5 takes 70 of 170 kB. The block is part of the task, kept by the scheduler, so that a
lost worker takes nothing with it.
"""

from __future__ import annotations

import itertools
import logging
import signal
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import astuple, replace
from typing import Any, NamedTuple

import numpy as np

from catalog.scheme import Format, Ring
from search.compiled import state_of_sources
from search.jobs import Job
from search.walks.blocks import ARRAYS, Walk, advance, compile_kernel
from search.walks.orbits import Group
from search.walks.policies import Policy

_CONNECT_S, _FIRST_WORKER_S, _FETCH_S = 10.0, 30.0, 10.0
# Workers that may be lost over one block before it is taken for their murderer.
_LOSSES = 20
# About five milliseconds.
_SHORT_STEPS = 100_000


class Parcel(NamedTuple):
    """A walk on its way: its arrays without the zeros at their ends, and their full lengths."""

    format: tuple[int, ...]
    ring: str
    symmetry: Group | None
    lengths: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]


def pack(walk: Walk) -> Parcel:
    """Make a walk small."""
    arrays = [getattr(walk, name) for name in ARRAYS]
    kept = tuple(array[: _used(array)].copy() for array in arrays)
    return Parcel(tuple(walk.format), walk.ring.value, walk.symmetry, tuple(len(array) for array in arrays), kept)


def _used(array: np.ndarray) -> int:
    nonzero = array != 0
    return len(array) - int(nonzero[::-1].argmax()) if nonzero.any() else 0


def unpack(parcel: Parcel) -> Walk:
    """The walk that was packed, bit by bit, in arrays of its own."""
    arrays = {}
    for name, length, kept in zip(ARRAYS, parcel.lengths, parcel.arrays, strict=True):
        arrays[name] = np.zeros(length, kept.dtype)
        arrays[name][: len(kept)] = kept
    return Walk(Format(*parcel.format), Ring(parcel.ring), **arrays, symmetry=parcel.symmetry)


def facts(policy: Policy) -> tuple[Any, ...]:
    """All that a block needs of a policy, for ``Policy(*facts)``; what comes after a block is the campaign's affair."""
    return astuple(replace(policy, then=None))


def block(sources: str, parcel: Parcel, steps: int, target: int, policy: tuple[Any, ...]) -> Parcel:
    """What a worker does: a pure function.

    Raises:
        ValueError: the worker's sources differ from those with the hash ``sources``.
    """
    if state_of_sources() != sources:
        raise ValueError(_strangers("a worker that joined"))
    walk = unpack(parcel)
    advance(walk, steps, target, Policy(*policy))
    return pack(walk)


def dask_setup(worker: Any) -> None:
    """Called by the workers of a cluster on this machine: Ctrl-C is for the search, which then ends them."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Dask:
    """A client of a cluster.

    Args:
        address: of a scheduler; empty for a cluster of single-threaded processes on this machine.
        workers: how many processes; a scheduler elsewhere has its own.

    Raises:
        OSError: the scheduler does not answer or has no workers.
        ValueError: workers run other sources.
    """

    def __init__(self, address: str, workers: int) -> None:
        from distributed import Client, LocalCluster

        # What matters is said by this class in a sentence; the library would add pages.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self.address, self.cluster = address, None
        if not address:
            self.cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                # No dashboard; the scheduler answers questions about its health on a free port of this machine alone.
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                memory_limit=0,
                preload=[__name__],
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = Client(self.cluster or address, timeout=_CONNECT_S, set_as_default=False)
        except OSError:
            if self.cluster is not None:
                self.cluster.close()
            raise ConnectionError(
                f"no Dask scheduler answers at {address or 'this machine'} within {_CONNECT_S:.0f} s; start one with "
                "`dask scheduler`"
            ) from None
        run = uuid.uuid4().hex  # no other search on the same cluster has these names
        self.names = (f"subcubic-{run}-{number}" for number in itertools.count())
        try:
            self._await_workers()
            self._require_kin()
        except BaseException:
            self.close()
            raise

    def prepare(self, ring: Ring, symmetry: Group | None = None) -> float:
        """Compile the kernel of a ring on every worker; the seconds that took."""
        begun = time.monotonic()
        compile_kernel(ring, symmetry)
        jobs = [
            self.client.submit(
                compile_kernel,
                ring,
                symmetry,
                key=next(self.names),
                pure=False,
                workers=[name],
                allow_other_workers=True,
            )
            for name in self.client.nthreads()
        ]
        for job in jobs:
            job.result()
        return time.monotonic() - begun

    def submit(self, walk: Walk, steps: int, target: int, policy: Policy) -> Job:
        """Begin a block; one that takes less time than its journey is done at once in this process."""
        if steps <= _SHORT_STEPS:
            advance(walk, steps, target, policy)
            done: Future[Walk] = Future()
            done.set_result(walk)
            return done
        arguments = (state_of_sources(), pack(walk), steps, target, facts(policy))

        def send() -> Any:
            self._require_scheduler()
            return self.client.submit(block, *arguments, key=next(self.names), pure=False, retries=2)

        return Remote(send, self._require_scheduler)

    def trouble(self) -> str:
        """Says when the last worker is gone; blocks wait for the next one."""
        self._require_scheduler()
        try:
            lost = not self.client.nthreads()
        except OSError:  # the next call says so, should the connection not come back
            return ""
        where = self.address or "this machine"
        return (
            f"the Dask cluster at {where} has no worker left; the search waits for one, Ctrl-C saves it" if lost else ""
        )

    def close(self) -> None:
        """Leave the cluster; one on this machine ends."""
        # A scheduler that is gone must not hide what the search has to say.
        with suppress(Exception):
            self.client.close(timeout=5)
        if self.cluster is not None:
            with suppress(Exception):
                self.cluster.close(timeout=10)

    def _await_workers(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
        except TimeoutError:
            raise ConnectionError(
                f"the Dask scheduler at {self.address or 'this machine'} has no workers; start some with "
                f"`dask worker {self.address}`"
            ) from None

    def _require_kin(self) -> None:
        """Refuse workers that would walk otherwise, or not at all."""
        for worker, answer in self.client.run(state_of_sources, on_error="return").items():
            if answer != state_of_sources():
                raise ValueError(_strangers(f"the Dask worker {worker}"))

    def _require_scheduler(self) -> None:
        while self.client.status == "connecting":  # it gives up after the time that it may take to connect
            time.sleep(0.1)
        if self.client.status != "running":
            raise ConnectionError(
                f"the Dask scheduler at {self.address or 'this machine'} went away; `subcubic runs resume` goes on "
                "from the last checkpoint, with --executor local if it stays away"
            )


class Remote:
    """A block on a worker; see ``search.executors.Job``."""

    def __init__(self, send: Callable[[], Any], require_scheduler: Callable[[], None]) -> None:
        self.send, self.require_scheduler = send, require_scheduler
        self.future, self.given_up, self.losses = send(), False, 0

    def result(self, timeout: float | None = None) -> Walk:
        """The walk after the block, or TimeoutError."""
        from distributed import CancelledError, KilledWorker, wait

        try:
            with self.future.client.as_current():
                wait([self.future], timeout)
            return unpack(self.future.result(_FETCH_S))
        except KilledWorker:
            # Dask suspects the block of having killed several workers; a cluster that loses many does that too.
            self.losses += 1
            if self.losses > _LOSSES:
                raise RuntimeError(f"{_LOSSES} times a block took several Dask workers down; see their logs") from None
            self.future = self.send()
            raise TimeoutError from None
        except CancelledError:
            # Not by us: the connection to the scheduler broke, which forgot the block if it ended as well.
            self.require_scheduler()
            self.future = self.send()
            raise TimeoutError from None

    def cancel(self) -> bool:
        """Give the block up, unless its result is there."""
        if not self.given_up and not self.future.done():
            self.given_up = True
            self.future.release()  # the scheduler forgets it without an answer, for which we need not wait
        return self.given_up

    def cancelled(self) -> bool:
        """Whether it was given up."""
        return self.given_up


def _strangers(who: str) -> str:
    return (
        f"{who} runs other sources of subcubic's search than this process, or none; start the workers in an "
        "environment with this version installed"
    )
