"""The benchmarks by their names on the command line, in the order in which they run."""

from benchmarks.item import Item
from benchmarks.items import (
    compilation,
    dispatch,
    inference,
    lstm,
    matching,
    memory,
    models,
    paper,
    preparation,
    replicas,
    requests,
    schedule,
    starts,
    sweep,
    training,
    workers,
)

ITEMS: dict[str, Item] = {
    "training": training.ITEM,
    "replicas": replicas.ITEM,
    "inference": inference.ITEM,
    "matching": matching.ITEM,
    "preparation": preparation.ITEM,
    "sweep": sweep.ITEM,
    "memory": memory.ITEM,
    "lstm": lstm.ITEM,
    "models": models.ITEM,
    "compilation": compilation.ITEM,
    "dispatch": dispatch.ITEM,
    "starts": starts.ITEM,
    "requests": requests.ITEM,
    "schedule": schedule.ITEM,
    "workers": workers.ITEM,
    "paper": paper.ITEM,
}
