//! What pages of webhooks read of the API, and the types of webhooks.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::pages::components::{Count, Time};

/// Types that new webhooks can have. The first four have the same payloads.
pub(super) static KINDS: [Kind; 7] = [
    Kind { word: "native", title: "Ferrite", options: &[] },
    Kind { word: "gitea", title: "Gitea", options: &[] },
    Kind { word: "gogs", title: "Gogs", options: &[] },
    Kind { word: "forgejo", title: "Forgejo", options: &[] },
    Kind { word: "slack", title: "Slack", options: &[CHANNEL, SENDER, PICTURE, COLOR] },
    Kind { word: "discord", title: "Discord", options: &[SENDER, PICTURE, COLOR] },
    Kind { word: "dingtalk", title: "DingTalk", options: &[] },
];
const CHANNEL: ChatOption = ChatOption { name: "channel", title: "Channel", hint: "Such as #general." };
const SENDER: ChatOption = ChatOption { name: "username", title: "Name of the sender", hint: "" };
const PICTURE: ChatOption = ChatOption { name: "icon_url", title: "Picture of the sender", hint: "A URL." };
const COLOR: ChatOption = ChatOption { name: "color", title: "Color", hint: "Such as #36a64f." };

/// A type of webhooks.
#[derive(Debug)]
pub(super) struct Kind {
    /// What the API calls it.
    pub(super) word: &'static str,
    pub(super) title: &'static str,
    pub(super) options: &'static [ChatOption],
}

/// An option of messages to a chat.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChatOption {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hook {
    pub(super) id: i64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) config: BTreeMap<String, String>,
    pub(super) events: Vec<String>,
    pub(super) branch_filter: String,
    /// With `***` in place of the credentials; empty for none.
    pub(super) authorization_header: String,
    pub(super) active: bool,
    /// Why deliveries are paused; empty if they are not.
    #[serde(default)]
    pub(super) paused: String,
    /// The newest one, in lists alone.
    #[serde(default)]
    pub(super) last_delivery: Option<Delivery>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Pending,
    Retrying,
    Succeeded,
    Exhausted,
    Cancelled,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) event: String,
    pub(super) status: Status,
    pub(super) attempts: u64,
    /// Of the last attempt.
    pub(super) response_status: Option<u64>,
    /// Of the last attempt.
    pub(super) duration_ms: Option<u64>,
    pub(super) created_at: Time,
    pub(super) next_attempt_at: Option<Time>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeliveryWithAttempts {
    #[serde(flatten)]
    pub(super) delivery: Delivery,
    /// From the first to the last.
    pub(super) log: Vec<Attempt>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) started_at: Time,
    pub(super) duration_ms: u64,
    pub(super) request: SentRequest,
    pub(super) response: Option<ReceivedResponse>,
    /// Why there is no response.
    pub(super) error: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SentRequest {
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
    pub(super) truncated: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReceivedResponse {
    pub(super) status: u64,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
    pub(super) truncated: bool,
}

impl Kind {
    /// Returns the type of a name, also of the neutral names of chats.
    pub(super) fn find(word: &str) -> Option<&'static Self> {
        let word = match word {
            "chat_a" => "slack",
            "chat_b" => "discord",
            "chat_c" => "dingtalk",
            other => other,
        };
        KINDS.iter().find(|kind| kind.word == word)
    }
}

impl Hook {
    pub(super) fn option(&self, name: &str) -> &str {
        self.config.get(name).map_or("", String::as_str)
    }

    /// The URL, with `***` in place of its password.
    pub(super) fn url(&self) -> &str {
        self.option("url")
    }

    pub(super) fn kind(&self) -> &'static Kind {
        Kind::find(&self.kind).unwrap_or(&KINDS[0])
    }

    pub(super) fn is_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    pub(super) fn event_names(&self) -> String {
        self.events.join(", ")
    }
}

impl Status {
    pub(super) const ALL: [Self; 5] =
        [Self::Pending, Self::Retrying, Self::Succeeded, Self::Exhausted, Self::Cancelled];

    /// What the API calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Succeeded => "succeeded",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Pending => "Waiting",
            Self::Retrying => "Retrying",
            Self::Succeeded => "Delivered",
            Self::Exhausted => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }

    /// The class of its badge.
    pub(super) fn tone(self) -> &'static str {
        match self {
            Self::Pending | Self::Cancelled => "",
            Self::Retrying => "warn",
            Self::Succeeded => "good",
            Self::Exhausted => "bad",
        }
    }

    pub(super) fn is_finished(self) -> bool {
        match self {
            Self::Pending | Self::Retrying => false,
            Self::Succeeded | Self::Exhausted | Self::Cancelled => true,
        }
    }
}

impl Delivery {
    pub(super) fn tries(&self) -> String {
        Count(self.attempts, "attempt").to_string()
    }
}

impl Attempt {
    /// What came of it: the status of the response, or why there is none.
    pub(super) fn outcome(&self) -> String {
        match (&self.response, &self.error) {
            (Some(response), _) => response.status.to_string(),
            (None, Some(error)) => error.clone(),
            (None, None) => "no response".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_of_the_api_has_a_title() {
        for (word, title) in [("native", "Ferrite"), ("chat_a", "Slack"), ("chat_b", "Discord"), ("chat_c", "DingTalk")]
        {
            assert_eq!(Kind::find(word).map(|kind| kind.title), Some(title));
        }
        assert!(Kind::find("Slack").is_none() && Kind::find("").is_none());
    }

    #[test]
    fn a_status_has_the_word_of_the_api() {
        for status in Status::ALL {
            assert_eq!(serde_json::from_value::<Status>(json!(status.word())).unwrap(), status);
        }
    }
}
