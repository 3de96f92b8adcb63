"""List the configs and sweeps that come with the package, or copy one to edit.

    jaxmatch configs
    jaxmatch configs quickstart --copy

A name takes the place of a file: `jaxmatch sweep quickstart`, `jaxmatch train re2 --dataset sick`. A file in configs/
or sweeps/ of the current folder goes before the package's.
"""

import argparse
from pathlib import Path

from jaxmatch.cli.output import show
from jaxmatch.errors import InputError
from jaxmatch.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show where this file is (default: list all)")
    parser.add_argument("--copy", action="store_true", help="write the file to the current folder, as NAME.py")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.sweep.files import CONFIGS, SWEEPS, config_file, files, find, title

    if arguments.name is None:
        if arguments.copy:
            raise InputError("--copy needs the name of a file", remedy="jaxmatch configs lists them")
        for kind, use in (
            (CONFIGS, "jaxmatch train NAME"),
            (SWEEPS, "jaxmatch sweep NAME; of a timing: jaxmatch timing NAME"),
        ):
            show(f"{kind} ({use})")
            known = files(kind)
            width = max(map(len, known), default=0)
            for name, file in known.items():
                show(f"  {name:<{width}}  {printable(title(file))}")
        return
    file, options = config_file(find(arguments.name, (SWEEPS, CONFIGS)))
    if not file.is_file():
        raise InputError("there is no such file", path=file, remedy="jaxmatch configs lists them")
    if not arguments.copy:
        show(printable(str(file)))
        return
    target = Path(file.name)
    text = file.read_bytes()
    try:
        with target.open("xb") as copy:
            copy.write(text)
    except FileExistsError:
        problem, remedy = "there is such a file already", "remove it, or copy in another folder"
        raise InputError(problem, path=target, remedy=remedy) from None
    command = "train" if file.stem in files(CONFIGS) else "timing" if file.stem.endswith("_timing") else "sweep"
    words = ["jaxmatch", command, str(target), *(f"--{name} {value}" for name, value in options.items())]
    show(f"{target} is written; run it with: {' '.join(words)}")
