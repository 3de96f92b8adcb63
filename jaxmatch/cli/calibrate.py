"""Choose the temperature of a run's probabilities, and the threshold between two labels, on dev.

    jaxmatch calibrate runs/quora/runs/RUN
    jaxmatch calibrate runs/quora --best --choose f1
    jaxmatch calibrate runs/quora/runs/RUN --precision 0.95 --positive duplicate

The temperature maximizes the likelihood. A pair gets the positive label if its probability reaches the threshold; a
model with more than two labels has none. Both are kept in the run's model folder, as calibration.json. From then on
`predict` uses them; `jaxmatch evaluate` shows the scores with and without them. --remove removes them.
"""

import argparse

from jaxmatch.cli import own_data, splits
from jaxmatch.cli.output import show
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.errors import InputError
from jaxmatch.printable import count_text, printable, printable_json, without_nan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--choose", choices=("accuracy", "f1"), help="score that the threshold maximizes (default: accuracy)"
    )
    what.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="choose the threshold with the highest recall whose precision is at least P",
    )
    what.add_argument("--remove", action="store_true", help="remove the run's calibration")
    parser.add_argument(
        "--positive", metavar="LABEL", help="the label that the threshold is for (default: the second of two)"
    )
    splits.add_file_argument(parser, "pairs with labels to choose on (default: dev)")
    own_data.add_layout_arguments(parser)
    splits.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.inference import model_folder
    from jaxmatch.inference.calibration import FILE

    folder = chosen_run(arguments)
    if arguments.remove:
        for name in ("input", "positive", "data_directory", *own_data.LAYOUT):
            if getattr(arguments, name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"--remove cannot be combined with --{option}", remedy="leave it out")
        path = model_folder.find(folder) / FILE
        if not path.exists():
            raise InputError("there is no calibration", path=path)
        path.unlink()
        return
    from jaxmatch.analysis.scoring import label_numbers, pairs_of
    from jaxmatch.inference.calibration import chosen_calibration
    from jaxmatch.inference.matcher import load

    matcher = load(folder)
    if matcher.task == "regression":
        raise InputError("a regression has no probabilities to calibrate", path=folder)
    if arguments.precision is not None and not 0 < arguments.precision <= 1:
        raise InputError(f"--precision is {arguments.precision:g}", remedy="give a number above 0, at most 1, as 0.95")
    split, name = splits.requested_pairs(arguments, folder, matcher, "dev")
    numbers = label_numbers(matcher, split)
    found = chosen_calibration(
        matcher.logits(pairs_of(split)),
        numbers,
        matcher.labels,
        objective=arguments.choose or ("accuracy" if arguments.precision is None else "precision"),
        precision=arguments.precision,
        positive=arguments.positive,
        data=name,
    )
    path = model_folder.save_calibration(folder, found)
    if arguments.format == "json":
        show(printable_json(without_nan({"run": str(folder), "file": str(path)} | vars(found))))
        return
    show(f"{printable(name)}: {count_text(len(split), 'pair')}")
    show(f"temperature  {found.temperature:.4f}")
    if found.threshold is not None:
        show(f"threshold    {found.threshold:.4f}  (of {printable(found.positive)}, chosen for {found.objective})")
    show_before_and_after(found.before, found.after)


def show_before_and_after(before: dict[str, float], after: dict[str, float]) -> None:
    """Prints the scores without and with a calibration in two columns."""
    width = max(map(len, before))
    show(f"{'':<{width}}  as trained  calibrated")
    for key, value in before.items():
        show(f"{key:<{width}}  {value:>10.4f}  {after[key]:>10.4f}")
