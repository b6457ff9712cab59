//! What all pages load: the stylesheet with the operator's colours, the small script, the logo. Each has a version for
//! its address, so that a browser may keep it for ever.

use bytes::Bytes;

use crate::config::{Accent, Logo, Picture};

/// The stylesheet before the operator's colours.
pub const STYLESHEET: &str = include_str!("sealgate.css");

/// The one script. Every page works without it.
pub const SCRIPT: &str = include_str!("sealgate.js");

/// A file that pages load.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its media type.
    pub media_type: &'static str,
    /// Changes with its bytes: 16 hexadecimal digits.
    pub version: String,
}

impl Asset {
    fn new(bytes: Bytes, media_type: &'static str) -> Self {
        let version = format!("{:016x}", fnv1a(&bytes));
        Self { bytes, media_type, version }
    }

    pub(super) fn stylesheet(accent: Option<Accent>) -> Self {
        let css = match accent {
            Some(accent) => format!("{STYLESHEET}\n{}", colours(accent)),
            None => STYLESHEET.to_owned(),
        };
        Self::new(css.into(), "text/css; charset=utf-8")
    }

    pub(super) fn script() -> Self {
        Self::new(Bytes::from_static(SCRIPT.as_bytes()), "text/javascript; charset=utf-8")
    }

    pub(super) fn logo(logo: &Logo) -> Self {
        let media_type = match logo.picture {
            Picture::Png => "image/png",
            Picture::Svg => "image/svg+xml",
        };
        Self::new(logo.bytes.clone(), media_type)
    }
}

fn colours(accent: Accent) -> String {
    let strong = accent.strong();
    format!(
        ":root {{ --accent: {}; --accent-strong: {}; }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ --accent: {}; --accent-strong: {}; }} }}\n",
        accent.light, strong.light, accent.dark, strong.dark,
    )
}

/// FNV-1a, 64 bits: tells one build's files from another's, no more.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
