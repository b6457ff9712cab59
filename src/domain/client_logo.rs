//! Logo of a client: a small picture that is recognized by its content.

use std::fmt;
use std::ops::RangeInclusive;

use imagesize::{ImageSize, ImageType, blob_size, image_type};
use serde::{Deserialize, Serialize};

use crate::secret::{SecretHash, base64url, from_base64url};

/// Maximum size of a logo, in bytes.
pub const MAX_LOGO_BYTES: usize = 32 * 1024;

/// Allowed width and height of a logo, in pixels.
pub const LOGO_PIXELS: RangeInclusive<usize> = 16..=1024;

/// File format of a logo. SVG is not allowed, because it is a document that can have scripts and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogoFormat {
    Png,
    Jpeg,
    Webp,
}

impl LogoFormat {
    /// Returns the media type of the format.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }
}

/// Description of a logo in the record of its client. The picture is a record of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLogo {
    pub format: LogoFormat,
    /// SHA-256 of the picture.
    pub digest: SecretHash,
}

impl ClientLogo {
    /// Returns the version in the URL of the picture: 22 characters that depend on its content.
    pub fn version(&self) -> String {
        base64url(&self.digest.as_bytes()[..16])
    }
}

/// Reason why a file cannot be a logo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogoFault {
    /// The file has more than [`MAX_LOGO_BYTES`].
    TooLarge,
    /// The content is not a PNG, JPEG or WebP picture.
    Format,
    Animated,
    /// The width or the height is not in [`LOGO_PIXELS`].
    Pixels {
        width: usize,
        height: usize,
    },
}

impl fmt::Display for LogoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the file has more than {MAX_LOGO_BYTES} bytes; use a smaller picture"),
            Self::Format => f.write_str("the file is not a PNG, JPEG or WebP picture; use one of these"),
            Self::Animated => f.write_str("the picture is animated; use one that is not"),
            Self::Pixels { width, height } => {
                let (least, most) = (LOGO_PIXELS.start(), LOGO_PIXELS.end());
                write!(f, "the picture has {width} x {height} pixels; a logo has {least} to {most} in each direction")
            }
        }
    }
}

/// Picture of a logo, checked by [`LogoPicture::parse`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogoPicture {
    format: LogoFormat,
    bytes: Vec<u8>,
}

impl LogoPicture {
    /// Checks the content of a file: its size, the format, and width and height in its header.
    ///
    /// # Errors
    /// Returns the first reason why the file cannot be a logo.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, LogoFault> {
        if bytes.len() > MAX_LOGO_BYTES {
            return Err(LogoFault::TooLarge);
        }
        let format = match image_type(&bytes) {
            Ok(ImageType::Png) => LogoFormat::Png,
            Ok(ImageType::Jpeg) => LogoFormat::Jpeg,
            Ok(ImageType::Webp) => LogoFormat::Webp,
            _ => return Err(LogoFault::Format),
        };
        let ImageSize { width, height } = blob_size(&bytes).map_err(|_| LogoFault::Format)?;
        if !LOGO_PIXELS.contains(&width) || !LOGO_PIXELS.contains(&height) {
            return Err(LogoFault::Pixels { width, height });
        }
        if is_animated(format, &bytes) {
            return Err(LogoFault::Animated);
        }
        Ok(Self { format, bytes })
    }

    /// Returns the description for the record of the client.
    pub fn describe(&self) -> ClientLogo {
        ClientLogo { format: self.format, digest: SecretHash::for_secret(&self.bytes) }
    }

    /// Returns the content of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns whether a PNG has the chunk `acTL`, or whether the header of a WebP has the flag of animations.
fn is_animated(format: LogoFormat, bytes: &[u8]) -> bool {
    match format {
        LogoFormat::Png => bytes.windows(4).any(|window| window == b"acTL"),
        LogoFormat::Webp => bytes.get(12..16) == Some(b"VP8X") && bytes.get(20).is_some_and(|flags| flags & 0b10 != 0),
        LogoFormat::Jpeg => false,
    }
}

impl fmt::Debug for LogoPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogoPicture({:?}, {} bytes)", self.format, self.bytes.len())
    }
}

impl TryFrom<String> for LogoPicture {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = from_base64url(&text).ok_or("a logo is written in base64url")?;
        Self::parse(bytes).map_err(|fault| fault.to_string())
    }
}

impl From<LogoPicture> for String {
    fn from(picture: LogoPicture) -> Self {
        base64url(&picture.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &size, &[8, 6, 0, 0, 0, 0, 0, 0, 0], more].concat()
    }

    #[test]
    fn a_logo_is_recognized_by_its_content() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\0\x40\0\x30\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        let webp = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x2f\0\0\x3f\0\0";
        for (bytes, format) in
            [(png(48, 64, b""), LogoFormat::Png), (jpeg.to_vec(), LogoFormat::Jpeg), (webp.to_vec(), LogoFormat::Webp)]
        {
            let picture = LogoPicture::parse(bytes).unwrap();
            assert_eq!(picture.describe().format, format);
            let text = String::from(picture.clone());
            assert_eq!(LogoPicture::try_from(text), Ok(picture));
        }
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let mut moving = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x2f\0\0\x3f\0\0".to_vec();
        for (bytes, fault) in [
            (png(48, 48, &vec![0; MAX_LOGO_BYTES]), LogoFault::TooLarge),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"48\" height=\"48\"/>".to_vec(), LogoFault::Format),
            (b"GIF89a\x30\0\x30\0".to_vec(), LogoFault::Format),
            (b"\x89PNG\r\n\x1a\n".to_vec(), LogoFault::Format),
            (Vec::new(), LogoFault::Format),
            (png(15, 48, b""), LogoFault::Pixels { width: 15, height: 48 }),
            (png(48, 1025, b""), LogoFault::Pixels { width: 48, height: 1025 }),
            (png(u32::MAX, 48, b""), LogoFault::Pixels { width: u32::MAX as usize, height: 48 }),
            (png(48, 48, b"\0\0\0\x08acTL"), LogoFault::Animated),
            (std::mem::take(&mut moving), LogoFault::Animated),
        ] {
            assert_eq!(LogoPicture::parse(bytes), Err(fault));
        }
    }
}
