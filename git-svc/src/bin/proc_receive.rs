//! The hook program alone, for tests of this crate. In production the `ferrite` binary acts as a
//! hook when it is started under the name of one.

fn main() -> std::process::ExitCode {
    git_svc::hook::main()
}
