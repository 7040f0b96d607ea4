"""The pages' HTML as Dash components: a few known tags and attributes, and text that stays text.

What the report writes as markup is shown as the same markup, and React writes every word of it as text. A tag, an attribute
or an address that is not listed here is an error, so that nothing else gets into a page even where an escape was forgotten.
"""

from html.parser import HTMLParser
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

TAGS = {
    **{name: getattr(html, name.capitalize()) for name in (
        "abbr", "article", "b", "blockquote", "br", "button", "caption", "code", "datalist", "dd", "del", "details", "div", "dl",
        "dt", "em", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "header", "hr", "i", "img", "ins", "kbd",
        "label", "li", "mark", "nav", "noscript", "ol", "option", "p", "pre", "progress", "s", "script", "section", "small",
        "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
    )},
    "input": dcc.Input,
}  # fmt: skip
NAMES = {"class": "className", "colspan": "colSpan", "rowspan": "rowSpan", "tabindex": "tabIndex"}
ATTRIBUTES = {
    "action", "alt", "class", "colspan", "height", "id", "list", "max", "method", "name", "role", "rowspan", "scope", "src",
    "tabindex", "title", "type", "value", "width",
}  # fmt: skip
EMPTY = ("br", "hr", "img", "input")
DROPPED = ("loading",)  # of an image, which Dash does not know


def elements(markup: str) -> list[Any]:
    """The markup's components and texts, in order.

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
        self.open: list[tuple[str, dict[str, Any], list[Any]]] = [("", {}, [])]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, {name: value or "" for name, value in attrs if name not in DROPPED}, []))
        if tag in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        opened, attributes, children = self.open.pop()
        if opened != tag or not self.open:
            raise ValueError(f"</{tag}> closes <{opened}>")
        self.open[-1][2].append(_component(tag, attributes, children))

    def handle_data(self, data: str) -> None:
        if data.strip() or not data.startswith("\n"):  # line breaks between tags are no text
            self.open[-1][2].append(data)


def _component(tag: str, attributes: dict[str, str], children: list[Any]) -> Component:
    if tag == "a":
        return _link(attributes, children)
    if tag not in TAGS or (tag == "script" and attributes.get("type") != "application/json"):
        raise ValueError(f"pages have no <{tag}>")
    unknown = [name for name in attributes if name not in ATTRIBUTES and not name.startswith("aria-")]
    if unknown:
        raise ValueError(f"<{tag}> has no {unknown[0]!r}")
    if not attributes.get("src", "data:image/png;").startswith("data:image/") or not attributes.get("action", "/").startswith(
        "/"
    ):
        raise ValueError(f"<{tag}> points outside the page")
    named = {NAMES.get(name, name): value for name, value in attributes.items()}
    return TAGS[tag](**named) if tag in EMPTY else TAGS[tag](children, **named)


def _link(attributes: dict[str, str], children: list[Any]) -> Component:
    """A page of the board is shown without loading the board again."""
    target = attributes["href"]
    if target.startswith("/") and not target.startswith("//"):
        return dcc.Link(children, href=target)
    if target.startswith(("http://", "https://")):
        return html.A(children, href=target, target="_blank", rel="noopener noreferrer")
    raise ValueError(f"a link to {target!r}")
