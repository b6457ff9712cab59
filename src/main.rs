//! The `sealgate` program.

#[global_allocator]
static ALLOCATOR: sealgate::Allocator = sealgate::Allocator;

fn main() {
    sealgate::main();
}
