"""The options for the layout of the user's own data: columns, labels, splits."""

import argparse
from collections.abc import Sequence
from typing import Any

from jaxmatch.config.settings import OWN_LAYOUT

# The options for the layout of a single file.
LAYOUT = ("columns", "labels", "quoted")


def add_layout_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds --columns, --labels and --quoted."""
    parser.add_argument(
        "--columns", metavar="A=B,...", help="columns with other names: text_a=question1,text_b=question2,label=same"
    )
    parser.add_argument("--labels", metavar="A=B,...", help="names of the labels: 0=different,1=same")
    parser.add_argument("--quoted", action="store_true", default=None, help="TSV with quotation marks, as in CSV")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("your own data")
    add_layout_arguments(own)
    own.add_argument(
        "--split", metavar="A/B/C", help="split one file into train, dev and test with these shares: 0.8/0.1/0.1"
    )
    own.add_argument("--split-seed", type=_seed, metavar="N", help="seed of the split (default: 0)")


def layout_settings(arguments: argparse.Namespace, names: Sequence[str] = OWN_LAYOUT) -> dict[str, Any]:
    """Returns setting of the data section -> value, for the options that were given."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)
