"""Batches spread over all devices of the process; weights are on each of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS = "batch"


def spread(batch: Any) -> Any:
    """Arrays, in a compiled function, whose first axis is divided among the devices where it can be."""
    devices = jax.devices()
    if len(devices) == 1:
        return batch
    mesh = Mesh(np.array(devices), (_AXIS,))

    def one(array: Any) -> Any:
        if array.shape[0] % len(devices):
            return array
        return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, PartitionSpec(_AXIS)))

    return jax.tree.map(one, batch)
