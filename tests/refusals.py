"""Checks of calls for which the package must raise an error."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jaxmatch
from jaxmatch.errors import InputError


def refused(call: Callable, *arguments: Any, match: str | None = None, **keywords: Any) -> InputError:
    """Checks that a call raises an `InputError` of one line, and returns the error."""
    with pytest.raises(InputError, match=match) as caught:
        call(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return caught.value


def soon_refused(model: Path, match: str) -> None:
    """Checks that loading a model folder fails quickly, with one short line that names the folder."""
    began = time.process_time()
    message = str(refused(jaxmatch.load, model, match=match))
    assert str(model) in message and len(message) < 700
    assert time.process_time() - began < 10
