//! Pages of lists: page number and size, converted to `LIMIT` and `OFFSET`.

use ferrite_proto::error::FieldViolation;

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    number: i32,
    size: i32,
}

impl Page {
    /// Returns page `number` (from 1) of `size` rows, at most `max`.
    ///
    /// # Errors
    /// A violation for `page`, `page_size` or both, if out of range.
    pub fn parse(number: i32, size: i32, max: i32) -> Result<Self, Vec<FieldViolation>> {
        let mut violations = Vec::new();
        if number < 1 {
            violations.push(FieldViolation::new("page", "invalid", "must be at least 1"));
        }
        if size < 1 || size > max {
            violations.push(FieldViolation::new("page_size", "invalid", format!("must be between 1 and {max}")));
        }
        if violations.is_empty() { Ok(Self { number, size }) } else { Err(violations) }
    }

    /// Like [`Page::parse`], but clamps values to their range. `max` must be at least 1.
    #[must_use]
    pub fn nearest(number: i32, size: i32, max: i32) -> Self {
        Self { number: number.max(1), size: size.clamp(1, max) }
    }

    /// Returns the number of rows on the page (`LIMIT`).
    #[must_use]
    pub fn size(self) -> i64 {
        i64::from(self.size)
    }

    /// Returns the number of rows before the page (`OFFSET`).
    #[must_use]
    pub fn offset(self) -> i64 {
        (i64::from(self.number) - 1) * i64::from(self.size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_fields_are_named_when_both_are_wrong() {
        let fields: Vec<_> = Page::parse(0, 51, 50).unwrap_err().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["page", "page_size"]);
    }

    proptest! {
        #[test]
        fn a_page_is_accepted_exactly_in_range_and_its_offset_never_overflows(number: i32, size: i32) {
            match Page::parse(number, size, 50) {
                Ok(page) => {
                    prop_assert!(number >= 1 && (1..=50).contains(&size));
                    prop_assert_eq!(page.offset(), (i64::from(number) - 1) * i64::from(size));
                    prop_assert_eq!(page.size(), i64::from(size));
                    prop_assert_eq!(page, Page::nearest(number, size, 50));
                }
                Err(_) => prop_assert!(number < 1 || !(1..=50).contains(&size)),
            }
        }

        #[test]
        fn the_nearest_page_is_in_range(number: i32, size: i32) {
            let page = Page::nearest(number, size, i32::MAX);
            prop_assert!(page.offset() >= 0 && page.size() >= 1);
        }
    }
}
