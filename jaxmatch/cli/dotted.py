"""`--config.x.y=value`, `--grid.x.y=value,value`, `--space.x.y=low:high`: options whose names come from a config."""

from collections.abc import Sequence

from jaxmatch.errors import InputError

# Kind -> an example.
KINDS = {
    "config": "--config.model.blocks=3",
    "grid": "--grid.model.blocks=1,2,3",
    "space": "--space.optimizer.learning_rate=log:1e-4:1e-2",
}


def take_dotted(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Takes the dotted options out of a command line.

    `--config.x.y=value` and `--config.x.y value` mean the same. If a name is given twice, the last value wins. Words
    after `--` are not taken.

    Returns:
      The words that are left, and {"config": {"x.y": "value"}, "grid": {...}, "space": {...}}.

    Raises:
      InputError: an option has no name or no value.
    """
    rest: list[str] = []
    taken: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
            break
        kind = next((kind for kind in KINDS if word.startswith(f"--{kind}.")), None)
        if kind is None:
            rest.append(word)
            continue
        option, equals, value = word.partition("=")
        name = option.removeprefix(f"--{kind}.")
        if not equals:
            value = next(words, None)
            value = None if value is not None and value.startswith("--") else value
        if not all(name.split(".")) or value is None:
            raise InputError(
                f"{option} has no {'name' if value is not None else 'value'}", remedy=f"write it like {KINDS[kind]}"
            )
        taken[kind][name] = value
    return rest, taken
