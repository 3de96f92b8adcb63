"""The benchmarks by their names on the command line, in the order in which they run."""

from benchmarks.item import Item
from benchmarks.items import (
    inference,
    lstm,
    matching,
    models,
    paper,
    preparation,
    replicas,
    requests,
    starts,
    training,
    workers,
)

ITEMS: dict[str, Item] = {
    "training": training.ITEM,
    "replicas": replicas.ITEM,
    "inference": inference.ITEM,
    "matching": matching.ITEM,
    "preparation": preparation.ITEM,
    "lstm": lstm.ITEM,
    "models": models.ITEM,
    "starts": starts.ITEM,
    "requests": requests.ITEM,
    "workers": workers.ITEM,
    "paper": paper.ITEM,
}
