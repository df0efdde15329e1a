"""``subcubic catalog export``: writes a scheme to a file of one of the public kinds, or of all of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from catalog.canonical import digest
from catalog.files import reason, write_durably
from catalog.formats.errors import FormatError
from catalog.scheme import Scheme
from subcubic.errors import UsageError, guarded
from subcubic.options import CatalogPath, Json, Reference, existing_catalog
from subcubic.output import note, print_json
from subcubic.reference import resolve


class Kind(NamedTuple):
    """A kind of scheme file.

    Attributes:
        suffix: what the names of such files end in.
        writer: module and function, ``scheme -> bytes``, imported when it is needed; it raises ValueError where the
            kind cannot express the scheme.
    """

    suffix: str
    writer: str

    def dumps(self, scheme: Scheme) -> bytes:
        """The bytes of the file.

        Raises:
            ValueError: the kind cannot express the scheme.
        """
        module, _, function = self.writer.partition(":")
        write: Callable[[Scheme], bytes] = getattr(import_module(module), function)
        return write(scheme)


KINDS = {
    "json": Kind(".json", "catalog.formats.json_format:dumps"),
    "npz": Kind(".npz", "catalog.formats.npz_format:dumps"),
}
ALL = "all"
# Kinds that a suffix alone means.
_PLAIN = {".json": "json", ".npz": "npz"}


@guarded
def export_file(
    scheme: Reference,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, or a folder; .json or .npz decides the kind.")
    ],
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"{', '.join(KINDS)}, or {ALL} for every one, into a folder.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Write a scheme to a file that other programs read. For code and formulas, see `subcubic export`."""
    chosen = _chosen(kind, output)
    found = resolve(scheme, existing_catalog(catalog))
    identity = digest(found.scheme)
    name = f"{found.scheme.format}-{found.scheme.rank}-{found.scheme.ring}-{identity[:12]}"
    if kind == ALL:
        written, refused = _all(found.scheme, output, name)
    else:
        path = output / (name + KINDS[chosen].suffix) if output.is_dir() else output
        _write(path, _bytes(found.scheme, chosen))
        written, refused = {chosen: path}, {}
    if json_output:
        files: dict[str, Any] = {each: str(path) for each, path in written.items()}
        one = {"path": files[chosen]} if kind != ALL else {"path": str(output)}
        print_json({"id": identity, **one, "files": files, "refused": refused})
        return
    scheme_text = f"{found.scheme.format} of rank {found.scheme.rank} over {found.scheme.ring}"
    for path in written.values():
        print(f"{found.origin}: {scheme_text} written to {path}")
    for why in refused.values():
        note(f"left out: {why}")


def _chosen(kind: str | None, output: Path) -> str:
    """The kind that is meant, by name or else by the suffix of the file.

    Raises:
        UsageError: there is no such kind, the suffix tells none, or a file stands where a folder is written.
    """
    if kind is None:
        if output.suffix.lower() not in _PLAIN:
            raise UsageError(
                f"cannot tell the kind of scheme file from {output.name!r}; end the name in .json or .npz, or add "
                f"--kind with one of {', '.join(KINDS)}, {ALL}"
            )
        return _PLAIN[output.suffix.lower()]
    if kind not in (*KINDS, ALL):
        raise UsageError(f"unknown kind {kind!r} of scheme file; choose one of {', '.join(KINDS)}, {ALL}")
    if kind == ALL and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file; --kind {ALL} writes a folder")
    return kind


def _all(scheme: Scheme, folder: Path, name: str) -> tuple[dict[str, Path], dict[str, str]]:
    """Every kind that can express a scheme, each in a file named after it, and why the others cannot."""
    written, refused = {}, {}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, (suffix, _) in KINDS.items():
        try:
            data = _bytes(scheme, kind)
        except ValueError as error:
            refused[kind] = str(error)
            continue
        # Several kinds share a suffix.
        path = folder / (name + (suffix if suffix == f".{kind}" else f".{kind}{suffix}"))
        _write(path, data)
        written[kind] = path
    return written, refused


def _bytes(scheme: Scheme, kind: str) -> bytes:
    try:
        return KINDS[kind].dumps(scheme)
    except ValueError as error:
        what = f"{scheme.format} of rank {scheme.rank} over {scheme.ring}"
        raise ValueError(f"a {kind} file cannot express this scheme ({what}): {error}") from None


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, data)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {reason(error)}; choose another place or make room") from None
