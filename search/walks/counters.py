"""Entries of the int64 counters of a walk.

Rank and number of active slots now, lowest rank so far, steps to the next plus, steps and flips since the start, the
step of the last new lowest rank, whether no move is left.
"""

RANK, ACTIVE, BEST, PLUS_LEFT, STEPS, FLIPS, BEST_AT, STUCK = range(8)
COUNTERS = 8
