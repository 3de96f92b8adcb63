"""Calls that the package must refuse."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jaxmatch
from jaxmatch.errors import InputError


def refused(call: Callable, *arguments: Any, match: str | None = None, **keywords: Any) -> InputError:
    """The error of a call, which must be an `InputError` of one line."""
    with pytest.raises(InputError, match=match) as caught:
        call(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return caught.value


def soon_refused(model: Path, match: str) -> None:
    """Checks that a folder is no model to load: one short line that names it, without much work."""
    began = time.process_time()
    said = str(refused(jaxmatch.load, model, match=match))
    assert str(model) in said and len(said) < 700
    assert time.process_time() - began < 10
