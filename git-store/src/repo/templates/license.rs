//! SPDX licence texts, found by id or common name.

use super::{key, replace_placeholders, unknown};
use crate::types::error::GitError;

/// Common names that are neither an SPDX id nor an SPDX full name, with their ids.
const ALIASES: &[(&str, &str)] = &[
    ("Abstyles License", "Abstyles"),
    ("Affero General Public License v1.0", "AGPL-1.0-only"),
    ("AGPL-3.0", "AGPL-3.0-only"),
    ("Apache License 1.0", "Apache-1.0"),
    ("Apache License 1.1", "Apache-1.1"),
    ("Apache License v2.0", "Apache-2.0"),
    ("BSD 2-clause License", "BSD-2-Clause"),
    ("BSD 3-clause License", "BSD-3-Clause"),
    ("BSD 4-clause License", "BSD-4-Clause"),
    ("Boost Software License 1.0", "BSL-1.0"),
    ("Creative Commons CC0 1.0 Universal", "CC0-1.0"),
    ("CC0 1.0 Universal", "CC0-1.0"),
    ("Eclipse Public License 1.0", "EPL-1.0"),
    ("Eclipse Public License 2.0", "EPL-2.0"),
    ("European Union Public License 1.1", "EUPL-1.1"),
    ("European Union Public License 1.2", "EUPL-1.2"),
    ("GNU Affero General Public License v3.0", "AGPL-3.0-only"),
    ("GNU Free Documentation License v1.1", "GFDL-1.1-only"),
    ("GNU Free Documentation License v1.2", "GFDL-1.2-only"),
    ("GNU Free Documentation License v1.3", "GFDL-1.3-only"),
    ("GNU General Public License v1.0", "GPL-1.0-only"),
    ("GNU General Public License v2.0", "GPL-2.0-only"),
    ("GNU General Public License v3.0", "GPL-3.0-only"),
    ("GNU Lesser General Public License v2.1", "LGPL-2.1-only"),
    ("GNU Lesser General Public License v3.0", "LGPL-3.0-only"),
    ("GNU Library General Public License v2.0", "LGPL-2.0-only"),
    ("GNU Library General Public License v2", "LGPL-2.0-only"),
    ("GPL-1.0", "GPL-1.0-only"),
    ("GPL-2.0", "GPL-2.0-only"),
    ("GPL-3.0", "GPL-3.0-only"),
    ("ISC license", "ISC"),
    ("LGPL-2.1", "LGPL-2.1-only"),
    ("LGPL-3.0", "LGPL-3.0-only"),
    ("Mozilla Public License 1.0", "MPL-1.0"),
    ("Mozilla Public License 1.1", "MPL-1.1"),
    ("Mozilla Public License 2.0", "MPL-2.0"),
    ("The Unlicense", "Unlicense"),
    ("zlib License", "Zlib"),
];

/// Longest text whose placeholders are filled in, in bytes. Longer ones are fixed documents, with
/// placeholders in their instructions.
const MAX_FORM: usize = 6000;

/// Returns a licence by SPDX id or common name in any case, with year and holder filled in.
pub fn license(name: &str, year: i32, holder: &str) -> Result<String, GitError> {
    let id = find(name).ok_or_else(|| unknown("license", name))?;
    let text = id.text();
    let mut text = if text.len() > MAX_FORM { text.to_owned() } else { filled(text, year, holder) };
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

fn find(name: &str) -> Option<spdx::LicenseId> {
    let wanted = key(name);
    let alias = ALIASES.iter().find(|(alias, _)| key(alias) == wanted).map(|(_, id)| *id);
    let listed = || spdx::identifiers::LICENSES.iter().find(|entry| key(entry.name) == wanted).map(|entry| entry.name);
    let named =
        || spdx::identifiers::LICENSES.iter().find(|entry| key(entry.full_name) == wanted).map(|entry| entry.name);
    spdx::license_id(alias.or_else(listed).or_else(named)?)
}

/// Replaces `<year>`, `<copyright holders>` and similar placeholders, in angle or square brackets.
fn filled(text: &str, year: i32, holder: &str) -> String {
    replace_placeholders(text, &['<', '['], |rest| {
        let close = if rest.starts_with('<') { '>' } else { ']' };
        let inner = rest[1..].split_once(close)?.0;
        Some((inner.len() + 2, value(inner, year, holder)?))
    })
}

fn value(placeholder: &str, year: i32, holder: &str) -> Option<String> {
    match placeholder.to_ascii_lowercase().as_str() {
        "year" | "yyyy" | "date" | "years" => Some(year.to_string()),
        "copyright holders"
        | "copyright holder"
        | "owner"
        | "name of author"
        | "name of copyright owner"
        | "fullname"
        | "holders"
        | "author"
        | "name"
        | "owner organization" => Some(holder.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_proto::error::ServiceError as _;

    #[test]
    fn every_alias_and_usual_name_has_a_text() {
        for (name, id) in ALIASES {
            assert!(spdx::license_id(id).is_some(), "{id}");
            assert!(license(&name.to_uppercase(), 2026, "Ada").unwrap().len() > 100, "{name}");
        }
        for name in [
            "MIT License",
            "mit",
            "Apache License 2.0",
            "Apache-2.0",
            "Academic Free License v1.1",
            "Academic Free License v1.2",
            "Academic Free License v2.0",
            "Academic Free License v2.1",
            "Academic Free License v3.0",
            "Artistic License 1.0",
            "Artistic License 2.0",
            "Educational Community License v1.0",
            "Educational Community License v2.0",
            "Unlicense",
            "GNU General Public License v3.0",
            "GPL-3.0-or-later",
            "Do What The F*ck You Want To Public License",
        ] {
            assert!(license(name, 2026, "Ada").is_ok(), "{name}");
        }
    }

    #[test]
    fn year_and_name_are_filled_in() {
        let text = license("MIT License", 2026, "Ada <script> [year]").unwrap();
        assert!(text.starts_with("MIT License\n\nCopyright (c) 2026 Ada <script> [year]\n"), "{text}");
        for name in ["BSD-2-Clause", "BSD-3-Clause", "ISC"] {
            let text = license(name, 2026, "Ada").unwrap();
            assert!(text.contains("2026") && text.contains("Ada") && !text.contains("<year>"), "{text}");
        }
        assert!(license("GPL-3.0", 2026, "Ada").unwrap().contains("<year>"), "instructions stay as they are");
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["Nope", "", "../MIT", "-"] {
            let refused = license(name, 2026, "Ada");
            assert!(name == "../MIT" || refused.is_err_and(|error| error.violations()[0].field == "license"), "{name}");
        }
    }
}
