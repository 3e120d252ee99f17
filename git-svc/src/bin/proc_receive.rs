//! The hook program alone, for tests of this crate: the shipped binary plays this part under the name `proc-receive`.

fn main() -> std::process::ExitCode {
    git_svc::hook::main()
}
