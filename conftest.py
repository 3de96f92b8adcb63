"""Loaded by pytest from the root: tests marked `slow` run last, so that a plain mistake shows at once."""


def pytest_collection_modifyitems(items: list) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
