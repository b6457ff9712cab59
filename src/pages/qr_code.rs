//! QR codes (ISO/IEC 18004) as inline SVG.
//!
//! The SVG uses attributes and no styles, so that the pages' policy permits it.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

/// Width of the light border that readers of QR codes need, in modules (§9.1).
const QUIET_ZONE: usize = 4;

/// Returns the QR code of a text as an `<svg>`. It is hidden from screen readers, because the page
/// also contains the text.
///
/// Returns `None` if the text is longer than about two thousand bytes.
///
/// The code is dark on light in every colour scheme, because many readers of QR codes do not
/// support inverse codes.
pub fn qr_code(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let (width, colours) = (code.width(), code.into_colors());
    let size = width + 2 * QUIET_ZONE;
    // Each row is drawn as a line of one module's width. The row number is the coordinate of the
    // line's centre, so strokes need no fractions.
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{QUIET_ZONE} -{QUIET_ZONE}.5 {size} {size}" shape-rendering="crispEdges" aria-hidden="true"><path fill="#fff" d="M-{QUIET_ZONE}-{QUIET_ZONE}.5h{size}v{size}h-{size}z"/><path stroke="#000" d=""##
    );
    for (row, modules) in colours.chunks(width).enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(svg, "M0 {row}");
        // One stroke for each run of dark modules.
        for run in modules.chunk_by(|a, b| a == b) {
            let stroke = if run[0] == Color::Dark { 'h' } else { 'm' };
            let _ = write!(svg, "{stroke}{}", run.len());
            if stroke == 'm' {
                svg.push_str(" 0");
            }
        }
    }
    svg.push_str("\"/></svg>");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_uses_only_attributes() {
        let svg = qr_code("otpauth://totp/A:b?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=A").unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>") && svg.len() < 5_000, "{}", svg.len());
        for banned in ["style", "<?xml", "script", "href", "otpauth", "&"] {
            assert!(!svg.contains(banned), "{banned}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_has_no_qr_code() {
        assert!(qr_code(&"ş".repeat(1000)).is_some());
        assert!(qr_code(&"ş".repeat(2000)).is_none());
    }
}
