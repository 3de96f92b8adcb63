"""Failed cohorts: the record of the error, and the message at the end."""

import secrets
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.files import read_json, write_json
from jaxmatch.workdir import CohortFolder

_LONGEST = 400


def of_the_machine(error: Exception) -> bool:
    """Whether an error would meet every other cohort, too: the disk is full, a folder is gone, standard error is
    closed.
    """
    return isinstance(error, OSError) and error.errno is not None


def mark_failed(folder: CohortFolder, error: Exception) -> str:
    """Writes an error down in the folder of its cohort, and gives it in one line."""
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
    write_json(folder.error, notes)
    return message


def message_of(folder: CohortFolder) -> str:
    """Why a cohort failed, in a line."""
    try:
        return str(read_json(folder.error)["message"])
    except (OSError, ValueError, KeyError, TypeError):  # another launcher tries it again, or it is damaged
        return "the reason is lost"


class FailedCohorts(InputError):
    """Some cohorts failed; the others were trained.

    Arguments:
      folders: of the cohorts that failed.
      runs: how many runs were planned.

    Attributes:
      records: of the runs that did not fail.
      table: of these, in Markdown; "" where there is none.
    """

    def __init__(self, folders: Sequence[CohortFolder], runs: int):
        self.records: Sequence[Mapping[str, Any]] = ()
        self.table = ""
        first, missing = folders[0], sum(len(folder.runs) for folder in folders)
        others = "" if len(folders) == 1 else f" (and {len(folders) - 1} more failed)"
        self.note = f"{missing} of {runs} runs are missing: their training failed"
        super().__init__(
            f"this cohort failed: {message_of(first)}{others}",
            path=first.path,
            remedy=f"{self.note}; {first.error.name} says more, and the same command tries again",
        )
