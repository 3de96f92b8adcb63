"""Plugins of JAX that do not work here, as that for CUDA on a node without a GPU: a line instead of JAX's traceback."""

import logging

from jaxmatch.cli.output import note
from jaxmatch.errors import first_line

# Where JAX tells of them (jax 0.10 and 0.11); without this logger its traceback is printed as before.
_LOGGER = "jax._src.xla_bridge"


def shorten_plugin_errors() -> None:
    """Has a plugin that fails reported in one line on standard error, once for each plugin."""
    logging.getLogger(_LOGGER).addFilter(_shorten)


def _shorten(record: logging.LogRecord) -> bool:
    error = record.exc_info and record.exc_info[1]
    if not error or "plugin" not in str(record.msg):
        return True
    plugin = str(record.args[0]).rpartition(".")[2] if isinstance(record.args, tuple) and record.args else "a plugin"
    reason = first_line(error)
    note(f"jaxmatch: JAX cannot use {plugin} here, and computes on other devices ({reason})")
    return False
