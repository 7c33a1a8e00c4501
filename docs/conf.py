"""How Sphinx builds the documentation: `make docs`. The reference is written from the code by docs/_ext."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("WFLSIM_STORE", str(HERE.parent / "build/docs-store"))
warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the tools, not of wflsim

from importlib.metadata import version as installed  # noqa: E402

project = "wflsim"
author = "the wflsim authors"
project_copyright = "the wflsim authors, MIT licence"
version = release = installed("wflsim")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "wflsim_reference",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_ext", "examples", "**/README.md"]
suppress_warnings = ["config.cache"]
highlight_language = "none"  # equations and trees stand in plain fences

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["tutorials"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "nested_sections": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = "wflsim"
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
html_show_sourcelink = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = False
