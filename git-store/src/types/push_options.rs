//! Push options (`git push -o ci.skip`): stored in the journal and passed on in push events.

const MAX_OPTIONS: usize = 64;
const MAX_OPTION_BYTES: usize = 1 << 10;
const MAX_TOTAL_BYTES: usize = 16 << 10;

/// The options of one push, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushOptions {
    lines: Vec<String>,
    bytes: usize,
}

/// Why an option is rejected. The client gets this message for every ref of the push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Too many options.
    #[error("the push has too many options; the limit is {MAX_OPTIONS}")]
    TooMany,
    /// The option is too long.
    #[error("a push option is too long; the limit is {MAX_OPTION_BYTES} bytes")]
    TooLong,
    /// All options together are too long.
    #[error("the push options are too long; the limit is {MAX_TOTAL_BYTES} bytes in total")]
    TooLarge,
    /// The option is not UTF-8, or contains a control character, which could end a line or move a
    /// terminal's cursor.
    #[error("a push option must be UTF-8 text without control characters")]
    NoText,
}

impl PushOptions {
    /// Validates and appends an option.
    pub fn add(&mut self, line: &[u8]) -> Result<(), OptionError> {
        if self.lines.len() == MAX_OPTIONS {
            return Err(OptionError::TooMany);
        }
        if line.len() > MAX_OPTION_BYTES {
            return Err(OptionError::TooLong);
        }
        if self.bytes + line.len() > MAX_TOTAL_BYTES {
            return Err(OptionError::TooLarge);
        }
        let text = std::str::from_utf8(line).ok().filter(|text| !text.chars().any(char::is_control));
        self.lines.push(text.ok_or(OptionError::NoText)?.to_owned());
        self.bytes += line.len();
        Ok(())
    }

    /// The options in the order sent.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the options as stored in the journal, each with a line feed; `None` if there are
    /// none.
    pub fn to_row(&self) -> Option<String> {
        (!self.lines.is_empty()).then(|| self.lines.iter().flat_map(|line| [line, "\n"]).collect())
    }

    /// Parses the result of [`PushOptions::to_row`].
    pub fn of_row(row: &str) -> Self {
        let lines = row.split_terminator('\n').map(str::to_owned).collect();
        Self { lines, bytes: row.len() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_kept() {
        let add = |options: &mut PushOptions, count: usize, line: &[u8]| {
            (0..count).map(|_| options.add(line)).find(Result::is_err).unwrap_or(Ok(()))
        };
        let (mut many, mut long, mut large) = Default::default();
        assert_eq!((add(&mut many, 64, b""), add(&mut many, 1, b"")), (Ok(()), Err(OptionError::TooMany)));
        assert_eq!(add(&mut long, 1, &[b'x'; 1024]), Ok(()));
        assert_eq!(add(&mut long, 1, &[b'x'; 1025]), Err(OptionError::TooLong));
        assert_eq!(add(&mut large, 16, &[b'x'; 1024]), Ok(()));
        assert_eq!(add(&mut large, 1, b"x"), Err(OptionError::TooLarge));
        for line in [&b"a\nb"[..], b"a\0b", b"\x1b[2J", b"\x7f", b"\xc2\x85", b"\xff"] {
            assert_eq!(PushOptions::default().add(line), Err(OptionError::NoText), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn rows_keep_them_as_they_are(lines in proptest::collection::vec("\\PC{0,20}", 0..5)) {
            let mut options = PushOptions::default();
            for line in &lines {
                options.add(line.as_bytes()).unwrap();
            }
            let row = options.to_row();
            prop_assert_eq!(row.is_none(), lines.is_empty());
            let back = row.map(|row| PushOptions::of_row(&row)).unwrap_or_default();
            prop_assert_eq!(back.lines(), options.lines());
        }
    }
}
