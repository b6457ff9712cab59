//! Programs that `.ci/install` unpacks: the installed one, or the one in target/tools.

use std::env;
use std::path::{Path, PathBuf};

pub(crate) fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join("bin");
    let places = env::split_paths(&path).chain(["/usr/sbin".into(), own]);
    let found = places.map(|place| place.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("there is no {name}: `make test-programs` fetches it"))
}
