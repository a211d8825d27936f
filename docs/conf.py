"""The documentation site: `make docs` runs Sphinx with this file over the whole checkout.

The root of the sources is the checkout and not this folder, so that the links of each page (to examples, results, the
changelog) are the same on the site and in a file browser.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for site_directives

import selc

project = "selc"
author = "The selc developers"
copyright = "The selc developers, Apache-2.0"
release = version = selc.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "site_directives",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/results/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "README.md"]
exclude_patterns = [".*", "build", "dist", "runs", "src", "tests", "examples"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
highlight_language = "none"  # a block says what it is; output is not coloured

autodoc_mock_imports = ["transformers", "accelerate", "lightning"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the types stand in the sections of each docstring
numpydoc_show_class_members = False  # members are listed on the page, where they are documented
default_role = "code"  # `name` in a docstring

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"selc {release}"
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["site"]  # index.html at the root
