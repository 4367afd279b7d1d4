"""The documentation site: `make docs` builds docs/_build/html from the Markdown pages here and the docstrings.

Text that exists elsewhere is never copied: sections of the README, the changelog, the commands and the settings come in
at build time (extensions/generated.py), and so do the docstrings (extensions/docstrings.py).
"""

import sys
from pathlib import Path

import everystep

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

project, version = "everystep", everystep.__version__
author, copyright = "the authors of everystep", "the authors of everystep, MIT licence"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "docstrings", "generated", "links"]
extensions.append("tutorials")
exclude_patterns = ["_build", "figures", "extensions"]
root_doc = "index"

# Pages: headings have the names that GitHub gives them, as the links between pages use.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "attrs_block"]
highlight_language = "text"  # indented blocks hold commands, tables and formulas

# Tutorials are executed at every build, and a cell that fails stops it: their numbers and pictures come from the cells.
nb_execution_mode = "force"
nb_kernel_rgx_aliases = {"python3": "everystep-docs"}  # extensions/tutorials.py
nb_execution_timeout = 120  # seconds for one cell
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_output_stderr = "remove"  # notes on progress, which depend on the machine; the tests make warnings errors

# Docstrings: what a module imports under another name, and what it inherits, is documented where it is defined.
autodoc_default_options = {"members": True, "undoc-members": True, "special-members": "__call__"}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # those of gymnasium are not ours
autodoc_preserve_defaults = True  # a default as it is written, not as it prints
autosummary_generate = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# Types of signatures that have no entry here (of NumPy, of JAX, of our own parts) are printed without a link. A page
# refers to an entry by {py:obj}, and that must exist.
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:data", r"typing\..*")]

html_theme = "furo"
pygments_style, pygments_dark_style = "github-light", "github-dark"
html_title = f"everystep {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
