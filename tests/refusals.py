"""Calls that the package must refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from jaxmatch.errors import InputError


def refused(call: Callable, *arguments: Any, match: str | None = None, **keywords: Any) -> InputError:
    """The error of a call, which must be an `InputError` of one line."""
    with pytest.raises(InputError, match=match) as caught:
        call(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return caught.value
