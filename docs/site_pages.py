"""A hook of mkdocs: gives it the pages of the checkout in the form that it needs.

Pages beside docs/ are part of the site. Other files are not: a link to one becomes its text.
tests/house finds dead links between files of the checkout, mkdocs finds those between pages.
No state.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_CHECKOUT = Path(__file__).parent.parent
# The pages beside docs/, and their places in the site, which has docs/README.md as its first page.
_BESIDE = {
    "README.md": "introduction.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-reports.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# A list that begins right below a paragraph: Python-Markdown wants an empty line between them.
_LIST = re.compile(r"^(?![-|>#\s]|\d+\. )(.*\n)(?=(?:-|1\.) )", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in _BESIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(_CHECKOUT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = Path(page.file.abs_src_path or "").relative_to(_CHECKOUT)

    def in_site(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(source.parent.as_posix(), target))
        place = _BESIDE.get(path, path.removeprefix("docs/"))
        if place == path:  # no page of the site
            return text if (_CHECKOUT / path).exists() else link[0]
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"[{text}]({posixpath.relpath(place, here)}{anchor})"

    pieces = _CODE.split(markdown)
    pieces[::2] = [_LINK.sub(in_site, _LIST.sub(r"\1\n", piece)) for piece in pieces[::2]]
    return "".join(pieces)
