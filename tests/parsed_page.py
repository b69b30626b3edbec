"""A page of HTML, read for the tests."""

from html.parser import HTMLParser

# Elements without an end.
VOID = {"meta", "link", "br", "img", "path", "use"}


class Page(HTMLParser):
    """The parts of a page that the tests look at, and whether its elements are nested."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.sources, self.tags = [], [], [], []
        self.cells, self.facts, self.value = [], [], None
        self.open, self.badly_nested, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "xlink:href") if name in found]
        loaded = ("src", "srcset", "data", "poster", "action")
        self.sources += [found[name] for name in loaded if name in found]
        self.value = found.get("data-value")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.badly_nested.append(tag)
        self.value = None

    def handle_data(self, data):
        self.words += data
        if self.value:
            self.cells.append((float(self.value), data))
        if self.open and self.open[-1] in ("dt", "dd"):
            self.facts.append(data)
