//! The `sealgate` program: see [`sealgate::cli`].

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    sealgate::app::memory::use_small_pages();
    let ended = sealgate::cli::run(std::env::args_os());
    sealgate::log::flush();
    sealgate::log::leave(ended.map_or_else(|failure| failure.report(), |()| 0))
}
