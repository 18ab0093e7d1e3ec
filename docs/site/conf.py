"""Sphinx's settings for the documentation's site; `build.py` prepares the pages."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "tta-bench"
version = release = installed("tta-bench")
extensions = ["myst_parser"]
root_doc = "index"
nitpicky = True  # a reference to nothing is an error, as `build.py` turns warnings into errors
myst_heading_anchors = 4  # the anchors that GitHub makes
suppress_warnings = ["myst.header"]  # tables that `report` wrote begin with a third-level heading

html_theme = "furo"  # light and dark, narrow and wide; fonts of the system, nothing from a network
html_title = f"tta-bench {version}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
