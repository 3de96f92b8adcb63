"""Export a run for programs without this package.

    jaxmatch export runs/quickstart/runs/RUN --format stablehlo --output exported
    jaxmatch export runs/quickstart --best --format onnx --output exported

`stablehlo` writes a program that `jax.export` runs on CPUs, GPUs and TPUs. `onnx` writes one for ONNX Runtime; it needs
`pip install 'jaxmatch[onnx]'` and `pip install --no-deps 'jax2onnx>=0.17.1,<0.18'`. Both take any number of pairs of
any length. `safetensors` writes the weights alone. Tokenizer, vocabulary and word vectors are written to the same
folder, in plain files. docs/how_to/export.md shows how to run an export.
"""

import argparse

from jaxmatch.cli.output import note
from jaxmatch.cli.paths import check_output_folder, nonempty_path
from jaxmatch.cli.runs import add_run_arguments, chosen_run

FORMATS = ("stablehlo", "onnx", "safetensors")
WHEN_INTERRUPTED = "interrupted; nothing was written"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--format", choices=FORMATS, required=True, help="format of the export")
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", required=True, help="folder of the export")


def run(arguments: argparse.Namespace) -> None:
    check_output_folder(arguments.output)
    folder = chosen_run(arguments)
    from jaxmatch.inference.export import export
    from jaxmatch.inference.matcher import load

    export(load(folder), arguments.output, arguments.format)
    note(f"note: wrote {arguments.output}")
