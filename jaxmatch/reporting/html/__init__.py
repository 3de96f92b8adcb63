"""One page about a sweep's folder: tables, learning curves, plan, settings, failures.

The page needs no other file and no network.
"""

from pathlib import Path

from jaxmatch.errors import NotInstalled
from jaxmatch.reporting.records import read_sweep_folder


def report(directory: Path) -> str:
    """Returns the HTML page about a sweep's folder. If the folder is that of a tuning, the page also covers the chosen
    setting.

    Raises:
      InputError: no sweep was run in the folder, a file of it is damaged, or the extra `report` is not installed.
    """
    try:
        from jaxmatch.reporting.html import page
    except ModuleNotFoundError as error:
        if error.name not in ("altair", "jinja2", "markupsafe", "vl_convert"):
            raise
        raise NotInstalled("a report", error.name, "report") from None
    directory = Path(directory)
    folders = [read_sweep_folder(directory)]
    if (directory / "final" / "sweep.json").exists():
        folders.append(read_sweep_folder(directory / "final"))
    return page.page(folders)
