//! Parsers of numbers within a range. `--help` shows the range.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

/// Maximum of settings in seconds, ten years. Added to a point in time, it cannot overflow.
pub const MAX_SECONDS: u32 = 10 * 365 * 24 * 3_600;
/// Name of the hidden possible value that carries the text of the range.
const RANGE: &str = "range";

/// A parser of numbers within a range. Displays as the range: `1 to 1,000`.
#[derive(Clone, Debug)]
pub struct Numbers<T>(Bound<T>, Bound<T>);

/// Returns a parser of numbers within `range`.
pub fn within<T: Copy>(range: impl RangeBounds<T>) -> Numbers<T> {
    Numbers(range.start_bound().cloned(), range.end_bound().cloned())
}

/// Returns a parser of whole seconds within `range`. An open range ends at [`MAX_SECONDS`].
pub fn seconds_within(range: impl RangeBounds<u64>) -> impl TypedValueParser<Value = Duration> {
    let end = match range.end_bound() {
        Bound::Unbounded => Bound::Included(u64::from(MAX_SECONDS)),
        end => end.cloned(),
    };
    Numbers(range.start_bound().cloned(), end).map(Duration::from_secs)
}

/// Adds the range to the help of a number and its unit as the value name. Leaves other arguments
/// unchanged.
#[must_use]
pub fn with_range(argument: Arg) -> Arg {
    let values = argument.get_possible_values();
    let range = values.iter().find(|value| value.is_hide_set() && value.get_name() == RANGE);
    let Some(range) = range.and_then(PossibleValue::get_help) else { return argument };
    let add = |help: String| format!("{help} [range: {range}]");
    let help = argument.get_help().map(|help| add(help.to_string()));
    let long_help = argument.get_long_help().map(|help| add(help.to_string()));
    let unit = argument.get_env().and_then(OsStr::to_str).map(unit_of);
    let mut argument = argument.hide_possible_values(true).help(help.unwrap_or_default());
    if let Some(unit) = unit {
        argument = argument.value_name(unit);
    }
    match long_help {
        Some(help) => argument.long_help(help),
        None => argument,
    }
}

/// Returns the unit that the variable's name ends with, or `N`.
fn unit_of(variable: &str) -> &'static str {
    let units = [("_SECONDS", "SECONDS"), ("_BYTES", "BYTES"), ("_DAYS", "DAYS")];
    units.into_iter().find(|(part, _)| variable.contains(part)).map_or("N", |(_, unit)| unit)
}

impl<T: Copy + Display + FromStr<Err: Display> + PartialOrd> Numbers<T> {
    fn read(&self, text: &str) -> Result<T, String> {
        match text.parse() {
            Ok(number) if RangeBounds::<T>::contains(&(self.0, self.1), &number) => Ok(number),
            Ok(_) => Err(format!("must be {self}")),
            // Too large for the type. Keep this error, because an open range does not show its
            // maximum.
            Err(error) if is_positive(text) && matches!(self.1, Bound::Unbounded) => Err(error.to_string()),
            // A number outside the type.
            Err(_) if is_number(text) => Err(format!("must be {self}")),
            Err(_) if text.parse::<f64>().is_ok() => Err("must be a whole number".to_owned()),
            Err(_) => Err("must be a number".to_owned()),
        }
    }
}

impl<T> TypedValueParser for Numbers<T>
where
    T: Copy + Display + FromStr<Err: Display> + PartialOrd + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let numbers = self.clone();
        // clap turns a function into a parser whose errors name the argument and the value.
        let parser = move |text: &str| numbers.read(text);
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let range = PossibleValue::new(RANGE).help(self.to_string()).hide(true);
        Some(Box::new(std::iter::once(range)))
    }
}

impl<T: Display> Display for Numbers<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, &self.1) {
            (Bound::Included(min), Bound::Included(max)) => write!(out, "{} to {}", grouped(min), grouped(max)),
            (Bound::Included(min), Bound::Unbounded) => write!(out, "at least {}", grouped(min)),
            (_, Bound::Included(max)) => write!(out, "at most {}", grouped(max)),
            (_, Bound::Excluded(end)) => write!(out, "below {}", grouped(end)),
            (_, Bound::Unbounded) => out.write_str("any number"),
        }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_positive(text: &str) -> bool {
    is_number(text) && !text.starts_with('-') && text.bytes().any(|byte| byte != b'0')
}

/// Returns a number with commas between its thousands.
fn grouped(number: &impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let days = Arg::new("days").long("days").help("Days").value_parser(within::<u16>(1..=3_650));
        let bytes = Arg::new("bytes").long("bytes").help("Bytes").value_parser(within::<u64>(65_536..));
        let wait = Arg::new("wait").long("wait").help("Wait").value_parser(seconds_within(0..=300));
        let idle = Arg::new("idle").long("idle").help("Idle").value_parser(seconds_within(1..));
        let free = Arg::new("free").long("free").help("Free").value_parser(clap::value_parser!(u32));
        Command::new("test").args([days, bytes, wait, idle, free])
    }

    #[track_caller]
    fn reason(word: &str) -> String {
        let error = command().try_get_matches_from(["test", word]).unwrap_err().to_string();
        error.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_number_outside_of_its_range_is_refused_with_the_range() {
        let accepted = command().get_matches_from(["test", "--days=3650", "--bytes=65536", "--wait=0"]);
        assert_eq!(accepted.get_one::<u16>("days"), Some(&3_650));
        assert_eq!(accepted.get_one::<u64>("bytes"), Some(&65_536));
        assert_eq!(accepted.get_one::<Duration>("wait"), Some(&Duration::ZERO));
        for word in ["--days=0", "--days=3651", "--days=65536", "--days=-1"] {
            let value = word.trim_start_matches("--days=");
            let expected = format!("error: invalid value '{value}' for '--days <days>': must be 1 to 3,650");
            assert_eq!(reason(word), expected);
        }
        assert!(reason("--bytes=65535").ends_with("must be at least 65,536"));
        assert!(reason("--bytes=-1").ends_with("must be at least 65,536"));
        assert!(reason("--bytes=18446744073709551616").ends_with("number too large to fit in target type"));
        assert!(reason("--wait=301").ends_with("must be 0 to 300"));
        assert!(reason("--days=x").ends_with("must be a number"));
        assert!(reason("--days=1.5").ends_with("must be a whole number"));
    }

    #[test]
    fn a_time_can_be_added_to_any_point_in_time() {
        let longest = command().get_matches_from(["test", "--idle=315360000"]);
        let longest = *longest.get_one::<Duration>("idle").unwrap();
        assert_eq!(longest, Duration::from_secs(MAX_SECONDS.into()));
        assert!(std::time::Instant::now().checked_add(longest).is_some());
        for word in ["--idle=0", "--idle=315360001", "--idle=18446744073709551615", "--idle=18446744073709551616"] {
            assert!(reason(word).ends_with("must be 1 to 315,360,000"), "{word}");
        }
    }

    #[test]
    fn the_help_tells_the_range() {
        let help = command().mut_args(with_range).render_long_help().to_string();
        for text in [
            "Days [range: 1 to 3,650]",
            "Bytes [range: at least 65,536]",
            "Wait [range: 0 to 300]",
            "Idle [range: 1 to 315,360,000]",
        ] {
            assert_eq!(help.matches(text).count(), 1, "{text} in {help}");
        }
        assert!(!help.contains("possible values") && help.matches("[range: ").count() == 4, "{help}");
    }

    #[test]
    fn the_help_names_the_unit() {
        let value_name = |variable: &'static str| {
            let argument = Arg::new("x").long("x").env(variable).help("X").value_parser(within::<u64>(1..));
            with_range(argument).get_value_names().unwrap()[0].to_string()
        };
        for (variable, expected) in [
            ("TEST_IDLE_SECONDS", "SECONDS"),
            ("TEST_BYTES_PER_ADDRESS", "BYTES"),
            ("TEST_FEED_DAYS", "DAYS"),
            ("TEST_MILLISECONDS_PER_MIB", "N"),
            ("TEST_CONNECTIONS", "N"),
        ] {
            assert_eq!(value_name(variable), expected, "{variable}");
        }
    }
}
