//! The elements and attributes of HTML that a rendered text may have.

/// The rules by which an element may stand inside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of a line, with content.
    Inline,
    /// Part of a line, without content.
    Void,
    /// A block with content.
    Block,
    /// A block without content.
    VoidBlock,
    /// Table, group of rows, or row: has other parts of a table alone.
    TablePart,
    /// A cell or the caption of a table.
    Cell,
}

/// An element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Attributes beside those of [`ATTRIBUTES`].
    pub(super) attributes: &'static [&'static str],
}

/// Attributes of every element.
pub(super) const ATTRIBUTES: &[&str] = &["title", "lang", "dir"];
/// Language names of code (`language-rust`) begin with this class.
pub(super) const LANGUAGE_CLASS: &str = "language-";
/// Classes of highlighted code, those of Pygments: keyword, string, comment, number, name of a tag, and inserted, deleted and heading
/// lines of a patch.
pub(super) const HIGHLIGHT_CLASSES: &[&str] = &["k", "s", "c", "m", "nt", "gi", "gd", "gu"];
/// Values of `style` that cells of tables may have.
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

/// The elements that a text may write itself. `input`, a task in a list, is written by the renderer alone.
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
    /// Returns the element with a name, written in any case.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ELEMENTS.iter().find(|element| element.name.eq_ignore_ascii_case(name))
    }

    /// Returns the attribute with a name, written in any case, if the element may have it.
    pub(super) fn attribute(&self, name: &str) -> Option<&'static str> {
        let all = self.attributes.iter().chain(ATTRIBUTES);
        all.copied().find(|attribute| attribute.eq_ignore_ascii_case(name))
    }

    /// Returns whether the element has content.
    pub(super) fn has_content(&self) -> bool {
        !matches!(self.kind, Kind::Void | Kind::VoidBlock)
    }
}
