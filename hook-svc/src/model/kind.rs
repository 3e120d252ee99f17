//! Types of webhooks and content types of deliveries, by the names that clients send.

use ferrite_proto::error::FieldViolation;

macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident($field:literal, $expected:literal) { $($(#[$variant_doc:meta])* $variant:ident = $name_text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Returns the value with this name; case matters.
            pub(crate) fn find(name: &str) -> Option<Self> {
                match name {
                    $($name_text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Parses the name that a client sent.
            ///
            /// # Errors
            /// The violation of a missing or unknown name.
            pub(crate) fn parse(name: &str) -> Result<Self, FieldViolation> {
                if name.is_empty() {
                    return Err(FieldViolation::new($field, "required", "is required"));
                }
                Self::find(name).ok_or_else(|| FieldViolation::new($field, "unknown", concat!("must be ", $expected)))
            }

            /// Returns the name.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name_text,)*
                }
            }
        }
    };
}

string_enum! {
    /// The type of a webhook. Responses repeat the name that the client sent, so several types have one format.
    HookType(
        "type",
        "`native`, `gogs`, `gitea`, `slack`, `discord`, `dingtalk`, `chat_a`, `chat_b` or `chat_c`"
    ) {
        /// Ferrite's format.
        Native = "native",
        /// Ferrite's format, by the name that clients of Gogs send.
        Gogs = "gogs",
        /// Ferrite's format, by the name that clients of Gitea send.
        Gitea = "gitea",
        /// The format of Slack.
        Slack = "slack",
        /// The format of Discord.
        Discord = "discord",
        /// The format of DingTalk.
        Dingtalk = "dingtalk",
        /// The format of Slack, by a neutral name.
        ChatA = "chat_a",
        /// The format of Discord, by a neutral name.
        ChatB = "chat_b",
        /// The format of DingTalk, by a neutral name.
        ChatC = "chat_c",
    }
}

/// The format of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Ferrite's own.
    Native,
    /// Slack's.
    Slack,
    /// Discord's.
    Discord,
    /// DingTalk's.
    Dingtalk,
}

impl HookType {
    /// Returns the format of this type.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Native | Self::Gogs | Self::Gitea => Format::Native,
            Self::Slack | Self::ChatA => Format::Slack,
            Self::Discord | Self::ChatB => Format::Discord,
            Self::Dingtalk | Self::ChatC => Format::Dingtalk,
        }
    }
}

string_enum! {
    /// The content type of deliveries.
    ContentType("config.content_type", "`json` or `form`") {
        /// JSON.
        Json = "json",
        /// A form whose field `payload` has the JSON.
        Form = "form",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_exact() {
        for word in ["native", "gogs", "gitea", "slack", "discord", "dingtalk", "chat_a", "chat_b", "chat_c"] {
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
        fn every_accepted_name_is_returned_unchanged(word in ".{0,10}") {
            if let Ok(kind) = HookType::parse(&word) {
                prop_assert_eq!(kind.as_str(), &word);
            }
            if let Ok(kind) = ContentType::parse(&word) {
                prop_assert_eq!(kind.as_str(), word);
            }
        }
    }
}
