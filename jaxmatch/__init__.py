"""jaxmatch: compact text-matching models trained as whole sweeps."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["interop", "load"]


def __getattr__(name: str) -> Any:
    # `jaxmatch --help` should not wait for jax: what needs it is imported when it is first asked for.
    if name == "load":
        from jaxmatch.inference.matcher import load

        return load
    if name == "interop":
        from jaxmatch.inference import interop

        return interop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jaxmatch` in a notebook adds the command as `%jaxmatch`."""
    from jaxmatch.cli import magic

    magic.register(shell)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
