"""The benchmarks, by the name the command line gives them; in the order they run."""

from benchmarks.settings import Item

ITEMS: dict[str, Item] = {}
