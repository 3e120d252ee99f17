//! A migration that is added later must be compiled in.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
