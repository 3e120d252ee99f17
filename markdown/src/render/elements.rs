//! HTML elements and attributes allowed in rendered texts.

/// Where an element may be nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Inline, with content.
    Inline,
    /// Inline, without content.
    Void,
    /// A block with content.
    Block,
    /// A block without content.
    VoidBlock,
    /// Table, row group or row. May contain only other parts of a table.
    TablePart,
    /// Table cell or caption.
    Cell,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Attributes in addition to [`ATTRIBUTES`].
    pub(super) attributes: &'static [&'static str],
}

/// Attributes of every element.
pub(super) const ATTRIBUTES: &[&str] = &["title", "lang", "dir"];
/// Class prefix for languages of code (`language-rust`).
pub(super) const LANGUAGE_CLASS: &str = "language-";
/// Pygments classes of highlighted code: keyword, string, comment, number, tag name, and inserted,
/// deleted and heading lines of a patch.
pub(super) const HIGHLIGHT_CLASSES: &[&str] = &["k", "s", "c", "m", "nt", "gi", "gd", "gu"];
/// Values of `style` allowed in table cells.
pub(super) const CELL_STYLES: &[&str] = &["text-align: left", "text-align: center", "text-align: right"];

const fn element(name: &'static str, kind: Kind, attributes: &'static [&'static str]) -> Element {
    Element { name, kind, attributes }
}

const fn inline(name: &'static str) -> Element {
    element(name, Kind::Inline, &[])
}

const fn block(name: &'static str) -> Element {
    element(name, Kind::Block, &["align"])
}

/// Elements that texts may contain. Only the renderer writes `input`, for task lists.
pub(super) const ELEMENTS: &[Element] = &[
    element("a", Kind::Inline, &["href"]),
    inline("abbr"),
    inline("b"),
    inline("cite"),
    element("code", Kind::Inline, &["class"]),
    inline("del"),
    inline("dfn"),
    inline("em"),
    inline("i"),
    inline("ins"),
    inline("kbd"),
    inline("mark"),
    inline("q"),
    inline("s"),
    inline("samp"),
    inline("small"),
    element("span", Kind::Inline, &["class"]),
    inline("strike"),
    inline("strong"),
    inline("sub"),
    inline("sup"),
    inline("tt"),
    inline("u"),
    inline("var"),
    element("br", Kind::Void, &[]),
    element("img", Kind::Void, &["src", "alt", "width", "height", "align"]),
    element("wbr", Kind::Void, &[]),
    element("hr", Kind::VoidBlock, &[]),
    block("blockquote"),
    block("center"),
    block("dd"),
    element("details", Kind::Block, &["open"]),
    block("div"),
    block("dl"),
    block("dt"),
    block("figcaption"),
    block("figure"),
    block("h1"),
    block("h2"),
    block("h3"),
    block("h4"),
    block("h5"),
    block("h6"),
    block("li"),
    element("ol", Kind::Block, &["start"]),
    block("p"),
    block("pre"),
    block("summary"),
    block("ul"),
    element("table", Kind::TablePart, &["align"]),
    element("thead", Kind::TablePart, &["align"]),
    element("tbody", Kind::TablePart, &["align"]),
    element("tfoot", Kind::TablePart, &["align"]),
    element("tr", Kind::TablePart, &["align"]),
    element("td", Kind::Cell, &["align", "colspan", "rowspan"]),
    element("th", Kind::Cell, &["align", "colspan", "rowspan"]),
    element("caption", Kind::Cell, &[]),
];

impl Element {
    /// Finds an element by name, ignoring case.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ELEMENTS.iter().find(|element| element.name.eq_ignore_ascii_case(name))
    }

    /// Finds an attribute of the element by name, ignoring case.
    pub(super) fn attribute(&self, name: &str) -> Option<&'static str> {
        let all = self.attributes.iter().chain(ATTRIBUTES);
        all.copied().find(|attribute| attribute.eq_ignore_ascii_case(name))
    }

    pub(super) fn has_content(&self) -> bool {
        !matches!(self.kind, Kind::Void | Kind::VoidBlock)
    }
}
