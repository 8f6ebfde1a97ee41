//! The `jackfield` command.

use std::process::ExitCode;

use jackfield::serve::Allocator;

// A request is some two hundred small values, made and dropped.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    jackfield::serve::main()
}
