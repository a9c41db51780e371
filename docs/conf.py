"""How Sphinx builds the documentation: ``make docs``."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger
from sphinx_gallery.sorting import ExplicitOrder

from suquan import __version__

project = "suquan"
author = "The suquan developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
smartquotes = False
toc_object_entries_show_parents = "hide"
exclude_patterns = ["_build", "auto_examples/**.ipynb", "auto_examples/**.py"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # numpydoc's sections have the types
autodoc_default_options = {
    "members": True,
    # Methods that the estimators have from scikit-learn are on scikit-learn's pages.
    "inherited-members": "BaseEstimator,ClassifierMixin,RegressorMixin,TransformerMixin,"
    "_MetadataRequester,_SetOutputMixin,tuple,dict",
    "exclude-members": "set_fit_request,set_score_request,set_predict_request,set_transform_request",
}
autosummary_generate = True
numpydoc_show_class_members = False  # autodoc documents them

FIRST_EXAMPLES = [
    f"plot_{name}.py"
    for name in ("quickstart", "quantile_normalization", "learned_target", "verdict")
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": ExplicitOrder([*FIRST_EXAMPLES, "*"]),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # a page that fetches scripts
    "show_signature": False,
    "abort_on_example_error": True,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "suquan"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["suquan.css"]
html_sidebars = {"index": [], "which": []}
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # a first visit without it is warned about in the console
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_math_renderer = "mathml"  # which browsers draw by themselves: no script to fetch


def visit_math(self, node):
    """Formula as MathML, by docutils' own converter."""
    block = isinstance(node, nodes.math_block)
    try:
        self.body.append(tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        getLogger(__name__).warning(str(error), location=node)
    raise nodes.SkipNode


def link_examples(app, docname, content):
    """Links to scripts of the gallery lead to their pages, with output and pictures."""
    content[0] = re.sub(
        r"\]\((?:\.\./)+examples/(plot_\w+)\.py\)", r"](/auto_examples/\1.rst)", content[0]
    )


def setup(app):
    """Register the renderer of formulas, and what is done to sources."""
    app.connect("source-read", link_examples)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_math, None), block_renderers=(visit_math, None)
    )
