//! The rows of the tables: a request as a program sends it, and what the program needs of the
//! response.

use super::shape::Type;

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The owner of the repository, with a token.
    Owner,
    /// The owner, with a password.
    Password,
    /// An administrator of the site, with a token.
    Administrator,
    /// A user who can only read, with a token.
    Reader,
    Anonymous,
}

/// What a program expects at a place in the JSON of a response. Texts can have placeholders.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Anything, also null.
    Present,
    /// A text that is not empty.
    Filled,
    /// A number above zero.
    Positive,
    /// A time that is not null.
    Set,
    True,
    False,
    Null,
    /// An empty list, object or text.
    Empty,
    /// A list or an object that is not empty.
    Entries,
    /// This text, or this number or boolean as text.
    Is(&'static str),
    /// A text that contains this.
    Has(&'static str),
}

/// What a request carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    None,
    /// JSON, with the fields that the program sends. Can have placeholders.
    Json(&'static str),
    /// A form with one file: its name and its content.
    File(&'static str, &'static str),
}

/// A request and what is read of its response. `{name}` in the path, the body and in expected
/// texts stands for what the fixture or an earlier row keeps by this name.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) method: &'static str,
    /// After `/api/v1`.
    pub(super) path: &'static str,
    pub(super) body: Body,
    pub(super) caller: Caller,
    /// Accepted statuses; empty for every 2xx.
    pub(super) statuses: &'static [u16],
    /// What the JSON is decoded into.
    pub(super) decoded: Option<Type>,
    /// Places in the JSON. In a pointer, `*` stands for every entry of a list with entries, and
    /// `?` for any one.
    pub(super) reads: &'static [(&'static str, Check)],
    /// Names and the places of their values.
    pub(super) keeps: &'static [(&'static str, &'static str)],
    /// The whole response, if it is a text.
    pub(super) text: Option<&'static str>,
    /// Whether the program looks for the next page.
    pub(super) has_next: bool,
    /// Whether the program reads how many entries there are on all pages.
    pub(super) has_total: bool,
    /// Whether the program asks again until the response is as it should be, because events take a
    /// moment.
    pub(super) is_repeated: bool,
}

const fn row(method: &'static str, path: &'static str, body: Body) -> Row {
    Row {
        method,
        path,
        body,
        caller: Caller::Owner,
        statuses: &[],
        decoded: None,
        reads: &[],
        keeps: &[],
        text: None,
        has_next: false,
        has_total: false,
        is_repeated: false,
    }
}

pub(super) const fn get(path: &'static str) -> Row {
    row("GET", path, Body::None)
}

pub(super) const fn post(path: &'static str, body: &'static str) -> Row {
    row("POST", path, Body::Json(body))
}

pub(super) const fn post_nothing(path: &'static str) -> Row {
    row("POST", path, Body::None)
}

pub(super) const fn upload(path: &'static str, name: &'static str, content: &'static str) -> Row {
    row("POST", path, Body::File(name, content))
}

pub(super) const fn put(path: &'static str, body: &'static str) -> Row {
    row("PUT", path, Body::Json(body))
}

pub(super) const fn put_nothing(path: &'static str) -> Row {
    row("PUT", path, Body::None)
}

pub(super) const fn patch(path: &'static str, body: &'static str) -> Row {
    row("PATCH", path, Body::Json(body))
}

pub(super) const fn delete(path: &'static str) -> Row {
    row("DELETE", path, Body::None)
}

pub(super) const fn delete_with(path: &'static str, body: &'static str) -> Row {
    row("DELETE", path, Body::Json(body))
}

impl Row {
    pub(super) const fn by(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    pub(super) const fn is(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }

    pub(super) const fn decodes(self, decoded: Type) -> Self {
        Self { decoded: Some(decoded), ..self }
    }

    pub(super) const fn reads(self, reads: &'static [(&'static str, Check)]) -> Self {
        Self { reads, ..self }
    }

    pub(super) const fn keeps(self, keeps: &'static [(&'static str, &'static str)]) -> Self {
        Self { keeps, ..self }
    }

    pub(super) const fn text(self, text: &'static str) -> Self {
        Self { text: Some(text), ..self }
    }

    pub(super) const fn has_next(self) -> Self {
        Self { has_next: true, ..self }
    }

    pub(super) const fn has_total(self) -> Self {
        Self { has_total: true, ..self }
    }

    pub(super) const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }
}
