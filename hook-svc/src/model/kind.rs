//! Types of webhooks and content types of deliveries.

use ferrite_proto::error::FieldViolation;

macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident($field:literal, $expected:literal) { $($(#[$variant_doc:meta])* $variant:ident = $name_text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Looks up a name. Case-sensitive.
            pub(crate) fn find(name: &str) -> Option<Self> {
                match name {
                    $($name_text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub(crate) fn parse(name: &str) -> Result<Self, FieldViolation> {
                if name.is_empty() {
                    return Err(FieldViolation::new($field, "required", "is required"));
                }
                Self::find(name).ok_or_else(|| FieldViolation::new($field, "unknown", concat!("must be ", $expected)))
            }

            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name_text,)*
                }
            }
        }
    };
}

string_enum! {
    /// The type of a webhook. Several types share a format, because responses repeat the name that
    /// the client sent.
    HookType(
        "type",
        "`native`, `gogs`, `gitea`, `forgejo`, `slack`, `discord`, `dingtalk`, `chat_a`, `chat_b` or `chat_c`"
    ) {
        Native = "native",
        /// The native format, under the name that Gogs clients send.
        Gogs = "gogs",
        /// The native format, under the name that Gitea clients send.
        Gitea = "gitea",
        /// The native format, under the name that Forgejo clients send.
        Forgejo = "forgejo",
        Slack = "slack",
        Discord = "discord",
        Dingtalk = "dingtalk",
        /// A neutral name for Slack.
        ChatA = "chat_a",
        /// A neutral name for Discord.
        ChatB = "chat_b",
        /// A neutral name for DingTalk.
        ChatC = "chat_c",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Native,
    Slack,
    Discord,
    Dingtalk,
}

impl HookType {
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Native | Self::Gogs | Self::Gitea | Self::Forgejo => Format::Native,
            Self::Slack | Self::ChatA => Format::Slack,
            Self::Discord | Self::ChatB => Format::Discord,
            Self::Dingtalk | Self::ChatC => Format::Dingtalk,
        }
    }
}

string_enum! {
    /// The content type of deliveries.
    ContentType("config.content_type", "`json` or `form`") {
        Json = "json",
        /// An HTML form with the JSON in the field `payload`.
        Form = "form",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_exact() {
        for word in ["native", "gogs", "gitea", "forgejo", "slack", "discord", "dingtalk", "chat_a", "chat_b", "chat_c"]
        {
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
