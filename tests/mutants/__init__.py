"""Faults that the tests must catch, and the command that puts them in one at a time: `python -m tests.mutants`.

A fault is a text of a source file and the text that replaces it. This folder has a table of faults for each part of the
package, one file each; `TABLES` names them.
"""

import dataclasses
import importlib
from pathlib import Path

TABLES = ("training", "measures", "model", "inference", "data", "planning", "commands", "workdir", "machines")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
      file: the source file, relative to the repository.
      before: a text that occurs in the file exactly once.
      after: the text that replaces it.
      tests: files or node ids of pytest, of which at least one must fail.
    """

    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def applied(self, root: Path) -> str:
        """Returns the source text with the fault.

        Raises:
          ValueError: `before` does not occur exactly once.
        """
        text = (root / self.file).read_text()
        if (found := text.count(self.before)) != 1:
            raise ValueError(f"{self.file}: {self.before!r} occurs {found} times, not once")
        return text.replace(self.before, self.after)


def all_mutants() -> list[Mutant]:
    """Returns the faults of all tables, in order."""
    tables = [importlib.import_module(f"{__name__}.{name}").MUTANTS for name in TABLES]
    return [Mutant(file, before, after, tuple(tests)) for table in tables for file, before, after, tests in table]
