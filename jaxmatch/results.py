"""Results of sweeps in Python: a data frame of runs, a table, the scores of a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.config.settings import flatten
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import PARTS, TableLayout
from jaxmatch.reporting.records import data_frame, read_sweep_folder, scores_of
from jaxmatch.reporting.table import Table, make_table, table_of

if TYPE_CHECKING:
    import pandas

    from jaxmatch.data.pairs import Split
    from jaxmatch.inference.matcher import Matcher


def records(results: str | Path | Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Returns a data frame with a row for each run that has ended. `results` is the folder of a sweep, or records as
    `run` returns them, which give no column `folder`.

    The columns are `run`, `folder`, `variant`, `seed`, `status` and other fields of a record, every setting
    (`model.blocks`), every score (`dev.accuracy`, `test.accuracy`) as a share of 1 or NaN, and the times
    (`times.train_seconds`). Runs whose status is not "finished" may have dev scores, too.

    Raises:
      InputError: pandas is not installed, no sweep was run in the folder, or a file is damaged.
    """
    folder = Path(results) / "runs" if isinstance(results, str | Path) else None
    rows = []
    records: Any = results if folder is None else read_sweep_folder(folder.parent).records.values()
    for record in records:
        fields = ("run", "variant", "seed", "status", "parameters", "selected_on", "selected_at_samples")
        row = {name: record.get(name) for name in fields}
        row |= {} if folder is None else {"folder": str(folder / record["run"])}
        row |= flatten(record["config"])
        row |= {f"{part}.{name}": value for part in PARTS for name, value in scores_of(record, part).items()}
        rows.append(row)
    frame = data_frame(rows)
    scores = [name for name in frame.columns if name.startswith(("dev.", "test.", "best_on_test."))]
    return frame.astype(dict.fromkeys(scores, float))  # None, for an undefined score, becomes NaN


def table(results: str | Path | Sequence[Mapping[str, Any]], layout: TableLayout | None = None) -> Table:
    """Returns the table of a sweep. `print` and a notebook show it; its methods write it in other forms.

    Arguments:
      results: the folder of a sweep, or records.
      layout: the layout of the table; None: the layout that the sweep defines.

    Raises:
      InputError: no run has finished, or records come without a layout.
    """
    folder = read_sweep_folder(Path(results)) if isinstance(results, str | Path) else None
    if folder is not None and layout is None:
        return table_of(folder)
    if layout is None:
        problem = "records do not say what their table shows"
        raise InputError(problem, remedy="give a TableLayout, or the sweep's folder")
    records: Any = list(folder.records.values()) if folder else results
    return make_table(records, layout)


def evaluate(
    model: str | Path | Matcher,
    data: str | Path | Split | None = None,
    *,
    split: str = "test",
    directory: str | Path | None = None,
    details: bool = False,
    **layout: str,
) -> dict[str, Any]:
    """Computes the scores of a trained model: score -> value, as in records, but without "loss" and calibration.

    Of a calibrated model there are also the scores that `jaxmatch calibrate` prints, as they are without calibration.

    Arguments:
      model: the folder of a run or of a sweep, as `load` takes it, or a `Matcher` that `load` returned.
      data: a file of labeled pairs, in the layout of training data, or a `Split`; None: the data set that the model was
        trained on.
      split: "train", "dev" or "test", the split of that data set.
      directory: the folder with the files of that data set; None: the folder used in training.
      details: whether to return all that `jaxmatch evaluate --format json` writes about the pairs.
      layout: `columns`, `labels` and `by`, texts for a file as in the command; `by` needs `details`.

    Raises:
      InputError: the model or the data cannot be used.
    """
    from jaxmatch.analysis.evaluate import evaluation, official_split, own_file
    from jaxmatch.inference.matcher import load

    matcher = load(model) if isinstance(model, str | Path) else model
    if data is None:
        data = official_split(matcher, split, None if directory is None else str(directory))
    pairs = own_file(matcher, Path(data), layout) if isinstance(data, str | Path) else data
    found = evaluation(matcher, pairs, layout.get("labels", ""))
    return found if details else found["scores"]
