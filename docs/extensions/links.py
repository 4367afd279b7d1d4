"""`es.name` on any page is a link to its entry in the reference, as in the docstrings."""

from __future__ import annotations

from typing import Any

from docstrings import entries, entry_of
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform


class LinkedNames(SphinxTransform):
    """Make code that is the name of an entry a link, where it is not part of one, or of a heading."""

    default_priority = 500

    def apply(self, **options: Any) -> None:
        known = entries()
        for code in list(self.document.findall(nodes.literal)):
            name = entry_of(code.astext(), known)
            if name and isinstance(code.parent, nodes.paragraph | nodes.term):
                link = pending_xref(
                    "",
                    refdomain="py",
                    reftype="obj",
                    reftarget=f"everystep.{name}",
                    refdoc=self.env.docname,
                    refwarn=True,
                    refexplicit=True,
                )
                code.replace_self(link)
                link += code


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(LinkedNames)
    return {"parallel_read_safe": True}
