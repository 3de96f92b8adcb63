"""Failed cohorts: the record of the error, and the message at the end."""

import secrets
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.files import read_json, write_json
from jaxmatch.workdir import CohortFolder

_LONGEST = 400


def prevents_all_training(error: Exception) -> bool:
    """Returns whether an error would affect every other cohort, too: the disk is full, a folder is gone, or standard
    error is closed.
    """
    return isinstance(error, OSError) and error.errno is not None


def mark_failed(folder: CohortFolder, error: Exception) -> str:
    """Stores an error in the folder of its cohort, and returns its message in one line."""
    if isinstance(error, InputError):
        message = "; ".join(filter(None, (error.problem, error.remedy)))
    else:
        message = f"{type(error).__name__}: {error}".removesuffix(": ")
    message = " ".join(message.split())[:_LONGEST]
    # The number distinguishes this failure from an earlier one with the same words.
    notes = {
        "failure": secrets.token_hex(8),
        "message": message,
        "traceback": "".join(traceback.format_exception(error)),
    }
    write_json(folder.error_file, notes)
    return message


def failure_message(folder: CohortFolder) -> str:
    """Returns why a cohort failed, in one line."""
    try:
        return str(read_json(folder.error_file)["message"])
    except (OSError, ValueError, KeyError, TypeError):  # another launcher tries again, or the file is damaged
        return "the reason is lost"


class FailedCohorts(InputError):
    """Some cohorts failed; the others were trained.

    Arguments:
      folders: the folders of the cohorts that failed.
      runs: the number of runs that were planned.

    Attributes:
      records: the records of the runs that did not fail.
      table: the table of these records, in Markdown, or "" if there is no table.
    """

    def __init__(self, folders: Sequence[CohortFolder], runs: int):
        self.records: Sequence[Mapping[str, Any]] = ()
        self.table = ""
        first, missing = folders[0], sum(len(folder.runs) for folder in folders)
        others = "" if len(folders) == 1 else f" (and {len(folders) - 1} more failed)"
        super().__init__(
            f"this cohort failed: {failure_message(first)}{others}",
            path=first.path,
            remedy=f"{missing} of {runs} runs are missing: their training failed; see {first.error_file.name}; run the "
            "same command to try again",
        )
