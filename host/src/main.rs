//! The `jackfield` command.

fn main() {}
