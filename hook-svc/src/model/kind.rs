use ferrite_proto::error::FieldViolation;

macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident($field:literal, $expected:literal) { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The value that a word stands for; case matters.
            pub(crate) fn find(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Checks the word a client sent.
            ///
            /// # Errors
            /// When it is missing or not known.
            pub(crate) fn parse(word: &str) -> Result<Self, FieldViolation> {
                if word.is_empty() {
                    return Err(FieldViolation::new($field, "required", "is required"));
                }
                Self::find(word).ok_or_else(|| FieldViolation::new($field, "unknown", concat!("must be ", $expected)))
            }

            /// The word.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

string_enum! {
    /// Whose form deliveries have. Clients get back the word they sent, so the two words for one form are kept apart.
    HookType("type", "`native`, `gogs`, `slack`, `discord` or `dingtalk`") {
        /// Ours.
        Native = "native",
        /// Ours, by the name that existing clients use.
        Gogs = "gogs",
        /// Slack's.
        Slack = "slack",
        /// Discord's.
        Discord = "discord",
        /// DingTalk's.
        Dingtalk = "dingtalk",
    }
}

string_enum! {
    /// How a delivery wraps its JSON.
    ContentType("config.content_type", "`json` or `form`") {
        /// As it is.
        Json = "json",
        /// As the field `payload` of a form.
        Form = "form",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_exact() {
        for word in ["native", "gogs", "slack", "discord", "dingtalk"] {
            assert_eq!(HookType::parse(word).unwrap().as_str(), word);
            assert_eq!(HookType::parse(&word.to_uppercase()).unwrap_err().code, "unknown");
            assert_eq!(HookType::parse(&format!("{word} ")).unwrap_err().code, "unknown");
        }
        for word in ["json", "form"] {
            assert_eq!(ContentType::parse(word).unwrap().as_str(), word);
        }
        assert_eq!(ContentType::parse("xml").unwrap_err().field, "config.content_type");
        assert_eq!(ContentType::parse("").unwrap_err().code, "required");
        assert_eq!(HookType::parse("").unwrap_err().field, "type");
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_the_word_itself(word in ".{0,10}") {
            if let Ok(kind) = HookType::parse(&word) {
                prop_assert_eq!(kind.as_str(), &word);
            }
            if let Ok(kind) = ContentType::parse(&word) {
                prop_assert_eq!(kind.as_str(), word);
            }
        }
    }
}
