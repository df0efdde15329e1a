"""Reading a written site in tests: its pages parsed, with their links."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

VOID = {"meta", "link", "br", "img", "input", "hr", "path"}


class Page(HTMLParser):
    """One page: tags with attributes, text, links, and whether all tags close in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self._open, f"{path}: {self._open} stay open"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open and self._open.pop() == tag, f"{self.path}: </{tag}> out of order, line {self.getpos()}"

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def references(self):
        named = [(a.get("href") or a.get("src")) for _, a in self.tags if a.get("href") or a.get("src")]
        return [reference for reference in named if not reference.startswith("data:")]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def pages(folder: Path) -> list[Page]:
    return [Page(path) for path in sorted(folder.rglob("*.html"))]


def target(page: Page, reference: str) -> Path:
    """The file that a link names; an address elsewhere is none of ours."""
    parts = urlsplit(reference)
    assert not parts.scheme and not parts.netloc, f"{page.path} leads to {reference}"
    return (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
