//! Times of the issue tracker by the number of issues.

fn main() {}
