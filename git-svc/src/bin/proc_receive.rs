//! The hook program alone, for tests of this crate: the shipped binary plays its parts under the names of the hooks.

fn main() -> std::process::ExitCode {
    git_svc::hook::main()
}
