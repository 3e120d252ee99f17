//! Settings of feeds.

use clap::Args;
use ferrite_core::config::within;

/// Bounds of what is kept of events.
#[derive(Args, Clone, Debug)]
pub struct FeedArgs {
    /// Days for which events stay in the feeds of their repositories.
    #[arg(long, env = "FERRITE_HOOK_FEED_DAYS", default_value_t = 7, value_parser = within::<u32>(1..=365))]
    pub feed_days: u32,

    /// Most events in the feed of one repository. Beyond them the oldest of the user who has most in it go.
    #[arg(long, env = "FERRITE_HOOK_FEED_EVENTS", default_value_t = 10_000, value_parser = within::<i64>(1..=1_000_000))]
    pub feed_events: i64,

    /// Most bytes that the events of one repository take, with their payloads and the delivery logs of webhooks about them; the newest stay.
    #[arg(long, env = "FERRITE_HOOK_FEED_BYTES", default_value_t = 67_108_864, value_parser = within::<i64>(65_536..))]
    pub feed_bytes: i64,

    /// The same for all repositories of one account.
    #[arg(long, env = "FERRITE_HOOK_OWNER_BYTES", default_value_t = 1_073_741_824, value_parser = within::<i64>(65_536..))]
    pub owner_bytes: i64,
}
