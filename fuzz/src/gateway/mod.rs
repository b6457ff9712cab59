//! The gate's reading of paths, from the program's own files.

#[path = "../../../src/gateway/characters.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod characters;
#[path = "../../../src/gateway/path.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod path;
#[path = "../../../src/gateway/reading.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod reading;

/// The path of a request as the gate reads it; `None` when it is ambiguous.
pub fn canonical(raw: &str) -> Option<Vec<u8>> {
    let path = path::CanonicalPath::parse(raw).ok()?.as_bytes().to_vec();
    // However else a server may read it: no reading may panic, whatever the path.
    if reading::is_odd(&path) {
        let _ = reading::readings(&path);
    }
    let _ = reading::written_out(&path, b"/administration/");
    Some(path)
}

/// Every reading of a path in which `;`, `%2F` and `%5C` are data; `None` when it is ambiguous, or has none of them.
pub fn readings(raw: &str) -> Option<Vec<Vec<u8>>> {
    let path = path::CanonicalPath::parse_with(raw, characters::Characters::ALL).ok()?;
    path.readings().ok().filter(|readings| !readings.is_empty())
}
