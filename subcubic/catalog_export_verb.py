"""``subcubic catalog export``: writes a scheme to a file of one of the public kinds, or of all of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from catalog.canonical import digest
from catalog.scheme import Scheme
from subcubic.errors import UsageError, guarded
from subcubic.options import CatalogPath, Json, Reference, existing_catalog
from subcubic.output import note, print_json
from subcubic.reference import resolve
from subcubic.writing import make_folder, write_files


class Kind(NamedTuple):
    """A kind of scheme file.

    Attributes:
        writer: module and function, ``scheme -> bytes`` or one for each suffix, imported when it is needed; it raises
            ValueError where the kind cannot express the scheme.
        suffixes: what the name of each file of such a kind ends in.
    """

    writer: str
    suffixes: tuple[str, ...]

    def dumps(self, scheme: Scheme) -> tuple[bytes, ...]:
        """The bytes of each file.

        Raises:
            ValueError: the kind cannot express the scheme.
        """
        module, _, function = self.writer.partition(":")
        write: Callable[[Scheme], bytes | tuple[bytes, ...]] = getattr(import_module(module), function)
        made = write(scheme)
        return (made,) if isinstance(made, bytes) else made


KINDS = {
    "json": Kind("catalog.formats.json_format:dumps", (".json",)),
    "npz": Kind("catalog.formats.npz_format:dumps", (".npz",)),
    "alphatensor": Kind("catalog.formats.foreign_writers:alphatensor_npz", (".npz",)),
    "perminov": Kind("catalog.formats.foreign_writers:perminov_json", (".json",)),
    "flip-cpd": Kind("catalog.formats.foreign_writers:flip_cpd_npy", (".npy",)),
    "flip-cpd-text": Kind("catalog.formats.foreign_writers:flip_cpd_text", (".txt",)),
    "sms": Kind("catalog.formats.foreign_writers:plinopt_sms", (".L.sms", ".R.sms", ".P.sms")),
    "exp": Kind("catalog.formats.text_products:dumps", (".exp",)),
    "flip-graph": Kind("catalog.formats.text_flip_graph:dumps", (".txt",)),
    "mathematica": Kind("catalog.formats.text_mathematica:dumps", (".m",)),
    "maple": Kind("catalog.formats.text_maple:dumps", (".tensor.mpl",)),
    "coefficients": Kind("catalog.formats.text_coefficients:dumps", (".txt",)),
    "bini": Kind("catalog.formats.text_bini:dumps", (".bini",)),
    "brent": Kind("catalog.formats.text_brent:dumps", (".brent",)),
    "yacas": Kind("catalog.formats.text_straight_line:dumps", (".ys",)),
}
ALL = "all"
# Kinds that a suffix alone means.
_PLAIN = {".json": "json", ".npz": "npz"}


@guarded
def export_file(
    scheme: Reference,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write, whose .json or .npz decides the kind; or, with --kind, a folder."
        ),
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
        data, suffixes = _bytes(found.scheme, chosen), KINDS[chosen].suffixes
        if output.is_dir():
            paths = [output / (name + suffix) for suffix in suffixes]
        else:
            paths = [output] if len(suffixes) == 1 else [output.with_suffix(suffix) for suffix in suffixes]
        _write(paths, data)
        written, refused = {chosen: paths}, {}
    if json_output:
        files: dict[str, Any] = {each: [str(path) for path in paths] for each, paths in written.items()}
        one = str(output) if kind == ALL else files[chosen][0]
        print_json({"id": identity, "path": one, "files": files, "refused": refused})
        return
    scheme_text = f"{found.scheme.format} of rank {found.scheme.rank} over {found.scheme.ring}"
    for path in (path for paths in written.values() for path in paths):
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
            if output.is_dir():
                raise UsageError(
                    f"--output {output} is a folder; add --kind with one of {', '.join(KINDS)}, or {ALL} for every one"
                )
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


def _all(scheme: Scheme, folder: Path, name: str) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Every kind that can express a scheme, each in files named after it, and why the others cannot."""
    written, refused = {}, {}
    make_folder(folder)
    for kind, (_, suffixes) in KINDS.items():
        try:
            data = _bytes(scheme, kind)
        except ValueError as error:
            refused[kind] = str(error)
            continue
        # Several kinds share a suffix.
        stem = name if all(suffix.endswith(f".{kind}") for suffix in suffixes) else f"{name}.{kind}"
        written[kind] = [folder / (stem + suffix) for suffix in suffixes]
        _write(written[kind], data)
    return written, refused


def _bytes(scheme: Scheme, kind: str) -> tuple[bytes, ...]:
    try:
        return KINDS[kind].dumps(scheme)
    except ValueError as error:
        what = f"{scheme.format} of rank {scheme.rank} over {scheme.ring}"
        raise ValueError(f"a {kind} file cannot express this scheme ({what}): {error}") from None


def _write(paths: list[Path], data: tuple[bytes, ...]) -> None:
    write_files(paths[0].parent, {path.name: content for path, content in zip(paths, data, strict=True)})
