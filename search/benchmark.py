"""Speed of the walks and time to a rank, as rows of a report."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catalog.known import classical, strassen
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron, reduce_mod
from catalog.verify import is_exact
from search.campaign import run
from search.config import Config
from search.events import Done, Found
from search.executors import cores
from search.find import find
from search.lifts.lifting import lift
from search.query import Query
from search.walks.blocks import advance, begin, compile_kernel, lowest
from search.walks.counters import FLIPS
from search.walks.orbits import standard
from search.walks.policies import Policy
from search.walks.symmetry import portfolio

Row = dict[str, Any]


def flip_rate(
    format: Format,
    ring: Literal["F2", "F3", "ZT"],
    steps: int = 20_000_000,
    repeats: int = 5,
    plus_interval: int = 50_000,
    symmetric: bool = False,
) -> Row:
    """Accepted flips per second of one core, walking from the standard algorithm.

    Seconds are processor time of the walking thread, so that other work on the machine counts little; compiling is
    left out. Each repeat is a walk with a seed of its own.

    Args:
        format: the sizes.
        ring: "F2", "F3", or "ZT" for ternary coefficients.
        steps: of one walk.
        repeats: walks; the median is reported, with the slowest and the fastest.
        plus_interval: mean steps between plus transitions, which keep below the lowest rank plus 2.
        symmetric: count flips of whole orbits of the cyclic shift, three flips each, margin in orbits.
    """
    coefficients = Ring.Z if ring == "ZT" else Ring(ring)
    compile_seconds = compile_kernel(coefficients, "Z3" if symmetric else None)
    start = standard(format.n, portfolio(format.n, format.volume)[0]) if symmetric else classical(format, coefficients)
    policy = Policy(plus_interval, 2, steps)
    rates = []
    for seed in range(1, repeats + 1):
        walk = begin(start, seed, symmetry="Z3" if symmetric else None)
        begun = time.thread_time()
        advance(walk, steps, 0, policy)
        rates.append(int(walk.counters[FLIPS]) / max(time.thread_time() - begun, 1e-9))
    return {
        "kind": "rate",
        "engine": "symmetric numba" if symmetric else "flips numba",
        "ring": ring,
        "format": str(format),
        "per_second_per_core": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "steps": steps,
        "repeats": repeats,
        "plus_interval": plus_interval,
        "compile_seconds": compile_seconds,
        "timer": "thread processor time",
        "device": processor(),
    }


def time_to_target(query: Query, seeds: Sequence[int], should_stop: Callable[[], bool] = lambda: False) -> Row:
    """Wall time of searches until a rank is reached, one for every seed.

    A seed that misses counts with the time it took, so the quantiles are lower bounds when ``hits`` is below
    ``seeds``. After ``should_stop`` the seeds done so far are reported.

    Args:
        query: what to search; ``budget_s`` is the time after which a seed counts as a miss, its seed is replaced.
        seeds: of the searches.
        should_stop: asked between blocks.
    """
    done: list[Done] = []
    for seed in seeds:
        events = find(replace(query, seed=seed), should_stop=should_stop)
        last = [event for event in events if isinstance(event, Done)][0]
        if last.status == "interrupted":
            break
        done.append(last)
    seconds = sorted(event.seconds for event in done)
    return {
        "kind": "time_to_target",
        "engine": f"{query.method} numba",
        "ring": query.ring,
        "format": str(query.format),
        "rank": query.target,
        "seeds": len(done),
        "hits": sum(event.status == "found" for event in done),
        "median_s": statistics.median(seconds) if seconds else None,
        "p90_s": seconds[-(-9 * len(seconds) // 10) - 1] if seconds else None,
        "max_s": seconds[-1] if seconds else None,
        "budget_s": query.budget_s,
        "median_steps": statistics.median(event.steps for event in done) if done else None,
        "cores": 1 if query.method == "mcts" else query.workers or cores(),
        "device": processor(),
    }


def lowest_rank(query: Query, should_stop: Callable[[], bool] = lambda: False) -> Row:
    """How low one search comes within its time, and when.

    Args:
        query: what to search; it ends early at ``target``.
        should_stop: asked between blocks.
    """
    rank, at, steps = query.format.volume, 0.0, 0
    for event in find(query, should_stop=should_stop):
        if isinstance(event, Found) and event.scheme.format == query.format and event.rank < rank:
            rank, at, steps = event.rank, event.seconds, event.steps
    return {
        "kind": "lowest",
        "engine": f"{query.method} numba",
        "ring": query.ring,
        "format": str(query.format),
        "rank": rank,
        "target": query.target,
        "seconds": at,
        "steps": steps,
        "seed": query.seed,
        "budget_s": query.budget_s,
        "cores": query.workers or cores(),
        "device": processor(),
    }


def executor_rates(
    format: Format, ring: Literal["F2", "ZT"], executor: str, workers: int, budget_s: float, repeats: int = 3
) -> list[Row]:
    """Accepted flips per second of one worker, on threads of this process and on another executor, in turns.

    Seconds are wall time of whole searches without compiling and without the start of a cluster, so the machine should
    have a free core for every worker.

    Args:
        format: the sizes.
        ring: "F2", or "ZT" for ternary coefficients.
        executor: the other one, see ``search.executors``.
        workers: threads, and processes of a cluster on this machine; as many as a scheduler elsewhere has.
        budget_s: seconds of all searches on one executor together.
        repeats: searches on each, with seeds of their own; the median is reported.
    """
    rates: dict[str, list[float]] = {"local": [], executor: []}
    for seed in range(1, repeats + 1):
        for name, found in rates.items():
            config = Config(
                format,
                ring,
                0,
                budget_s=budget_s / repeats,
                seed=seed,
                workers=workers,
                executor=name,
                walkers=4 * workers,
            )
            last = [event for event in run(config) if isinstance(event, Done)][0]
            found.append(last.flips / last.seconds / workers)
    return [
        {
            "kind": "executor",
            "engine": name.partition("=")[0],
            "ring": ring,
            "format": str(format),
            "per_second_per_worker": statistics.median(found),
            "lowest": min(found),
            "highest": max(found),
            "against_local": statistics.median(found) / statistics.median(rates["local"]),
            "workers": workers,
            "budget_s": budget_s,
            "repeats": repeats,
            "timer": "wall time of the search",
            "device": processor(),
        }
        for name, found in rates.items()
    ]


def lift_share(format: Format, rank: int, seeds: Sequence[int], budget_s: float) -> Row:
    """How many schemes that walks over F2 find lift to exact schemes over Z, and how many to ternary ones.

    Args:
        format: the sizes.
        rank: of the schemes.
        seeds: of the walks, each of which contributes the first scheme that it finds, and of the lifts.
        budget_s: seconds after which a walk contributes none.
    """
    found = _found(format, rank, seeds, budget_s)
    return _lifts(format, rank, found)


def lift_products(inner: Format, rank: int, seeds: Sequence[int], budget_s: float, flips: int = 1_000_000) -> Row:
    """The same for twice the sizes, of schemes that surely lift.

    A ternary lift of what a walk over F2 finds is multiplied by Strassen's scheme, led away from the product by flips
    over Z, reduced modulo 2, and hidden by a random change of bases.

    Args:
        inner: the sizes of the walks over F2.
        rank: of their schemes.
        seeds: of the walks and of the lifts; those without a ternary lift contribute none.
        budget_s: seconds after which a walk contributes none.
        flips: steps of the walk over Z.
    """
    hidden = []
    for seed, scheme in _found(inner, rank, seeds, budget_s):
        lifted = lift(scheme, seed=seed, keep_bases=False)
        if lifted is None or not lifted.is_ternary:
            continue
        walk = begin(kron(strassen(), lifted), seed)
        advance(walk, flips, 0, Policy(1 << 40, 0, 1 << 40))
        product = reduce_mod(lowest(walk), Ring.F2)
        rng = np.random.default_rng(seed)
        hidden.append((seed, sandwich(product, *(_invertible(size, rng) for size in product.format))))
    return _lifts(Format(*(2 * size for size in inner)), 7 * rank, hidden)


def _found(format: Format, rank: int, seeds: Sequence[int], budget_s: float) -> list[tuple[int, Scheme]]:
    """The first scheme over F2 of at most ``rank`` for every seed whose walk meets one."""
    schemes = []
    for seed in seeds:
        query = Query(format, "F2", rank, seed=seed, budget_s=budget_s)
        hits = (event.scheme for event in find(query) if isinstance(event, Found) and event.rank <= rank)
        schemes += [(seed, scheme) for scheme in islice(hits, 1)]
    return schemes


def _invertible(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random product of triangular matrices with ones on the diagonal, modulo 2."""
    lower, upper = (np.tril(rng.integers(0, 2, (size, size)), -1) + np.eye(size, dtype=np.int64) for _ in range(2))
    return lower @ upper.T % 2


def _lifts(format: Format, rank: int, schemes: Sequence[tuple[int, Scheme]]) -> Row:
    begun = time.process_time()
    lifted = [lift(scheme, seed=seed, keep_bases=False) for seed, scheme in schemes]
    seconds = (time.process_time() - begun) / max(1, len(schemes))
    exact = [scheme for scheme in lifted if scheme is not None and is_exact(scheme)]
    return {
        "kind": "lift",
        "engine": "signs and hensel",
        "ring": "Z",
        "format": str(format),
        "rank": rank,
        "schemes": len(schemes),
        "exact": len(exact),
        "ternary": sum(scheme.is_ternary for scheme in exact),
        "seconds_per_scheme": seconds,
        "timer": "process processor time",
        "device": processor(),
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
