mod deliveries;
mod events;
mod hooks;
mod owner;

use super::call::groups;

groups! { deliveries events hooks }
