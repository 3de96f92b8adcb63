"""Sphinx's settings for the site: `make docs`."""

from jaxmatch import __version__

project = "jaxmatch"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "jaxmatch"
autodoc_typehints = "none"  # docstrings give types with shapes
# Links to pages outside this folder work in the repository and are plain text on the site. tests/test_docs.py checks
# all links.
suppress_warnings = ["myst.xref_missing"]
