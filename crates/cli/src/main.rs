//! The `daiko` command.

fn main() {}
