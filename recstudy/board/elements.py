"""The pages' HTML as nodes that the board's script builds: a few known tags and attributes, and text that stays text.

What the report writes as markup is shown as the same markup, and the script writes every word of it as text. A tag, an
attribute or an address that is not listed here is an error, so that nothing else gets into a page even where an escape was
forgotten.
"""

from html.parser import HTMLParser
from typing import TypeAlias

Node: TypeAlias = "str | tuple[str, dict[str, str], list[Node]]"  # a text, or tag, attributes and children

TAGS = {
    "a", "abbr", "article", "b", "blockquote", "br", "button", "caption", "code", "datalist", "dd", "del", "details", "div",
    "dl", "dt", "em", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "header", "hr", "i", "img", "input",
    "ins", "kbd", "label", "li", "mark", "nav", "noscript", "ol", "option", "p", "pre", "progress", "s", "script", "section",
    "select", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "action", "alt", "checked", "class", "colspan", "data-head", "disabled", "height", "href", "id", "label", "list", "loading",
    "max", "method", "name", "role", "rowspan", "scope", "selected", "src", "tabindex", "title", "type", "value", "width",
}  # fmt: skip
EMPTY = ("br", "hr", "img", "input")
ELSEWHERE = {"target": "_blank", "rel": "noopener noreferrer"}
# Where an attribute may point to: places in the page, pages of the board, programs elsewhere; pictures that the page holds.
POINTS = {"href": ("#", "/", "http://", "https://"), "src": ("data:image/",), "action": ("/",)}
ODD = set("\\\t\r\n")  # a browser takes a backslash for a slash and skips the others: / and one of them may be // to it


def elements(markup: str) -> list[Node]:
    """The markup's nodes in order.

    Raises:
        ValueError: a tag, attribute or address that pages do not have, or tags that do not match.
    """
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    if len(reader.open) > 1:
        raise ValueError(f"<{reader.open[-1][0]}> is not closed")
    return reader.open[0][2]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str], list[Node]]] = [("", {}, [])]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, _checked(tag, {name: value or "" for name, value in attrs}), []))
        if tag in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        node = self.open.pop()
        if node[0] != tag or not self.open:
            raise ValueError(f"</{tag}> closes <{node[0]}>")
        self.open[-1][2].append(node)

    def handle_data(self, data: str) -> None:
        if data.strip() or not data.startswith("\n"):  # line breaks between tags are no text
            self.open[-1][2].append(data)


def _checked(tag: str, attributes: dict[str, str]) -> dict[str, str]:
    """The attributes of a tag that pages have; what leads to another program opens beside the board."""
    if tag not in TAGS or (tag == "script" and attributes.get("type") != "application/json"):
        raise ValueError(f"pages have no <{tag}>")
    for name, value in attributes.items():
        if name not in ATTRIBUTES and not name.startswith("aria-"):
            raise ValueError(f"<{tag}> has no {name!r}")
        if name in POINTS and (not value.startswith(POINTS[name]) or value.startswith("//") or ODD & set(value)):
            raise ValueError(f"<{tag}> points to {value!r}")
    return attributes | (ELSEWHERE if attributes.get("href", "").startswith("http") else {})
