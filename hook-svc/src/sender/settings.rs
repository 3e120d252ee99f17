use clap::Args;
use ferrite_core::config::within;

use super::schedule::RetrySchedule;

/// Settings of deliveries.
#[derive(Args, Clone, Debug)]
pub struct DeliveryArgs {
    /// Seconds before each repeated attempt of a delivery that failed, separated by commas. Each varies by a fifth.
    #[arg(long, env = "FERRITE_HOOK_RETRY_SECONDS", default_value = "5,30,120,600,3600,10800,21600,43200")]
    pub(crate) hook_retry_seconds: RetrySchedule,

    /// Days for which the delivery log keeps finished deliveries.
    #[arg(long, env = "FERRITE_HOOK_DELIVERY_DAYS", default_value_t = 7, value_parser = within::<u32>(1..=3650))]
    pub(crate) hook_delivery_days: u32,

    /// Finished deliveries that the delivery log keeps of one webhook.
    #[arg(long, env = "FERRITE_HOOK_DELIVERY_COUNT", default_value_t = 1000, value_parser = within::<u32>(1..=100_000))]
    pub(crate) hook_delivery_count: u32,
}
