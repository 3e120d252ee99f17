//! The hook program alone, for tests of this crate. In production the `ferrite` binary runs as the hooks, chosen by the name it
//! is started under.

fn main() -> std::process::ExitCode {
    git_svc::hook::main()
}
