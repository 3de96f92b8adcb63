"""The benchmarks by their names on the command line, in the order in which they run."""

from benchmarks.item import Item
from benchmarks.items import first_table, inference, paper, replicas, training

ITEMS: dict[str, Item] = {
    "first_table": first_table.ITEM,
    "nine_programs": first_table.NINE_PROGRAMS_ITEM,
    "training": training.ITEM,
    "replicas": replicas.ITEM,
    "inference": inference.ITEM,
    "paper": paper.ITEM,
}
