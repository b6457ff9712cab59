//! The gateway's interpretation of paths, from the program's own files.

#[path = "../../../src/gateway/characters.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod characters;
#[path = "../../../src/gateway/path.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod path;
#[path = "../../../src/gateway/reading.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod reading;

/// Returns the path of a request as the gateway interprets it, or `None` if it is ambiguous.
pub fn canonical(raw: &str) -> Option<Vec<u8>> {
    let path = path::CanonicalPath::parse(raw).ok()?.as_bytes().to_vec();
    // No other interpretation may panic, for any path.
    if reading::is_odd(&path) {
        let _ = reading::readings(&path);
    }
    let _ = reading::written_out(&path, b"/administration/");
    Some(path)
}

/// Returns every interpretation of a path in which `;`, `%2F` and `%5C` are data, or `None` if it is
/// ambiguous or contains none of them.
pub fn readings(raw: &str) -> Option<Vec<Vec<u8>>> {
    let path = path::CanonicalPath::parse_with(raw, characters::Characters::ALL).ok()?;
    path.readings().ok().filter(|readings| !readings.is_empty())
}
