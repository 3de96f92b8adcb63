"""NLTK's tokenizers without the rest of NLTK, which takes one to two seconds to import."""

import functools
import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

# Tokenizer -> the module of NLTK that defines it.
MODULES = {"NLTKWordTokenizer": "nltk.tokenize.destructive", "TweetTokenizer": "nltk.tokenize.casual"}
_importing = threading.Lock()


@functools.cache
def tokenizer(name: str) -> Any:
    """Returns the tokenizer "NLTKWordTokenizer" or "TweetTokenizer"."""
    with _importing:
        if "nltk" not in sys.modules:
            try:
                return getattr(_import_without_package(MODULES[name]), name)()
            except (ImportError, AttributeError):  # another release of NLTK has other modules
                pass
        return getattr(importlib.import_module("nltk.tokenize"), name)()


def _import_without_package(name: str) -> ModuleType:
    """Imports a module of NLTK without running `nltk/__init__.py` and `nltk/tokenize/__init__.py`.

    Empty packages replace both during the import. They are removed afterwards, so that a later import of NLTK imports
    all of it.
    """
    (folder,) = importlib.util.find_spec("nltk").submodule_search_locations
    for package, path in (("nltk", folder), ("nltk.tokenize", str(Path(folder, "tokenize")))):
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [path]
    try:
        return importlib.import_module(name)
    finally:
        for loaded in [each for each in list(sys.modules) if each.partition(".")[0] == "nltk"]:
            del sys.modules[loaded]
