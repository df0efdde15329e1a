"""What an executor of blocks has to offer, see ``search.executors``."""

from __future__ import annotations

from typing import Protocol

from catalog.scheme import Ring
from search.walks.blocks import Walk
from search.walks.policies import Policy
from search.walks.symmetry import Group


class Job(Protocol):
    """A block under way; a ``concurrent.futures.Future`` is one."""

    def result(self, timeout: float | None = None) -> Walk:
        """The walk after the block, or TimeoutError."""

    def cancel(self) -> bool:
        """Give the block up, unless it is too late for that; whether it was given up."""

    def cancelled(self) -> bool:
        """Whether it was given up; the walk is then as it was."""


class Executor(Protocol):
    """Carries out blocks, several at once."""

    def prepare(self, ring: Ring, symmetry: Group | None = None) -> float:
        """Compile the kernel of a ring wherever blocks will run; the seconds that took."""

    def submit(self, walk: Walk, steps: int, target: int, policy: Policy) -> Job:
        """Begin a block. The walk belongs to the executor until the job is done; then the result replaces it."""

    def trouble(self) -> str:
        """Why nothing is being done at present, in one sentence; empty when all is well."""

    def close(self) -> None:
        """Wait for the blocks that run and let the workers go."""
