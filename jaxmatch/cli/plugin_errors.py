"""One line, instead of JAX's traceback, for each plugin of JAX that does not work on this machine, such as that for
CUDA on a node without a GPU.
"""

import logging

from jaxmatch.cli.output import note
from jaxmatch.errors import first_line

# JAX reports these errors to this logger (jax 0.10 and 0.11). If it uses another one, its traceback is printed.
_LOGGER = "jax._src.xla_bridge"


def shorten_plugin_errors() -> None:
    """Makes JAX report each plugin that fails in one line on standard error."""
    logging.getLogger(_LOGGER).addFilter(_shorten)


def _shorten(record: logging.LogRecord) -> bool:
    error = record.exc_info and record.exc_info[1]
    if not error or "plugin" not in str(record.msg):
        return True
    plugin = str(record.args[0]).rpartition(".")[2] if isinstance(record.args, tuple) and record.args else "a plugin"
    reason = first_line(error)
    note(f"jaxmatch: JAX cannot use {plugin} here, and computes on other devices ({reason})")
    return False
