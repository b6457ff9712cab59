//! Assets of all pages: the stylesheet with the operator's colours, the script and the logo.
//!
//! Each URL contains a version, so that browsers can cache it forever.

use bytes::Bytes;

use sealgate_config::{Accent, Logo, Picture};
use sealgate_domain::client_logo::LogoPicture;

/// Default accent of the stylesheet on light pages.
const DEFAULT_ACCENT: &str = "#0a5c53";

/// The stylesheets without the operator's colours: rules for all pages, then those for sign-in and
/// account pages only, and those for the console only.
pub const STYLESHEET: &str = include_str!("sealgate.css");

/// The script of all pages. Every page works without it.
pub const SCRIPT: &str = include_str!("sealgate.js");

/// The script of the pages with security keys and passkeys, and of the console's pages of clients.
pub const KEYS_SCRIPT: &str = include_str!("keys.js");

/// The script of the page that returns the response of a sign-in to the client, in ES5.
pub const RETURN_SCRIPT: &str = include_str!("return.js");

/// File that pages load.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Content of the file.
    pub bytes: Bytes,
    pub media_type: &'static str,
    /// Version of the content: 16 hexadecimal digits. It changes with the content.
    pub version: String,
}

impl Asset {
    fn new(bytes: Bytes, media_type: &'static str) -> Self {
        let version = format!("{:016x}", fnv1a(&bytes));
        Self { bytes, media_type, version }
    }

    pub(super) fn stylesheet(pages: Stylesheet, accent: Option<Accent>) -> Self {
        let css = minified_css(&rules_of(pages)) + &accent.map(colours).unwrap_or_default();
        Self::new(css.into(), "text/css; charset=utf-8")
    }

    pub(super) fn script(script: &str) -> Self {
        Self::new(minified_script(script).into(), "text/javascript; charset=utf-8")
    }

    /// Creates the asset of a client's logo.
    pub fn client_logo(picture: LogoPicture) -> Self {
        let media_type = picture.describe().format.media_type();
        Self::new(picture.into_bytes().into(), media_type)
    }

    /// Creates the asset of the operator's logo or of an application's picture.
    pub fn logo(logo: &Logo) -> Self {
        let media_type = match logo.picture {
            Picture::Png => "image/png",
            Picture::Svg => "image/svg+xml",
        };
        Self::new(logo.bytes.clone(), media_type)
    }
}

/// Pages that share a stylesheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stylesheet {
    Account,
    Console,
}

/// Returns the rules of the stylesheet that apply to these pages.
fn rules_of(pages: Stylesheet) -> String {
    let (common, rest) = STYLESHEET.split_once("/* [account]").unwrap_or((STYLESHEET, ""));
    let (account, console) = rest.split_once("/* [console]").unwrap_or((rest, ""));
    let own = if pages == Stylesheet::Console { console } else { account };
    format!("{common}/*{own}")
}

/// Removes comments, indentation, and unnecessary line breaks, spaces, zeros and semicolons from the
/// stylesheet. The result is a quarter smaller.
fn minified_css(css: &str) -> String {
    let mut tight = String::with_capacity(css.len());
    let uncommented = css.split("/*").enumerate().map(|(at, part)| match part.split_once("*/") {
        Some((_, after)) if at > 0 => after,
        _ => part,
    });
    for line in uncommented.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty()) {
        tight.push_str(line);
        if !line.ends_with(['{', '}', ';', ',']) {
            tight.push('\n');
        }
    }
    // No string in the stylesheet contains these.
    let shorter =
        [(": ", ":"), (" {", "{"), (", ", ","), (" > ", ">"), (";}", "}"), (":0.", ":."), (" 0.", " ."), ("(0.", "(.")];
    shorter.iter().fold(tight, |tight, (from, to)| tight.replace(from, to))
}

/// Removes comment lines and indentation from the script. Line breaks remain, because they end
/// statements.
fn minified_script(script: &str) -> String {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.fold(String::with_capacity(script.len()), |tight, line| tight + line + "\n")
}

/// Returns the project's mark in the operator's colour as the page's icon: a `data:` URL of an SVG.
pub(super) fn icon(accent: Option<Accent>) -> String {
    let ground = accent.map_or_else(|| DEFAULT_ACCENT.to_owned(), |accent| accent.light.to_string());
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32' fill='none' stroke='#fff' \
         stroke-linecap='round'><rect width='32' height='32' rx='8' fill='{ground}' stroke='none'/>\
         <path d='M8.5 25V15a7.5 7.5 0 0 1 15 0v10' stroke-width='3'/><path d='M16 16.5v8' stroke-width='2.5'/>\
         <path d='M16 15.5v0' stroke-width='5'/></svg>"
    );
    // The SVG contains only fixed markup and a colour, so it needs only the encoding for URLs.
    let encoded: String = url::form_urlencoded::byte_serialize(svg.as_bytes()).collect();
    format!("data:image/svg+xml,{}", encoded.replace('+', "%20"))
}

fn colours(accent: Accent) -> String {
    let strong = accent.strong();
    format!(
        ":root {{ --accent: {}; --accent-strong: {}; }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ --accent: {}; --accent-strong: {}; }} }}\n\
         .light {{ --accent: {}; }}\n.dark {{ --accent: {}; }}\n",
        accent.light, strong.light, accent.dark, strong.dark, accent.light, accent.dark,
    )
}

/// Returns the 64-bit FNV-1a hash. The hash only distinguishes the files of different builds.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_assets_lack_only_comments_and_white_space() {
        assert_eq!(
            minified_css("/* a\n b */\n\na,\nb {\n  c: d\n    e;\n}\n/* f */ g { h: i; }\n"),
            "a,b{c:d\ne}g{ h:i; }"
        );
        assert_eq!(
            minified_script("// a\n\nif (b) {\n  // c\n  d(\"// e\"); // f\n}\n"),
            "if (b) {\nd(\"// e\"); // f\n}\n"
        );
        let signs = |text: &str, sign| text.matches(sign).count();
        for area in [Stylesheet::Account, Stylesheet::Console] {
            let (source, css) = (rules_of(area), minified_css(&rules_of(area)));
            assert!(!css.contains("/*") && !css.contains("*/"));
            for sign in ["{", "}"] {
                assert_eq!(signs(&css, sign), signs(&source, sign), "{sign}");
            }
            assert!(css.len() < source.len() * 9 / 10);
            assert_eq!(
                (css.contains(".card{"), css.contains(".sections a{")),
                (area != Stylesheet::Console, area == Stylesheet::Console)
            );
        }
        for source in [SCRIPT, KEYS_SCRIPT] {
            let script = minified_script(source);
            let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            assert_eq!(signs(&script, "{"), signs(&code.join(""), "{"));
            assert!(script.len() < source.len());
        }
    }
}
