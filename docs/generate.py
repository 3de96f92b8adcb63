"""Writes the pages of the reference that are generated from the code: settings and the command line.

    .venv/bin/python docs/generate.py
    .venv/bin/python docs/generate.py --pictures

`make docs` also runs this script. tests/test_docs.py checks that the pages are up to date. With --pictures, it draws
docs/pictures/quickstart-light.png and quickstart-dark.png, the learning curves of results/quickstart.
"""

import argparse
import dataclasses
import inspect
import io
import sys
import typing
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from jaxmatch.cli import main
from jaxmatch.config.models import MODELS, ModelConfig
from jaxmatch.config.settings import SECTIONS

FOLDER = Path(__file__).parent / "reference"
KINDS = {int: "whole number", float: "number", str: "text", bool: "`True` or `False`"}
DOTTED = "It also takes `--config.NAME=VALUE` for any [setting](settings.md)"
GRID = ", `--grid.NAME=VALUE,VALUE` for an axis of the grid"
SPACE = ", `--space.NAME=LOW:HIGH` for a range that --optuna searches"
OPTIONS = ", and `--NAME=VALUE` for an option of the file itself (its first lines describe them)"


def table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Returns a Markdown table."""
    lines = [names, ("---",) * len(names), *rows]
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def values_of(field: dataclasses.Field, kind: Any) -> str:
    """Describes the values that a setting can have: its choices, or its type and bounds."""
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else field.metadata["choices"]
    if choices is not None:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in choices)
    if kind not in KINDS:
        return "an odd number or several: `3`, `(1, 3)`"
    text = KINDS[kind]
    for word, bound in (("from", "least"), ("to", "most"), ("below", "below")):
        if field.metadata[bound] is not None:
            text += f" {word} {field.metadata[bound]:,}"
    return text


def settings_table(section: type, prefix: str, without: Collection[str] = ()) -> str:
    """Returns the table of the settings of a dataclass, except for the names in `without`."""
    kinds = typing.get_type_hints(section)
    rows = []
    for field in dataclasses.fields(section):
        if field.name not in without:
            default = "empty" if field.default == "" else f"`{field.default}`"
            name = f"`{prefix}.{field.name}`"
            rows.append((name, default, values_of(field, kinds[field.name]), field.metadata["help"]))
    return table(("setting", "default", "values", "meaning"), rows)


def settings_page() -> str:
    """Returns docs/reference/settings.md, from the dataclasses of jaxmatch/config/."""
    shared = {field.name: field.default for field in dataclasses.fields(ModelConfig)}
    parts = [
        "# Settings",
        "On the command line, `--config.NAME=VALUE` changes a setting. The files in `configs/` change the defaults "
        "for\n"
        "each data set. This page is generated from `jaxmatch/config/` by `docs/generate.py`.",
        "## Every model",
        "`model.name` is one of " + ", ".join(f"`{name}`" for name in MODELS) + ".",
        settings_table(ModelConfig, "model"),
    ]
    for model in MODELS.values():
        same = {field.name for field in dataclasses.fields(model) if shared.get(field.name) == field.default}
        parts += [f"## {model.title}", inspect.cleandoc(model.__doc__), settings_table(model, "model", same)]
    for name, section in SECTIONS.items():
        parts += [f"## {name.capitalize()}", inspect.cleandoc(section.__doc__), settings_table(section, name)]
    return "\n\n".join(parts) + "\n"


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Returns name -> parser of each subcommand."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    """Yields (words, meaning, choices or default) of each argument."""
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
        value = value if isinstance(value, str) else " ".join(value)
        words = ", ".join(f"{option} {value}".strip() for option in action.option_strings) or value
        meaning = action.help or ""
        values = ", ".join(f"`{choice}`" for choice in action.choices or ())
        if action.default not in (None, False, "", []) and "default" not in meaning:
            values += f" (default: `{action.default}`)"
        yield f"`{words}`", meaning, values


def command_line_page() -> str:
    """Returns docs/reference/command_line.md, from the parsers of jaxmatch/cli."""
    names = [
        (f"[`jaxmatch {name}`](#jaxmatch-{name})", subcommand.line) for name, subcommand in main.SUBCOMMANDS.items()
    ]
    parts = [
        "# Command line",
        "`jaxmatch COMMAND --help` prints what is written here.\n"
        "This page is generated from the parsers of `jaxmatch/cli/` by `docs/generate.py`.",
        table(("command", ""), names),
        f"`{main.IMPORT} FILE_OR_MODULE` goes with every command: it [adds models and more](../how_to/extend.md) of "
        "your own first.",
        "The exit status is 0; 2 if the input cannot be used, if a command that trains ends with runs failed or "
        "missing, or if the operating system refuses memory, disk space or access to a file; 130 after an interrupt; "
        "143 after SIGTERM; 141 for a closed output. An error of the program itself is a traceback and 1. "
        "`jaxmatch table` notes missing runs and ends with 0, but with 2 if no run has ended.",
        "`jaxmatch --version` prints the version. `jaxmatch` alone prints the help on standard error, with status 2.",
    ]
    for name, parser in subcommands(main.build_parser()).items():
        parts += [f"## jaxmatch {name}", inspect.cleandoc(parser.description or "")]
        inner = subcommands(parser)
        for action, each in inner.items() or [("", parser)]:
            parts += [f"The arguments of `jaxmatch {name} {action}`:"] if action else []
            parts.append(table(("argument", "meaning", "values"), arguments_of(each)))
        taken = main.SUBCOMMANDS[name]
        if taken.dotted:
            space = SPACE if "space" in taken.dotted else ""
            options = "" if name == "data" else OPTIONS
            parts.append(DOTTED + (GRID if name in ("sweep", "tune") else "") + space + options + ".")
    return "\n\n".join(parts) + "\n"


PAGES = {"settings.md": settings_page, "command_line.md": command_line_page}


def draw_pictures() -> None:
    """Draws the learning curves of results/quickstart, with 64 colors, so that the files stay small."""
    from PIL import Image

    from jaxmatch.reporting import figures
    from jaxmatch.reporting.records import read_sweep_folder

    root = Path(__file__).parent
    curves = figures.curves(read_sweep_folder(root.parent / "results" / "quickstart").records.values())
    for name, dark in (("light", False), ("dark", True)):
        picture = Image.open(io.BytesIO(figures.images(curves, dark=dark)["png"])).convert("RGB")
        picture.quantize(64).save(root / "pictures" / f"quickstart-{name}.png", optimize=True)


if __name__ == "__main__":
    if "--pictures" in sys.argv[1:]:
        draw_pictures()
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
