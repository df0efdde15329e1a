"""Pages from templates. Every text is escaped: provenance may come from strangers."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from catalog.formats.json_format import CONVENTION
from catalog.formulas import formulas
from catalog.measures import exponent, stability
from codegen.emit_bibtex import bibtex_entries
from subcubic.output import cell
from subcubic.site import matrices, measured, plots, ranks
from subcubic.site.downloads import CODE_LIMIT, FORMULAS, SHOWN, Download, has_code
from subcubic.site.model import Content, Group, Sheet

ASSETS = ("site.css", "site.js")


class Pages:
    """The pages of one site.

    Args:
        content: all that is shown.
        version: of this program.
        commit: of this program.
        created: time of making, for people.
    """

    def __init__(self, content: Content, version: str, commit: str, created: str) -> None:
        self.content, self._version = content, f"{version} ({commit})"
        self._environment = jinja2.Environment(
            loader=jinja2.FunctionLoader(_template),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["cell"] = cell
        self._environment.globals.update(
            version=version, commit=commit, created=created, convention=CONVENTION, content=content
        )

    def start(self) -> str:
        """The heat map and its text twin."""
        rows = {format: [sheet.row for sheet in group.sheets] for format, group in self.content.groups.items()}
        return self._render("index.html", "", "map", maps=ranks.maps(rows), over=ranks.OVER)

    def table(self) -> str:
        """The table of all schemes, which ``data`` fills."""
        return self._render("schemes.html", "", "table", rings=sorted({s.row.ring.value for s in self.content.sheets}))

    def format(self, group: Group) -> str:
        """The page of a format."""
        best = {cell.row.id for cell in group.cells if cell.row is not None}
        return self._render(
            "format.html",
            "../",
            "format",
            group=group,
            best=best,
            columns=measured.COLUMNS,
            devices=_devices(group.elsewhere),
        )

    def scheme(self, sheet: Sheet, files: Sequence[Download]) -> str:
        """The page of a scheme, which leads to its ``files``."""
        scheme = sheet.scheme
        rounded = not scheme.ring.modulus
        return self._render(
            "scheme.html",
            "../",
            "scheme",
            sheet=sheet,
            files=files,
            formula_file=next((file.name for file in files if file.what == FORMULAS), None),
            formulas=formulas(scheme) if scheme.rank <= SHOWN else None,
            pictures=list(matrices.pictures(scheme)),
            patterns=matrices.PATTERNS,
            exponent=exponent(scheme),
            stability=stability(scheme) if rounded else None,
            parents=[(parent, self.content.named(parent)) for parent in sheet.made.parents],
            users=self.content.users.get(sheet.row.id, []),
            options=_text(sheet.made.options) if sheet.made.options else "",
            bibtex=bibtex_entries(scheme.format, scheme.rank, scheme.ring, sheet.row.id, sheet.made, self._version),
            code=has_code(scheme),
            code_limit=CODE_LIMIT,
            columns=measured.COLUMNS,
            devices=_devices(sheet.measured),
        )

    def data(self) -> str:
        """The table's data as a script, since browsers refuse to read other files of a page from a disk."""
        rows = [
            [
                sheet.name,
                str(row.format),
                row.ring.value,
                row.rank,
                sheet.gap,
                row.ternary,
                row.additions,
                row.additions_cse,
                None if row.growth is None else round(row.growth, 2),
                row.planes_a,
                row.planes_b,
                None if sheet.best is None or sheet.best.ratio is None else round(sheet.best.ratio[0], 3),
                "" if sheet.best is None else f"{sheet.best.device}, {sheet.best.types}",
                sheet.made.method,
                " ".join(text for text in (sheet.made.discoverer, sheet.made.source, sheet.made.citation) if text),
            ]
            for sheet in self.content.sheets
            for row in [sheet.row]
        ]
        return f"window.SUBCUBIC_SCHEMES = {script_json(rows)};\n"

    def _render(self, template: str, up: str, here: str, **values: Any) -> str:
        return self._environment.get_template(template).render(up=up, here=here, **values)


def _text(value: Any) -> Markup:
    """JSON as text between tags, where quotation marks may stay as they are: a thousand pages have many."""
    return Markup(html.escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")), quote=False))


def script_json(value: Any) -> str:
    """JSON that stays data wherever a script of a page may stand: no tag and no comment can begin in it."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def copy_assets(folder: Path) -> None:
    """Put style and script of the pages into a folder."""
    for name in ASSETS:
        (folder / name).write_bytes(files("subcubic.site").joinpath("assets", name).read_bytes())


def _devices(rows: tuple[measured.Measured, ...]) -> list[tuple[str, list[measured.Measured], list[plots.Plot]]]:
    return [
        (device, group, [plot for plot in (plots.speed(group), plots.error(group)) if plot is not None])
        for device, group in measured.by_device(rows)
    ]


def _template(name: str) -> str:
    return files("subcubic.site").joinpath("templates", name).read_text(encoding="utf-8")
