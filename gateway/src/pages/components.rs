//! Small parts of pages: times, sizes, icons, and links to further pages of a list.

use std::fmt::{self, Display, Formatter};

use askama::filters::HtmlSafe;
use chrono::{DateTime, Utc};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// After this, a date says more than a number of days.
const RELATIVE_DAYS: i64 = 30;
const RELATIVE_SECONDS: i64 = RELATIVE_DAYS * DAY;

/// A time: relative in the text, absolute in the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(pub(super) DateTime<Utc>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        DateTime::parse_from_rfc3339(&text).map(|time| Self(time.to_utc())).map_err(D::Error::custom)
    }
}

impl HtmlSafe for Time {}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(time) = self;
        let text = relative(Utc::now().signed_duration_since(time).num_seconds(), *time);
        let (machine, person) = (time.format("%Y-%m-%dT%H:%M:%SZ"), time.format("%Y-%m-%d %H:%M:%S UTC"));
        write!(f, "<time datetime=\"{machine}\" title=\"{person}\">{text}</time>")
    }
}

impl Time {
    /// The date, as in the field of a form.
    pub(super) fn date(self) -> impl Display {
        self.0.format("%Y-%m-%d")
    }

    /// The day alone, as for a date that is due.
    pub(super) fn day(self) -> Day {
        Day(self)
    }

    pub(super) fn is_past(self) -> bool {
        self.0 < Utc::now()
    }
}

/// A day in UTC: relative in the text, absolute in the title.
#[derive(Clone, Copy, Debug)]
pub(super) struct Day(Time);

impl HtmlSafe for Day {}

impl Display for Day {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(time) = self;
        let days = (time.0.date_naive() - Utc::now().date_naive()).num_days();
        let (date, text) = (time.date(), relative_day(days, time.0));
        write!(f, "<time datetime=\"{date}\" title=\"{date}\">{text}</time>")
    }
}

/// `days` are those from today, negative for the past.
fn relative_day(days: i64, time: DateTime<Utc>) -> String {
    match days {
        0 => "today".to_owned(),
        1 => "tomorrow".to_owned(),
        -1 => "yesterday".to_owned(),
        2..=RELATIVE_DAYS => format!("in {days} days"),
        _ if (-RELATIVE_DAYS..0).contains(&days) => format!("{} days ago", -days),
        _ => date_in_words(time),
    }
}

fn date_in_words(time: DateTime<Utc>) -> String {
    time.format("%-d %b %Y").to_string()
}

fn relative(seconds: i64, time: DateTime<Utc>) -> String {
    let (past, seconds) = (seconds >= 0, seconds.abs());
    let (count, unit) = match seconds {
        ..MINUTE if past => return "just now".to_owned(),
        ..MINUTE => return "in a moment".to_owned(),
        MINUTE..HOUR => (seconds / MINUTE, "minute"),
        HOUR..DAY => (seconds / HOUR, "hour"),
        DAY..RELATIVE_SECONDS => (seconds / DAY, "day"),
        _ => return date_in_words(time),
    };
    let text = Count(count.unsigned_abs(), unit);
    if past { format!("{text} ago") } else { format!("in {text}") }
}

/// A number with its noun, as in `1 commit` and `2 commits`.
pub(super) struct Count<'a>(pub(super) u64, pub(super) &'a str);

impl Display for Count<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        match (*count, noun.strip_suffix('y')) {
            (1, _) => write!(f, "1 {noun}"),
            (count, Some(stem)) if !noun.ends_with("day") => write!(f, "{count} {stem}ies"),
            (count, _) => write!(f, "{count} {noun}s"),
        }
    }
}

/// A number of bytes, in the largest unit of 1,024 that keeps it above 1.
pub(super) struct Bytes(pub(super) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if bytes < 1024 {
            return write!(f, "{bytes} B");
        }
        let place = (bytes.ilog2() / 10).clamp(1, 4);
        let value = bytes as f64 / f64::powi(1024.0, i32::try_from(place).unwrap_or(1));
        write!(f, "{value:.1} {}", units[place as usize - 1])
    }
}

/// An icon of the set below, drawn with lines in the color of the text. Screen readers skip it, so
/// there is always a text beside it or a label around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Icon(&'static str);

impl HtmlSafe for Icon {}

impl Display for Icon {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<svg class=\"icon\" viewBox=\"0 0 16 16\" width=\"16\" height=\"16\" aria-hidden=\"true\">{}</svg>",
            self.0
        )
    }
}

/// Filters of the templates.
#[expect(unreachable_pub, reason = "the attribute makes them public")]
pub(super) mod filters {
    use super::{ICONS, Icon};

    /// `{{ "star"|icon }}`; an empty icon for an unknown name.
    #[askama::filter_fn]
    pub(in crate::pages) fn icon(name: &str, _: &dyn askama::Values) -> askama::Result<Icon> {
        Ok(Icon(ICONS.iter().find(|(found, _)| *found == name).map_or("", |(_, shape)| shape)))
    }
}

pub(super) const ICONS: [(&str, &str); 24] = [
    (
        "branch",
        r#"<circle cx="4.5" cy="3.5" r="1.75"/><circle cx="4.5" cy="12.5" r="1.75"/><circle cx="11.5" cy="4.5" r="1.75"/><path d="M4.5 5.25v5.5M11.5 6.25c0 3-7 1.5-7 4.5"/>"#,
    ),
    ("check", r#"<path d="m3 8.5 3.5 3.5L13 4.5"/>"#),
    ("closed", r#"<circle cx="8" cy="8" r="6"/><path d="m5.5 8.25 1.75 1.75L10.75 6"/>"#),
    ("comment", r#"<path d="M2.5 3h11v8H8l-3 2.5V11H2.5z"/>"#),
    ("commit", r#"<circle cx="8" cy="8" r="2.75"/><path d="M1.5 8h3.75M10.75 8h3.75"/>"#),
    ("cross", r#"<path d="m4 4 8 8m0-8-8 8"/>"#),
    ("download", r#"<path d="M8 2v8m-3-3 3 3 3-3M3 13.5h10"/>"#),
    ("draft", r#"<circle cx="8" cy="8" r="6" stroke-dasharray="2.5 2"/>"#),
    ("eye", r#"<path d="M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8z"/><circle cx="8" cy="8" r="2"/>"#),
    ("file", r#"<path d="M4 1.75h5l3 3v9.5H4zM9 1.75v3h3"/>"#),
    ("folder", r#"<path class="solid" d="M1.75 3.25h4l1.5 1.75h7v8H1.75z"/>"#),
    (
        "fork",
        r#"<circle cx="4" cy="3.5" r="1.75"/><circle cx="12" cy="3.5" r="1.75"/><circle cx="8" cy="12.5" r="1.75"/><path d="M4 5.25C4 8.5 8 7 8 10.75M12 5.25C12 8.5 8 7 8 10.75"/>"#,
    ),
    ("issue", r#"<circle cx="8" cy="8" r="6"/><circle class="solid" cx="8" cy="8" r="1"/>"#),
    (
        "link",
        r#"<path d="m6.5 9.5 3-3M7 4.5 8.75 2.75a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.75 1.75a3 3 0 0 1-4.5-4.5L4.5 7"/>"#,
    ),
    ("lock", r#"<path d="M3.5 7.25h9v6.5h-9zM5.25 7V4.75a2.75 2.75 0 0 1 5.5 0V7"/>"#),
    (
        "merge",
        r#"<circle cx="4.5" cy="3.5" r="1.75"/><circle cx="4.5" cy="12.5" r="1.75"/><circle cx="11.5" cy="8.5" r="1.75"/><path d="M4.5 5.25v5.5M4.5 5.25c0 2.5 2.5 3.25 5.25 3.25"/>"#,
    ),
    ("milestone", r#"<path d="M4 1.75v12.5M4 2.75h7.5L13.5 5l-2 2.25H4"/>"#),
    ("person", r#"<circle cx="8" cy="5" r="2.75"/><path d="M2.75 14c.5-3 2.5-4.5 5.25-4.5s4.75 1.5 5.25 4.5"/>"#),
    (
        "pull",
        r#"<circle cx="4" cy="3.5" r="1.75"/><circle cx="4" cy="12.5" r="1.75"/><circle cx="12" cy="12.5" r="1.75"/><path d="M4 5.25v5.5M12 10.75V6.5a2.5 2.5 0 0 0-2.5-2.5H7.5m2-2.25-2.25 2.25L9.5 6.25"/>"#,
    ),
    (
        "repository",
        r#"<path d="M3 13.25V3.5c0-1 .75-1.75 1.75-1.75H13v9.75H4.75c-1 0-1.75.75-1.75 1.75s.75 1 1.75 1H13v-2.75M6 4.5h4"/>"#,
    ),
    ("search", r#"<circle cx="7" cy="7" r="4.25"/><path d="m10.25 10.25 3.75 3.75"/>"#),
    ("star", r#"<path d="m8 1.75 1.9 4 4.35.55-3.2 3 .85 4.35L8 11.5l-3.9 2.15.85-4.35-3.2-3 4.35-.55z"/>"#),
    ("submodule", r#"<path d="M1.75 3.25h4l1.5 1.75h7v8H1.75zM6 9h4M8.5 7.5 10 9l-1.5 1.5"/>"#),
    ("tag", r#"<path d="M2 2h5.5l6.5 6.5-5.5 5.5L2 7.5z"/><circle class="solid" cx="5" cy="5" r="1"/>"#),
];

/// A page of a list, and the number of entries on all pages where the API counts them.
#[derive(Clone, Debug)]
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    pub(super) total: Option<u64>,
}

/// The links below a list to its other pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pager {
    pub(super) number: u64,
    /// Zero if the API does not count the entries.
    pub(super) last: u64,
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

impl Pager {
    /// `here` is path and query of the page, `size` the number of entries of a full page.
    pub(super) fn of<T>(here: &str, size: u64, listed: &Listed<T>) -> Self {
        let number = page_number(here);
        let last = listed.total.map_or(0, |total| total.div_ceil(size).max(1));
        let has_next = if last > 0 { number < last } else { listed.items.len() as u64 >= size };
        Self {
            number,
            last,
            previous: (number > 1).then(|| with_parameter(here, "page", &(number - 1).to_string())),
            next: has_next.then(|| with_parameter(here, "page", &(number + 1).to_string())),
        }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// Returns the number of the page of a list, from 1.
pub(super) fn page_number(here: &str) -> u64 {
    parameter(here, "page").and_then(|number| number.parse().ok()).unwrap_or(1).clamp(1, 1_000_000)
}

/// Returns a parameter of a query, decoded.
pub(super) fn parameter(here: &str, name: &str) -> Option<String> {
    let (_, query) = here.split_once('?')?;
    let value = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == name)?.1;
    let value = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

/// Returns path and query with another value of one parameter; without it for an empty value.
pub(super) fn with_parameter(here: &str, name: &str, value: &str) -> String {
    let (path, query) = here.split_once('?').unwrap_or((here, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let new = (!value.is_empty()).then(|| format!("{name}={}", ferrite_api_types::links::encode(value.as_bytes())));
    let query: Vec<_> = kept.map(str::to_owned).chain(new).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_times_are_relative_and_old_ones_are_dates() {
        let time = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        for (seconds, expected) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7_200, "2 hours ago"),
            (-1, "in a moment"),
            (-86_400 * 2, "in 2 days"),
            (86_400 * 29, "29 days ago"),
            (86_400 * 30, "14 Nov 2023"),
        ] {
            assert_eq!(relative(seconds, time), expected);
        }
    }

    #[test]
    fn near_days_are_relative_and_far_ones_are_dates() {
        let time = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        for (days, expected) in [
            (0, "today"),
            (1, "tomorrow"),
            (-1, "yesterday"),
            (30, "in 30 days"),
            (-2, "2 days ago"),
            (-30, "30 days ago"),
            (31, "14 Nov 2023"),
            (-31, "14 Nov 2023"),
        ] {
            assert_eq!(relative_day(days, time), expected);
        }
        let day = Time(time).day().to_string();
        assert_eq!(day, "<time datetime=\"2023-11-14\" title=\"2023-11-14\">14 Nov 2023</time>");
    }

    #[test]
    fn numbers_have_their_nouns_and_units() {
        assert_eq!(Count(1, "reply").to_string(), "1 reply");
        assert_eq!(Count(2, "reply").to_string(), "2 replies");
        assert_eq!(Count(0, "day").to_string(), "0 days");
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
        assert_eq!(Bytes(u64::MAX).to_string(), "16777216.0 TiB");
    }

    #[test]
    fn a_parameter_replaces_itself_alone() {
        assert_eq!(with_parameter("/a?q=x&page=2", "page", "3"), "/a?q=x&page=3");
        assert_eq!(with_parameter("/a?page=2", "page", ""), "/a");
        assert_eq!(with_parameter("/a", "q", "a b&c"), "/a?q=a%20b%26c");
        assert_eq!(parameter("/a?q=a+b%26c", "q").as_deref(), Some("a b&c"));
        assert_eq!((page_number("/a?page=0"), page_number("/a?page=x"), page_number("/a?page=7")), (1, 1, 7));
    }

    #[test]
    fn a_pager_ends_with_the_list() {
        let pager = |here, count, total| Pager::of(here, 10, &Listed { items: vec![(); count], total });
        assert!(!pager("/a", 3, Some(3)).is_needed());
        let middle = pager("/a?page=2", 10, Some(25));
        assert_eq!(
            (middle.last, middle.previous.as_deref(), middle.next.as_deref()),
            (3, Some("/a?page=1"), Some("/a?page=3"))
        );
        assert_eq!(pager("/a?page=3", 5, Some(25)).next, None);
        assert!(pager("/a", 10, None).next.is_some(), "it is not known where the list ends");
    }

    #[test]
    fn every_icon_is_drawn() {
        assert!(ICONS.iter().all(|(name, shape)| !name.is_empty() && shape.starts_with('<')));
        assert!(ICONS.is_sorted_by_key(|(name, _)| *name));
    }
}
