//! The `sealgate` program: see [`sealgate::cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sealgate::memory::use_small_pages();
    let ended = sealgate::cli::run(std::env::args_os());
    sealgate::log::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
