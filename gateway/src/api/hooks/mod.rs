mod activities;
mod deliveries;
mod events;
mod hooks;
mod owner;

use super::call::groups;

groups! { activities deliveries events hooks }
