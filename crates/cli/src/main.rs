//! The `daiko` command.

fn main() -> std::process::ExitCode {
    daiko_cli::main()
}
