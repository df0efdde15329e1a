"""What the assembler made of a kernel, read from a cubin without a GPU: registers, local memory, loops."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from codegen.build import MissingCompilerError
from codegen.flow import loops, turns_without

_PACKAGE = "nvidia-cuda-nvdisasm"
# Warp and warpgroup products of tensor cores: HMMA, IMMA, DMMA, HGMMA, QGMMA, UTCHMMA and so on.
_MMA = re.compile(r"(UTC)?[A-Z]G?MMA\b")
_WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_BARRIERS = ("MEMBAR", "ERRBAR")
_LABEL = re.compile(r"^([.$\w]+):$")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P[T\d]+\s+)?([A-Z][\w.]*)(.*)$")
_NO_RETURN = {"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "EXIT", "RET", "BREAK", "KILL"}


class Loop(NamedTuple):
    """One loop of a kernel, with everything in it; code of functions that it calls is not.

    Attributes:
        start: offset of its first instruction in hexadecimal.
        instructions: their number.
        mma: tensor core instructions.
        membar: memory barriers (MEMBAR and ERRBAR), which wait for every earlier access of the thread.
        membar_always: those of them that no turn of the loop gets around.
        local_stores: bytes of the stores to local memory that the text has, each counted once.
        local_loads: the same for loads.
        local_always: bytes of those stores and loads that no turn of the loop gets around.
        inner: no loop inside it has tensor core instructions although it has.
    """

    start: str
    instructions: int
    mma: int
    membar: int
    membar_always: int
    local_stores: int
    local_loads: int
    local_always: int
    inner: bool


class Kernel(NamedTuple):
    """One kernel of a cubin.

    Attributes:
        name: mangled name.
        registers: 32-bit registers of a thread when it starts.
        stack: bytes of local memory that the kernel itself has a frame for.
        instructions: their number.
        mma: how often the text has each kind of tensor core instruction, for example {"HGMMA": 64}.
        membar: memory barriers in the whole text.
        local_stores: bytes stored to local memory, as ptxas counts spill stores; also those to arrays in local memory.
        local_loads: the same for loads.
        loops: outer ones before those inside them.
    """

    name: str
    registers: int
    stack: int
    instructions: int
    mma: dict[str, int]
    membar: int
    local_stores: int
    local_loads: int
    loops: tuple[Loop, ...]

    @property
    def main_loops(self) -> tuple[Loop, ...]:
        """The innermost loops with tensor core instructions: those over the inner size of the products."""
        return tuple(loop for loop in self.loops if loop.inner)


class _Code(NamedTuple):
    """One instruction: labels before it, opcode, labels it may jump to, and whether the next one may follow."""

    labels: tuple[str, ...]
    opcode: str
    targets: tuple[str, ...]
    falls: bool


def disassembler() -> str:
    """The path of nvdisasm: $NVDISASM, on PATH, in the CUDA toolkit, or in the package nvidia-cuda-nvdisasm.

    Raises:
        MissingCompilerError: it is nowhere.
    """
    toolkit = os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin")
    wanted = os.environ.get("NVDISASM") or "nvdisasm"
    found = shutil.which(wanted) or (shutil.which("nvdisasm", path=toolkit) if wanted == "nvdisasm" else None)
    if found:
        return found
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if wanted == "nvdisasm" and file.stem == "nvdisasm" and os.access(file.locate(), os.X_OK):
            return str(file.locate())
    raise MissingCompilerError(
        f"{wanted} was not found; pip install {_PACKAGE}, or put the CUDA toolkit's bin folder on PATH"
    )


def read(cubin: Path) -> list[Kernel]:
    """Disassemble a cubin and read every kernel in it.

    Raises:
        MissingCompilerError: no nvdisasm.
        ValueError: the file is no cubin that this nvdisasm knows.
    """
    done = subprocess.run([disassembler(), str(cubin)], capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise ValueError(f"{cubin} cannot be disassembled ({said}); a newer nvdisasm may know its architecture")
    return parse(done.stdout)


def parse(text: str) -> list[Kernel]:
    """Read the text of nvdisasm."""
    registers, frames = _attribute(text, "REGCOUNT"), _attribute(text, "FRAME_SIZE")
    kernels = []
    for part in re.split(r"^//-+ \.text\.", text, flags=re.M)[1:]:
        name = part.split(None, 1)[0]
        if f'.other          {name},@"STO_CUDA_ENTRY' in part:
            kernels.append(_kernel(name, registers.get(name, 0), frames.get(name, 0), _instructions(part)))
    return kernels


def _attribute(text: str, name: str) -> dict[str, int]:
    """A number that the assembler notes for every function."""
    found: dict[str, int] = {}
    for part in text.split(f"EIATTR_{name}\n")[1:]:
        pair = re.search(r"index@\(([^)]*)\)\s+/\*[0-9a-f]+\*/\s+\.word\s+0x([0-9a-f]+)", part)
        if pair:
            found.setdefault(pair[1], int(pair[2], 16))
    return found


def _instructions(part: str) -> list[_Code]:
    codes: list[_Code] = []
    labels: list[str] = []
    barriers: dict[str, str] = {}
    for line in part.splitlines():
        if mark := _LABEL.match(line):
            labels.append(mark[1])
            continue
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        predicate, opcode, rest = match.groups()
        operands, _, comment = rest.partition("(*")
        kind = opcode.split(".")[0]
        targets = tuple(re.findall(r"`\(([^)]*)\)", operands))
        conditional = bool(predicate) or "," in operands and kind == "BRA" or opcode.startswith("BRA.DIV")
        if kind.startswith(("BRX", "JMX")):
            targets = tuple(re.findall(r"[.$\w]+", comment.partition("BRANCH_TARGETS")[2].partition('"')[0]))
            conditional = bool(predicate)
        register = operands.split(",")[0].strip()
        if kind == "BSSY":
            # Only notes where its BSYNC goes on; threads that wait there do not pass through anything else.
            barriers[register], targets = targets[0] if targets else "", ()
        elif kind == "RET":
            targets = ()  # it names the function that the address it returns to is counted from
        elif kind == "BSYNC" and barriers.get(register):
            targets = (barriers[register],)
        codes.append(_Code(tuple(labels), opcode, targets, conditional or kind not in _NO_RETURN))
        labels = []
    return codes


def _kernel(name: str, registers: int, stack: int, codes: list[_Code]) -> Kernel:
    at = {label: index for index, code in enumerate(codes) for label in code.labels}
    edges: list[list[int]] = []
    for index, code in enumerate(codes):
        following = [at[target] for target in code.targets if target in at]
        edges.append(following + ([index + 1] if code.falls and index + 1 < len(codes) else []))
    kinds: dict[str, int] = {}
    for code in codes:
        if _MMA.match(code.opcode):
            kind = code.opcode.split(".")[0]
            kinds[kind] = kinds.get(kind, 0) + 1
    everything = _count(codes)
    return Kernel(name, registers, stack, len(codes), kinds, *everything[1:], tuple(_loops(codes, edges)))


def _count(codes: Iterable[_Code]) -> tuple[int, int, int, int]:
    """Tensor core instructions, memory barriers, bytes of local stores and of local loads."""
    mma = membar = stores = loads = 0
    for code in codes:
        kind, *modifiers = code.opcode.split(".")
        mma += bool(_MMA.match(code.opcode))
        membar += kind in _BARRIERS
        width = next((_WIDTH[modifier] for modifier in modifiers if modifier in _WIDTH), 4)
        stores += width * (kind == "STL")
        loads += width * (kind == "LDL")
    return mma, membar, stores, loads


def _loops(codes: list[_Code], edges: list[list[int]]) -> list[Loop]:
    products = {node for node, code in enumerate(codes) if _MMA.match(code.opcode)}
    found = loops(edges)
    with_products = [cycle.members for cycle in found if cycle.members & products]
    result = []
    for cycle in found:
        mma, membar, stores, loads = _count(codes[node] for node in cycle.members)
        # What passes through no product is no turn of a loop that has some, but a wait within it.
        wanted = cycle.members & products or cycle.members
        noted = [node for node in cycle.members if codes[node].opcode.split(".")[0] in (*_BARRIERS, "STL", "LDL")]
        met = [codes[node] for node in noted if not turns_without(edges, cycle, node, wanted)]
        _, membar_always, *local_always = _count(met)
        inner = bool(mma) and not any(other < cycle.members for other in with_products)
        start = f"{16 * min(cycle.members):#x}"
        result.append(
            Loop(start, len(cycle.members), mma, membar, membar_always, stores, loads, sum(local_always), inner)
        )
    return result
