//! Settings of feeds.

use clap::{Args, value_parser};

/// How long and how many events feeds keep.
#[derive(Args, Clone, Debug)]
pub struct FeedArgs {
    /// Days for which events stay in the feeds of their repositories.
    #[arg(long, env = "FERRITE_HOOK_FEED_DAYS", default_value_t = 7, value_parser = value_parser!(u32).range(1..=365))]
    pub feed_days: u32,

    /// Most events in the feed of one repository; the newest stay.
    #[arg(long, env = "FERRITE_HOOK_FEED_EVENTS", default_value_t = 10_000, value_parser = value_parser!(i64).range(1..=1_000_000))]
    pub feed_events: i64,
}
