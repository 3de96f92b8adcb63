"""Results of sweeps in Python: a data frame of runs, a table, the scores of a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.config.settings import flatten
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import read_sweep_folder, scores_of
from jaxmatch.reporting.table import Table, make_table, table_of

if TYPE_CHECKING:
    import pandas

    from jaxmatch.data.pairs import Split
    from jaxmatch.inference.matcher import Matcher

# Fields of a record that become columns unchanged.
_PLAIN = ("run", "variant", "seed", "status", "parameters", "selected_on", "selected_at_samples")


def records(results: str | Path | Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Returns a data frame with a row for each run of a sweep that has ended.

    Runs that diverged or were dropped may have dev scores, too. To leave them out, take the rows whose `status` is
    "finished".

    The columns are `run`, `folder`, `variant`, `seed`, `status` and other fields of a record, every setting
    (`model.blocks`), every score (`dev.accuracy`, `test.accuracy`) and the times (`times.train_seconds`). A score is a
    share of 1, not a percentage, and NaN if it is undefined.

    Arguments:
      results: the folder of a sweep, or records as `run` returns them, which give no column `folder`.

    Raises:
      InputError: pandas is not installed, no sweep was run in the folder, or a file is damaged.
    """
    try:
        import pandas
    except ImportError:
        raise NotInstalled("a data frame", "pandas", "tables") from None
    folder = None
    if isinstance(results, str | Path):
        folder = Path(results)
        results = read_sweep_folder(folder).records.values()
    rows = []
    for record in results:
        row: dict[str, Any] = {name: record.get(name) for name in _PLAIN}
        if folder is not None:
            row["folder"] = str(folder / "runs" / record["run"])
        row |= flatten(record["config"])
        for part in ("dev", "test", "best_on_test", "times"):
            row |= {f"{part}.{name}": value for name, value in scores_of(record, part).items()}
        rows.append(row)
    frame = pandas.DataFrame(rows)
    scores = [name for name in frame.columns if name.startswith(("dev.", "test.", "best_on_test."))]
    return frame.astype(dict.fromkeys(scores, float))  # None, for an undefined score, becomes NaN


def table(results: str | Path | Sequence[Mapping[str, Any]], layout: TableLayout | None = None) -> Table:
    """Returns the table of a sweep: means and standard deviations over the seeds.

    Arguments:
      results: the folder of a sweep, or records.
      layout: the layout of the table; None: the layout that the sweep defines.

    Returns:
      A table, which a notebook shows; `markdown()`, `latex()`, `csv()` and `json()` return its text.

    Raises:
      InputError: no run has finished, or records come without a layout.
    """
    if isinstance(results, str | Path):
        folder = read_sweep_folder(Path(results))
        if layout is None:
            return table_of(folder)
        results = list(folder.records.values())
    if layout is None:
        raise InputError(
            "records do not say what their table shows", remedy="give a TableLayout, or the sweep's folder"
        )
    return make_table(results, layout)


def evaluate(
    model: str | Path | Matcher,
    data: str | Path | Split | None = None,
    *,
    split: str = "test",
    directory: str | Path | None = None,
) -> dict[str, float]:
    """Computes the scores of a trained model.

    Arguments:
      model: the folder of a run, or a `Matcher` that `load` returned.
      data: a file of labeled pairs, in the layout of training data, or a `Split`; None: the data set that the model was
        trained on, for which `model` must be the folder of a run.
      split: "train", "dev" or "test", the split of that data set.
      directory: the folder with the files of that data set; None: the folder used in training.

    Returns:
      Score -> value, as in records, but without "loss". A calibration is not used.

    Raises:
      InputError: the model or the data cannot be used.
    """
    from jaxmatch.analysis.evaluate import official_split, own_file, score_split
    from jaxmatch.inference.matcher import load

    matcher = load(Path(model)) if isinstance(model, str | Path) else model
    if data is None:
        if not isinstance(model, str | Path):
            raise InputError("a Matcher does not say what data to use", remedy="give a run's folder, or data")
        where = None if directory is None else str(directory)
        data = official_split(Path(model), matcher, split, where)
    elif isinstance(data, str | Path):
        data = own_file(matcher, Path(data))
    return score_split(matcher, data)
