//! Settings of the bodies of requests and of responses.

use clap::Args;
use ferrite_core::config::within;

/// Bodies of requests to the API, and of responses.
#[derive(Args, Clone, Debug)]
pub struct BodyArgs {
    /// Most bytes of a JSON response. Long texts of a list are cut so that it fits; what is larger all the same is answered with 422.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_RESPONSE_BYTES", default_value_t = 16 << 20, value_parser = within::<u32>(65_536..))]
    pub max_response_bytes: u32,

    /// Most request bodies above 4 MiB in memory at once. A user has at most a quarter of them, an address at most half; others are answered
    /// with 503.
    #[arg(long, env = "FERRITE_GATEWAY_LARGE_BODIES", default_value_t = 8, value_parser = within::<u16>(1..=u16::MAX))]
    pub large_bodies: u16,

    /// Most files of releases that are uploaded at once. A user has at most a quarter of them, an address at most half; others are answered
    /// with 503.
    #[arg(long, env = "FERRITE_GATEWAY_UPLOADS", default_value_t = 64, value_parser = within::<u16>(1..=u16::MAX))]
    pub uploads: u16,
}

impl BodyArgs {
    /// Returns the most bytes of a JSON response.
    #[must_use]
    pub fn max_response_bytes(&self) -> usize {
        usize::try_from(self.max_response_bytes).unwrap_or(usize::MAX)
    }
}
