"""The command line: one command per verb, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from subcubic import catalog_verbs, search_verb
from subcubic.accuracy_verb import accuracy
from subcubic.additions_verb import additions
from subcubic.bench_verb import bench
from subcubic.catalog_export_verb import export_file
from subcubic.closure_verb import closure
from subcubic.dispatch_check_verb import dispatch_check
from subcubic.doctor import doctor
from subcubic.equivalent_verb import equivalent
from subcubic.export_verb import export
from subcubic.import_verb import import_files
from subcubic.model_check_verb import model_check
from subcubic.predict_verb import predict
from subcubic.search_verb import search
from subcubic.site_verb import site
from subcubic.train_verb import train
from subcubic.tune_verb import tune
from subcubic.version import named_version


class _Group(TyperGroup):
    """Lets Ctrl-C outside of a verb end as an abort, where Typer gives back a bare exit code without a word."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        """As of the base class."""
        with _aborting():
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        """As of the base class."""
        with _aborting():
            return super().invoke(ctx)


@contextmanager
def _aborting() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None


app = typer.Typer(cls=_Group, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"subcubic {named_version()}")
        raise typer.Exit


@app.callback()
def subcubic(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and commit.")
    ] = False,
) -> None:
    """Find low-rank matrix multiplication schemes, prove them, and run them as GPU kernels."""


app.command()(search)
app.command()(train)
app.add_typer(search_verb.runs, name="runs")
catalog_verbs.app.command("export")(export_file)
catalog_verbs.app.command()(closure)
catalog_verbs.app.command()(equivalent)
catalog_verbs.app.command()(site)
catalog_verbs.app.command("import")(import_files)
app.add_typer(catalog_verbs.app, name="catalog")
app.command()(export)
app.command()(bench)
app.command()(tune)
app.command()(accuracy)
app.command()(additions)
app.command()(dispatch_check)
app.command()(model_check)
app.command()(predict)
app.command()(doctor)
