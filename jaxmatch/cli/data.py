"""Fetch published data, and look at data before training on it.

    jaxmatch data fetch                                            # lists what can be fetched
    jaxmatch data fetch snli glove.840B --data-directory ~/data
    jaxmatch data check snli --data-directory ~/data

`fetch` downloads releases from their owners, or from a mirror, and unpacks them. `check` shows counts, labels, lengths,
how many words have a vector, and problems such as pairs that occur in two splits.
"""

import argparse

from jaxmatch.cli import fetch, own_data
from jaxmatch.cli.output import show
from jaxmatch.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    fetch.add_parser(actions)
    check = actions.add_parser(
        "check", help="counts, labels, lengths, vocabulary coverage and problems", allow_abbrev=False
    )
    check.add_argument("name", metavar="NAME", help='such as "snli", "wikiqa", "embedded_inference", or "own"')
    check.add_argument(
        "--data-directory",
        metavar="DIR",
        help="folder with the data files (default for public data sets: $JAXMATCH_DATA)",
    )
    check.add_argument("--task", default="", help='task of "own" data: classification, regression or ranking')
    own_data.add_arguments(check)
    check.add_argument(
        "--vectors", default="", metavar="FILE", help="word vectors, whose coverage is reported; or hashed"
    )
    check.add_argument(
        "--tokenizer", default="word", help="word (default), whitespace, characters, tweet or tweet_split"
    )
    check.add_argument("--keep-case", action="store_true", help="do not lower-case")
    check.add_argument("--keep-punctuation", action="store_true", help="keep tokens that are pure punctuation")
    check.add_argument(
        "--minimum-count",
        type=int,
        default=5,
        metavar="N",
        help="keep words without a vector that occur at least N times",
    )
    check.add_argument("--maximum-length", type=int, default=0, metavar="N", help="cut texts to N tokens (0: no limit)")
    check.add_argument(
        "--truncation-side", default="right", metavar="SIDE", help="right (default): cut at the end of a text; or left"
    )

    check.set_defaults(act=_check)


def run(arguments: argparse.Namespace) -> None:
    arguments.act(arguments)


def _check(arguments: argparse.Namespace) -> None:
    from jaxmatch.config.settings import DataConfig
    from jaxmatch.config.settings import check as check_settings
    from jaxmatch.data.data_check import check
    from jaxmatch.data.encoding import DataSettings
    from jaxmatch.data.places import data_directory, vectors_file

    if arguments.split_seed is not None and arguments.split is None:
        raise InputError("--split-seed needs --split", remedy="give the shares: --split 0.8/0.1/0.1")
    words = {
        "tokenizer": arguments.tokenizer,
        "minimum_count": arguments.minimum_count,
        "maximum_length": arguments.maximum_length,
        "truncation_side": arguments.truncation_side,
    }
    check_settings(DataConfig, words, "data")
    directory = data_directory(arguments.name, arguments.data_directory)
    settings = DataSettings(
        name=arguments.name,
        directory=directory,
        task=arguments.task,
        **own_data.layout_settings(arguments),
        vectors=vectors_file(arguments.vectors, directory),
        lowercase=not arguments.keep_case,
        remove_punctuation=not arguments.keep_punctuation,
        **words,
    )
    show(check(settings))
