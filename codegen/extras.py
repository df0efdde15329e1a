"""The operands of an epilogue as launches take them: the struct that ``codegen.epilogue_text.declaration`` declares."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

from codegen.epilogue import MATRICES, SCALE, Epilogue


@dataclass(frozen=True)
class Operands:
    """What one launch gives to an epilogue.

    Attributes:
        addresses: of the operands in device memory, by name.
        residual_ld: leading dimension of the residual, in elements.
        scale: what the step of this name multiplies by.
    """

    addresses: Mapping[str, int] = field(default_factory=dict)
    residual_ld: int = 0
    scale: float = 1.0


def extras_of(epilogue: Epilogue, operands: Operands) -> ctypes.Structure | None:
    """What a launch gets a pointer to; it has to live until the launch returns.

    Args:
        epilogue: of the kernel.
        operands: of the launch.

    Returns:
        The struct; None if no step needs an operand.

    Raises:
        ValueError: an operand is missing, or there is one that no step needs.
    """
    addresses = operands.addresses
    if set(addresses) != set(epilogue.operands):
        wanted, given = (", ".join(names) or "nothing" for names in (epilogue.operands, addresses))
        raise ValueError(f"the epilogue {epilogue or 'of no steps'} needs {wanted}; it was given {given}")
    values: dict[str, int | float] = {}
    fields: list[tuple[str, type]] = []
    for name in epilogue.operands:
        fields.append((name, ctypes.c_void_p))
        values[name] = addresses[name]
        if name in MATRICES:
            fields.append((f"{name}_ld", ctypes.c_int64))
            values[f"{name}_ld"] = operands.residual_ld
    if epilogue.scales:
        fields.append((SCALE, ctypes.c_double))
        values[SCALE] = operands.scale
    if not fields:
        return None
    return type("Extras", (ctypes.Structure,), {"_fields_": fields})(**values)
