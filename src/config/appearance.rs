//! The operator's logo and colours. Checks the formats, and checks that text stays readable (WCAG
//! 2.2 §1.4.3).

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

/// Maximum size of a logo in bytes.
pub(super) const MAX_LOGO_BYTES: u64 = 64 * 1024;

/// Minimum contrast ratio of text (WCAG 2.2 §1.4.3, level AA).
const AA: f64 = 4.5;

/// Colours of the stylesheet. The accent must contrast with each of them: card, page, wash, and the
/// text on elements in the accent colour.
const LIGHT: [Colour; 4] = [Colour(255, 255, 255), Colour(237, 241, 240), Colour(238, 244, 242), Colour(255, 255, 255)];
const DARK: [Colour; 4] = [Colour(23, 32, 30), Colour(14, 21, 20), Colour(31, 43, 40), Colour(6, 35, 30)];

/// sRGB colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Colour(u8, u8, u8);

impl Colour {
    /// Parses `#rrggbb`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
        let channel = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(Self(channel(0)?, channel(2)?, channel(4)?))
    }

    /// Returns a mixture of this colour with `hundredths` percent of the other colour.
    #[must_use]
    pub fn mixed(self, other: Self, hundredths: u16) -> Self {
        let share = hundredths.min(100);
        // The weighted mean of two bytes fits in a byte.
        let mix = |a: u8, b: u8| {
            u8::try_from((u16::from(a) * (100 - share) + u16::from(b) * share + 50) / 100).unwrap_or(u8::MAX)
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Returns the contrast ratio with another colour, from 1 to 21 (WCAG 2.2).
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Returns the lowest contrast ratio of this colour with one of `others`, and that other
    /// colour.
    fn worst(self, others: &[Self]) -> (f64, Self) {
        let contrasts = others.iter().map(|other| (self.contrast(*other), *other));
        contrasts.fold((f64::MAX, self), |worst, next| if next.0 < worst.0 { next } else { worst })
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

const BLACK: Colour = Colour(0, 0, 0);
const WHITE: Colour = Colour(255, 255, 255);

/// Colour of links and buttons, on light and dark pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Accent {
    pub light: Colour,
    pub dark: Colour,
}

impl Accent {
    /// Creates an accent. If `dark` is absent, derives it: lightens `light` until text in that
    /// colour is readable on dark pages.
    pub(super) fn new(light: Colour, dark: Option<Colour>) -> Self {
        let lighter = || (0..=100).step_by(5).map(|share| light.mixed(WHITE, share));
        let readable = || lighter().find(|colour| colour.worst(&DARK).0 >= AA).unwrap_or(WHITE);
        Self { light, dark: dark.unwrap_or_else(readable) }
    }

    /// Returns the colours of elements under the pointer. They contrast more with the page than the
    /// accent.
    #[must_use]
    pub fn strong(self) -> Self {
        Self { light: self.light.mixed(BLACK, 28), dark: self.dark.mixed(WHITE, 30) }
    }
}

/// Parses a colour for light pages and checks its contrast.
pub(super) fn light(text: &str) -> Result<Colour, String> {
    readable(text, &LIGHT, "light", "darker")
}

/// Parses a colour for dark pages and checks its contrast.
pub(super) fn dark(text: &str) -> Result<Colour, String> {
    readable(text, &DARK, "dark", "lighter")
}

fn readable(text: &str, grounds: &[Colour], pages: &str, better: &str) -> Result<Colour, String> {
    let colour = Colour::parse(text)
        .ok_or_else(|| format!("{text:?} is not a colour; write # and six hexadecimal digits, such as \"#0a5c53\""))?;
    let (contrast, ground) = colour.worst(grounds);
    if contrast < AA {
        return Err(format!(
            "{text} is hard to read on {pages} pages: its contrast with {ground} is {contrast:.1}, and WCAG \
             AA requires {AA}; use a {better} colour"
        ));
    }
    Ok(colour)
}

/// File format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Picture {
    Png,
    Svg,
}

/// The operator's logo, or the icon of an application.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Logo {
    pub picture: Picture,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub bytes: Bytes,
}

impl Logo {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// Returns a text with the problem and the allowed formats.
    pub(super) fn read(content: Vec<u8>) -> Result<Self, String> {
        let head = content.get(..1024).unwrap_or(&content).trim_ascii_start();
        let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
        let is_svg = (head.starts_with(b"<svg") || head.starts_with(b"<?xml") || head.starts_with(b"<!--"))
            && content.windows(4).any(|window| window == b"<svg");
        let picture = if content.starts_with(b"\x89PNG\r\n\x1a\n") {
            Picture::Png
        } else if is_svg {
            Picture::Svg
        } else {
            return Err("is neither a PNG nor an SVG file; use one of these".to_owned());
        };
        Ok(Self { picture, bytes: content.into() })
    }
}

impl fmt::Debug for Logo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logo({:?}, {} bytes)", self.picture, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_colours_match_the_stylesheet() {
        let css = include_str!("../pages/sealgate.css");
        let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for (part, colours) in [(light, LIGHT), (dark, DARK)] {
            for (name, colour) in ["card", "page", "wash", "on-accent"].into_iter().zip(colours) {
                assert!(part.contains(&format!("--{name}: {colour};")), "--{name} is not {colour}");
            }
        }
    }

    #[test]
    fn contrast_follows_wcag() {
        assert!((BLACK.contrast(WHITE) - 21.0).abs() < 0.001);
        let grey = Colour::parse("#767676").unwrap();
        assert!((grey.contrast(WHITE) - 4.54).abs() < 0.01);
    }

    #[test]
    fn an_unreadable_colour_is_refused_with_a_remedy() {
        assert!(light("#ffcc00").unwrap_err().ends_with("use a darker colour"));
        assert!(dark("#0a5c53").unwrap_err().ends_with("use a lighter colour"));
        for wrong in ["red", "#fff", "#12345g", "#1234567", "12345678", "#ğ2345", ""] {
            assert!(light(wrong).unwrap_err().contains("is not a colour"), "{wrong}");
        }
    }

    #[test]
    fn every_readable_accent_gives_readable_colours_in_both_schemes() {
        for text in ["#0a5c53", "#b00020", "#1a4fa3", "#5b2a86", "#000000", "#6b4b00"] {
            let accent = Accent::new(light(text).unwrap(), None);
            assert!(accent.dark.worst(&DARK).0 >= AA, "{text}: {}", accent.dark);
            let strong = accent.strong();
            assert!(strong.light.worst(&LIGHT).0 >= AA && strong.dark.worst(&DARK).0 >= AA, "{text}");
        }
    }

    #[test]
    fn the_type_of_a_logo_is_detected_from_its_content() {
        let svg = "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
        assert_eq!(Logo::read(svg.into()).unwrap().picture, Picture::Svg);
        assert_eq!(Logo::read(b"\x89PNG\r\n\x1a\nrest".to_vec()).unwrap().picture, Picture::Png);
        for wrong in ["", "<html><svg></svg></html>", "<?xml version=\"1.0\"?><html/>", "GIF89a"] {
            assert!(Logo::read(wrong.into()).is_err(), "{wrong}");
        }
    }
}
