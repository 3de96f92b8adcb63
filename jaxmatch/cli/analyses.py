"""The analyses that a sweep requests of its trained runs (`Sweep.analyses`)."""

from pathlib import Path

from jaxmatch.cli import ensemble, inspect, occlusion
from jaxmatch.cli.output import show


def run(workdir: Path, data_directory: str | None) -> None:
    """Prints the analyses that a sweep requests. Figures are saved in the folder "figures" of the sweep's folder.

    Arguments:
      workdir: the sweep's folder.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.

    Raises:
      InputError: as in the commands `ensemble`, `occlusion` and `inspect`.
    """
    from jaxmatch.reporting.records import name_of_sweep, read_sweep_folder

    if name_of_sweep(workdir) is None:  # no sweep was started in the folder
        return
    figures = workdir / "figures"
    for name, options in read_sweep_folder(workdir).analyses.items():
        show("")
        if name == "ensemble":
            show(ensemble.text(workdir, data_directory, **options), end="")
        elif name == "occlusion":
            occlusion.show(workdir, data_directory, figures, **options)
        else:
            inspect.show(workdir, figures, **options)
