"""One page about a sweep's folder: tables, learning curves, plan, settings, failures. It needs no other file and no network."""

from collections.abc import Mapping
from pathlib import Path

from jaxmatch.errors import InputError
from jaxmatch.experiments.reading import SweepFolder, read_sweep_folder
from jaxmatch.experiments.report import page
from jaxmatch.experiments.tables.fields import check_record
from jaxmatch.files import write_atomically


def write_report(directory: Path, output: Path | None = None) -> Path:
    """Writes the report of a sweep's folder, and of the chosen setting where the folder is that of a tuning.

    Arguments:
      directory: the folder.
      output: the page; default: report.html in the folder.

    Returns:
      The page.

    Raises:
      InputError: no sweep was run there, or a file of it is damaged.
    """
    directory = Path(directory)
    folders = [_read(directory)]
    if (directory / "final" / "sweep.json").exists():
        folders.append(_read(directory / "final"))
    output = Path(output) if output else directory / "report.html"
    write_atomically(output, page.page(folders))
    return output


def _read(directory: Path) -> SweepFolder:
    folder = read_sweep_folder(directory)
    for position, (name, record) in enumerate(folder.records.items()):
        check_record(record, position)
        curve = record.get("curve")
        if not isinstance(curve, list) or not all(
            isinstance(entry, Mapping) and isinstance(entry.get("dev"), Mapping) and {"samples", "train_loss"} <= entry.keys()
            for entry in curve
        ):
            problem = f"record {name}: field 'curve' is missing or damaged"
            raise InputError(problem, remedy="delete the run's folder and run the sweep again")
    return folder
