"""What a sweep asks to be made of its runs once they are trained (`Sweep.analyses`)."""

from pathlib import Path

from jaxmatch.cli import ensemble, inspect, occlusion
from jaxmatch.cli.output import show


def run(workdir: Path, data_directory: str | None) -> None:
    """Prints the analyses that the sweep of a folder asks for; figures go into its folder "figures".

    Arguments:
      workdir: the sweep's folder.
      data_directory: the folder with the data files, or None for the one it was trained from.

    Raises:
      InputError: as the commands of these names do.
    """
    from jaxmatch.reporting.sweep_folder import name_of_sweep, read_sweep_folder

    if name_of_sweep(workdir) is None:  # nothing was trained there
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
