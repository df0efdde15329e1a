"""Whether a low-rank scheme pays inside attention: ``python -m subcubic.attention_check``.

On paper for any device of the cost model, and with ``--measure`` on the GPU at hand against the flash attention of
PyTorch or JAX.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from subcubic.errors import ExitCode
from subcubic.output import note, print_json, table
from subcubic.version import commit
from subcubic.writing import make_folder

_MEASURED = ((8192, 64, 8), (8192, 128, 8), (8192, 256, 8), (16384, 128, 4))  # tokens, size of a head, heads


def document(device_name: str, measure: bool) -> dict[str, Any]:
    """Rows ``share`` by tokens, ``bound`` by tokens and sizes of a head, and ``time`` for what is measured.

    Args:
        device_name: of the cost model.
        measure: whether there are rows of the last kind.

    Raises:
        ValueError: nothing is known of the device.
        evaluate.device.DeviceMissingError: ``measure`` without a usable GPU.
    """
    from catalog.known import classical, winograd
    from catalog.scheme import Format
    from codegen.plan import plan
    from evaluate.attention import HEADS, KIND, TOKENS, bounds, measured, shares
    from evaluate.bench import head
    from evaluate.device import require_gpu
    from evaluate.device_model import device_model

    scheme, plain = plan(winograd()), plan(classical(Format(1, 1, 1)))
    model, gpu = device_model(device_name), require_gpu() if measure else None
    rows: list[dict[str, Any]] = []
    for tokens in TOKENS:
        rows.append({"what": "share", "tokens": tokens, **shares(tokens)})
        for size in HEADS:
            rows.append({"what": "bound", "tokens": tokens, "head": size, **bounds(scheme, tokens, size, model)})
    for tokens, size, heads in _MEASURED if gpu else ():
        for arm, figures in measured([plain, scheme], tokens, size, heads, gpu):  # type: ignore[arg-type]
            rows.append({"what": "time", "tokens": tokens, "head": size, "heads": heads, "arm": arm, **figures})
            note(f"{tokens} tokens, {heads} heads of {size}: {arm} {figures['seconds'] * 1e3:.3f} ms")
    timer = "host clock around calls that end with a wait for the device, median of seven"
    base = head(gpu, commit(), timer) if gpu else {"schema_version": 1, "commit": commit(), "device": model.name}
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    return {**base, "created_utc": stamp, "kind": KIND, "model": model.name, "scheme": scheme.digest, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the document, and keep it if a folder is given."""
    parser = argparse.ArgumentParser(prog="python -m subcubic.attention_check", description=__doc__)
    parser.add_argument("--device", default="h200", help="of the cost model")
    parser.add_argument("--measure", action="store_true", help="on the GPU at hand")
    parser.add_argument("--out", type=Path, help="folder to save the document to")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    given = parser.parse_args(arguments)

    from evaluate.device import DeviceMissingError

    if given.out:
        make_folder(given.out)
    try:
        found = document(given.device, given.measure)
    except ValueError as error:
        parser.error(str(error))
    except DeviceMissingError as error:
        note(f"subcubic: {error}")
        return ExitCode.MISSING
    if given.out:
        from evaluate.report import save

        note(f"saved to {save(found, given.out)}")
    if given.json:
        print_json(found)
    else:
        print(told(found["rows"], found["model"]))
    return 0


def told(rows: Sequence[Mapping[str, Any]], device: str) -> str:
    """The rows for people, as tables."""
    share = [row for row in rows if row["what"] == "share"]
    bound = [row for row in rows if row["what"] == "bound"]
    timed = [row for row in rows if row["what"] == "time"]
    parts = [
        "Q K^T and P V in a layer of a model of eight billion parameters, causal:\n"
        "their share, and what saving an eighth of them for nothing would gain",
        table(
            ("tokens", "share of the multiplications", "layer", "attention alone"),
            (
                (
                    row["tokens"],
                    f"{row['share']:.0%}",
                    f"{row['most_for_layer']:.3f}",
                    f"{row['most_for_attention']:.3f}",
                )
                for row in share
            ),
        ),
        f"\non {device} by the cost model, one head; below 1 is a loss: the time of flash attention\n"
        "over that of whole matrices with softmax between them, and in each product\n"
        "the vendor's time over that of one level of Winograd's form",
        table(
            ("tokens", "head", "flash over whole", "Q K^T", "P V"),
            (
                (row["tokens"], row["head"], *(f"{row[key]:.3f}" for key in ("bound", "ratio_qk", "ratio_pv")))
                for row in bound
            ),
        ),
    ]
    if timed:
        parts += [
            "\nmeasured",
            table(
                ("tokens", "heads", "head", "arm", "ms"),
                (
                    (row["tokens"], row["heads"], row["head"], row["arm"], f"{row['seconds'] * 1e3:.3f}")
                    for row in timed
                ),
            ),
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
