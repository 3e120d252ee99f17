//! Tests of git-svc as a whole: real sockets, keys, git and database, and fake subscribers of its
//! events.

#[cfg(test)]
mod archive;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod bombs;
#[cfg(test)]
mod branches;
#[cfg(test)]
mod conditional;
#[cfg(test)]
mod data;
#[cfg(test)]
mod delta_files;
#[cfg(test)]
mod describe;
#[cfg(test)]
mod diffs;
#[cfg(test)]
mod fetch;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod history;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod issues;
#[cfg(test)]
mod languages;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod maintenance;
#[cfg(test)]
mod merges;
#[cfg(test)]
mod mirrors;
#[cfg(test)]
mod moves;
#[cfg(test)]
mod odd_history;
#[cfg(test)]
mod odd_objects;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod pack_limits;
#[cfg(test)]
mod packs;
#[cfg(test)]
mod protection;
#[cfg(test)]
mod pulls;
#[cfg(test)]
mod push;
#[cfg(test)]
mod queued_writes;
#[cfg(test)]
mod races;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod reverts;
#[cfg(test)]
mod rpc;
#[cfg(test)]
mod session;
mod stores;
#[cfg(test)]
mod tags;
#[cfg(test)]
mod wikis;
#[cfg(test)]
mod writes;
