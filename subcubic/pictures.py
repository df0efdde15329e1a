"""Pictures that verbs write: of a document of results beside its file, and of a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.files import reason
from subcubic.output import note
from subcubic.writing import writing

if TYPE_CHECKING:
    from codegen.plan import Plan
    from evaluate.device_model import DeviceModel

_REMEDY = "Matplotlib is not installed; install the extra plot (pip install '.[plot]')"


def draw_results(document: Mapping[str, Any], path: Path) -> list[Path]:
    """Draw a document of results beside its file: ``-speed.svg``, ``-error.svg``.

    What has nothing to show, and a missing Matplotlib, costs a note and no more: the results are kept by then.

    Args:
        document: as of ``evaluate.bench.measure``.
        path: the file it was saved to.

    Returns:
        The files.
    """
    if find_spec("matplotlib") is None:
        note(f"no pictures: {_REMEDY}")
        return []
    from evaluate.map_plots import speed_map
    from evaluate.plots import error_against_speed, save_svg

    written = []
    for name, draw in (("speed", speed_map), ("error", error_against_speed)):
        target = path.with_name(f"{path.stem}-{name}.svg")
        try:
            written.append(save_svg(draw(document["rows"]), target))
            note(f"picture written to {target}")
        except ValueError as error:
            note(f"no {target.name}: {error}")
        except OSError as error:
            note(f"no {target.name}: {reason(error)}; make room or choose another --out")
    return written


def draw_training(folder: Path, target: Path) -> None:
    """Draw the learning curve in the folder of a training.

    Raises:
        ModuleNotFoundError: Matplotlib is not installed.
        OSError: the file cannot be written.
        ValueError: no round has ended.
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(f"no picture can be drawn: {_REMEDY}")
    from evaluate.learning_plots import learning_curve
    from evaluate.plots import save_svg
    from subcubic.train_curve import read_curve

    figure = learning_curve(read_curve(folder), folder.resolve().name)
    with writing(target):
        save_svg(figure, target)
    note(f"picture written to {target}")


def picture_of_training(folder: Path) -> None:
    """Draw the learning curve into its folder; where that fails a note says why, since the training is what counts."""
    from subcubic.train_curve import PICTURE

    if find_spec("matplotlib") is None:
        note(f"no picture of the learning curve: {_REMEDY}")
        return
    try:
        draw_training(folder, folder / PICTURE)
    except (OSError, ValueError) as error:
        note(f"no picture of the learning curve: {error}")


def draw_prediction(
    plans: Sequence[Plan], device: DeviceModel, depths: Sequence[int], results: Path, target: Path, **options: Any
) -> None:
    """Write the cost model's map over M and N, with the rows of results of such a device on top.

    Args:
        plans: at each shape the best of them counts.
        device: where.
        depths: sizes K, one panel each.
        results: folder of documents of results.
        target: the SVG file.
        **options: further ones of ``evaluate.map_plots.predicted_map``.

    Raises:
        ModuleNotFoundError: Matplotlib is not installed.
        OSError: the file cannot be written.
        ValueError: as ``evaluate.model.predict``.
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(f"no picture can be drawn: {_REMEDY}")
    from evaluate.map_plots import predicted_map
    from evaluate.plots import save_svg
    from subcubic.crossover import measured_rows

    figure = predicted_map(plans, device, depths, measured_rows(results, device), **options)
    with writing(target):
        save_svg(figure, target)
    note(f"map written to {target}")
