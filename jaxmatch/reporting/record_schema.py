"""The parts of a record that a table reads: checked fields, settings and scores."""

import json
import math
from collections.abc import Mapping
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.printable import without_nan

STATUSES = ("finished", "diverged", "dropped")
FORMAT = 1
# The labels of a row besides the settings of its config.
RUN_LABELS = ("seed", "variant")

# Field -> its types. A bool is an int in Python, but is not accepted in a record.
_FIELDS: dict[str, tuple[type, ...]] = {
    "run": (str,),
    "seed": (int,),
    "variant": (str,),
    "overrides": (Mapping,),
    "config": (Mapping,),
    "status": (str,),
    "selected_on": (str,),
    "dev": (Mapping, type(None)),
    "test": (Mapping, type(None)),
    "best_on_test": (Mapping, type(None)),
    "device": (str,),
    "data": (Mapping,),
    "parameters": (int,),
}
_DATA_FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "fingerprint": (str,),
    "train": (int,),
    "dev": (int, type(None)),
    "test": (int, type(None)),
    "vectors": (str, type(None)),
}
# Further fields, for learning curves and for tables with one line per run.
_CURVE_FIELDS: dict[str, tuple[type, ...]] = {
    "curve": (list,),
    "times": (Mapping,),
    "versions": (Mapping,),
    "selected_at_samples": (int, type(None)),
    "diverged_at_samples": (int, type(None)),
    "cohort": (str,),
}
_NUMBER = (int, float, type(None))
_MISSING = object()
REMEDY = "remove the run's folder and run the sweep again"


def _name(record: Mapping, position: int) -> str:
    run = record.get("run")
    return f"record {run}" if isinstance(run, str) else f"record number {position + 1}"


def _check_fields(record: Mapping, fields: Mapping[str, tuple[type, ...]], name: str, prefix: str = "") -> None:
    for field, kinds in fields.items():
        value = record.get(field, _MISSING)
        if value is _MISSING:
            raise InputError(f"{name} has no field {prefix + field!r}", remedy=REMEDY)
        if not isinstance(value, kinds) or isinstance(value, bool):
            shown = json.dumps(value, default=str)[:60]
            raise InputError(f"{name}: field {prefix + field!r} cannot be {shown}", remedy=REMEDY)


def check_record(record: Any, position: int = 0) -> None:
    """Checks that a table cannot misread a record.

    Arguments:
      record: a record, as read from its file.
      position: the index of the record among the records, from 0. Error messages use it if the run has no name.

    Raises:
      InputError: the record is not a JSON object, or a field is missing or damaged. The message names the record and
        the field.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"record number {position + 1} is not a JSON object")
    name = _name(record, position)
    if record.get("format") != FORMAT:
        raise InputError(
            f"{name} has format {record.get('format')!r}, this program reads format {FORMAT}",
            remedy="make the table with the version that trained the run",
        )
    _check_fields(record, _FIELDS, name)
    _check_fields(record["data"], _DATA_FIELDS, name, "data.")
    if not isinstance(record.get("products", ""), str):
        raise InputError(f"{name}: field 'products' is not a text", remedy=REMEDY)
    if record["status"] not in STATUSES:
        raise InputError(f"{name}: status {record['status']!r} is none of {', '.join(STATUSES)}")
    if record["status"] == "finished" and record["dev"] is None:
        raise InputError(f"{name} is finished but has no dev scores")
    for part in ("dev", "test", "best_on_test", "times"):
        scores = scores_of(record, part, name)
        for score, value in scores.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                shown = json.dumps(value, default=str)[:60]
                raise InputError(f"{name}: {part + '.' + score!r} is not a number: {shown}")

    _check_sampling(record, name)


def _check_sampling(record: Mapping, name: str) -> None:
    """Checks the field `test_sampling`. Records of older versions, and of tasks other than ranking, do not have it."""
    sampling = record.get("test_sampling")
    if sampling is None:
        return
    if not isinstance(sampling, Mapping):
        raise InputError(f"{name}: field 'test_sampling' is not a JSON object", remedy=REMEDY)
    _check_fields(sampling, {"questions": (int,), "deviations": (Mapping,)}, name, "test_sampling.")
    _check_fields(
        sampling["deviations"], dict.fromkeys(sampling["deviations"], _NUMBER), name, "test_sampling.deviations."
    )


def deviation_of(record: Mapping, score: str) -> tuple[float, int] | None:
    """Returns the standard deviation of a score such as "test.mrr" over the questions, and the number of questions.
    Returns None if the record does not contain them.
    """
    part, _, name = score.partition(".")
    sampling = record.get("test_sampling") if part == "test" else None
    if not sampling or sampling["questions"] < 1:  # a test set may hold no question that counts
        return None
    value = sampling["deviations"].get(name)
    return (float(value), sampling["questions"]) if value is not None and math.isfinite(value) else None


def check_curve(record: Mapping) -> None:
    """Checks that the learning curve, the times and the versions of a record can be shown.

    Raises:
      InputError: a field is missing or damaged. The message names the record and the field.
    """
    name = _name(record, 0)
    _check_fields(record, _CURVE_FIELDS, name)
    for place, entry in enumerate(record["curve"], start=1):
        if not isinstance(entry, Mapping):
            raise InputError(f"{name}: field 'curve' is damaged: point {place} is not a JSON object", remedy=REMEDY)
        _check_fields(entry, {"samples": (int,), "train_loss": _NUMBER, "dev": (Mapping,)}, name, f"curve.{place}.")
        _check_fields(entry["dev"], dict.fromkeys(entry["dev"], _NUMBER), name, f"curve.{place}.dev.")


def scores_of(record: Mapping, part: str, name: str = "") -> Mapping[str, Any]:
    """Returns the scores of "dev", "test", "best_on_test" or "times", which are empty if the record has none."""
    scores = record.get(part)
    if part == "best_on_test" and scores is not None:
        scores = scores.get("scores")
        if not isinstance(scores, Mapping):
            raise InputError(f"{name or 'record ' + record['run']}: field 'best_on_test.scores' is missing or damaged")
    return scores if isinstance(scores, Mapping) else {}


def score_of(record: Mapping, score: str) -> float | None:
    """Returns the value of a score such as "test.mrr", or None if it is missing or undefined (NaN) in the record."""
    part, _, name = score.partition(".")
    value = scores_of(record, part).get(name)
    return None if value is None else without_nan(float(value))


def has_setting(record: Mapping, key: str) -> bool:
    """Returns whether `setting_of` finds the key."""
    return _find(record, key) is not _MISSING


def setting_of(record: Mapping, key: str) -> Any:
    """Returns the value that a run has for a grid key: "seed", "variant", or a dotted path of its config. Returns None
    if the run does not have the key.

    A key that the run's grid did not name is looked up in its resolved config, so that runs of an earlier, narrower
    grid find their place in the table of a wider one.
    """
    value = _find(record, key)
    return None if value is _MISSING else value


def _find(record: Mapping, key: str) -> Any:
    if key in RUN_LABELS:
        return record[key]
    if key in record["overrides"]:
        return record["overrides"][key]
    value: Any = record["config"]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def identity(value: Any) -> str:
    """Returns a text that two settings share if they mean the same. 1 and 1.0 share it, [3, 5] and (3, 5) share it, 1
    and True do not.
    """
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(identity(each) for each in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return json.dumps(value, sort_keys=True, default=str)


def differing_settings(first: Mapping, second: Mapping) -> list[str]:
    """Returns the config keys (dotted) and data keys (such as "record.data.fingerprint") in which two records differ,
    except for the seed.
    """

    def flat(value: Any, prefix: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            return {prefix: identity(value)}
        found: dict[str, str] = {}
        for key, each in value.items():
            found |= flat(each, f"{prefix}.{key}" if prefix else str(key))
        return found

    one = flat(first["config"], "") | flat(first["data"], "record.data")
    two = flat(second["config"], "") | flat(second["data"], "record.data")
    return sorted(key for key in one.keys() | two.keys() if key != "seed" and one.get(key) != two.get(key))
