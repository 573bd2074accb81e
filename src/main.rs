//! The executable: hands the call to the library and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    idem_jobs::app::run(std::env::args_os()).into()
}
