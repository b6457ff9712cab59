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
#[path = "../../../src/gateway/work.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod work;

/// Returns the path of a request as the gateway interprets it, or `None` if it is ambiguous.
pub fn canonical(raw: &str) -> Option<Vec<u8>> {
    let path = path::CanonicalPath::parse(raw).ok()?;
    // No other interpretation may panic, for any path.
    let _ = path.interpretations().map(Iterator::count);
    let path = path.as_bytes().to_vec();
    let _ = reading::written_out(&path, b"/administration/");
    Some(path)
}

/// Returns every interpretation of a path in which `;`, `%2F` and `%5C` are data, or `None` if it is
/// ambiguous or contains none of them.
pub fn readings(raw: &str) -> Option<Vec<Vec<u8>>> {
    let path = path::CanonicalPath::parse_with(raw, characters::Characters::ALL).ok()?;
    if !path.characters().is_any() {
        return None;
    }
    Some(path.interpretations().ok()?.map(|(text, _)| text.to_vec()).collect())
}
