//! Basic Encoding Rules, as far as LDAP uses them (RFC 4511 §5.1): tags of one byte and definite
//! lengths.
//!
//! The reader returns one element at a time and never recurses, so nested input cannot exhaust the
//! stack.

/// Universal tags, and the bit of constructed elements.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Input that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends an element.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(u8::try_from(length).unwrap_or_default());
    } else {
        let bytes = length.to_be_bytes();
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or_default();
        let bytes = bytes.get(first..).unwrap_or_default();
        out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
}

/// Appends an element whose content `fill` writes.
pub(crate) fn put_constructed(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(out, tag, &content);
}

/// Appends an integer or an enumerated value. Negative values are not supported.
pub(crate) fn put_unsigned(out: &mut Vec<u8>, tag: u8, value: u32) {
    let bytes = value.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
    // A first bit of 1 would make the number negative.
    let sign = bytes.get(first).is_some_and(|byte| byte & 0x80 != 0);
    let mut content = if sign { vec![0] } else { Vec::new() };
    content.extend_from_slice(bytes.get(first..).unwrap_or_default());
    put(out, tag, &content);
}

/// Element: tag and content.
pub(crate) type Element<'b> = (u8, &'b [u8]);

/// Reader of consecutive elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the next element, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Element<'b>>, Malformed> {
        let Some(&tag) = self.bytes.first() else { return Ok(None) };
        let (start, length) = header(self.bytes)?.ok_or(Malformed)?;
        let end = start.checked_add(length).ok_or(Malformed)?;
        let content = self.bytes.get(start..end).ok_or(Malformed)?;
        self.bytes = self.bytes.get(end..).ok_or(Malformed)?;
        Ok(Some((tag, content)))
    }

    /// Returns the content of the next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'b [u8], Malformed> {
        match self.next()? {
            Some((found, content)) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }
}

/// Returns the length of the header and of the content of the first element. Returns `None` if the
/// header is incomplete.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let (Some(&tag), Some(&first)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err(Malformed);
    }
    if first < 0x80 {
        return Ok(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return Err(Malformed);
    }
    let Some(digits) = bytes.get(2..2 + count) else { return Ok(None) };
    let length = digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    Ok(Some((2 + count, length)))
}

/// Parses an integer of at most four bytes.
pub(crate) fn integer(content: &[u8]) -> Result<i32, Malformed> {
    let first = *content.first().ok_or(Malformed)?;
    if content.len() > 4 {
        return Err(Malformed);
    }
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(content.iter().fold(sign, |value, byte| value << 8 | i32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn elements_are_read_as_they_were_written(
            elements in prop::collection::vec((0_u8..0x1f, prop::collection::vec(any::<u8>(), 0..400)), 0..5),
        ) {
            let mut bytes = Vec::new();
            for (tag, content) in &elements {
                put(&mut bytes, *tag, content);
            }
            let mut reader = Reader::new(&bytes);
            for (tag, content) in &elements {
                prop_assert_eq!(reader.next(), Ok(Some((*tag, content.as_slice()))));
            }
            prop_assert_eq!(reader.next(), Ok(None));
        }

        #[test]
        fn integers_are_read_as_they_were_written(value in 0..=i32::MAX) {
            let mut bytes = Vec::new();
            put_unsigned(&mut bytes, INTEGER, value.unsigned_abs());
            let content = Reader::new(&bytes).expect(INTEGER).unwrap();
            prop_assert_eq!(integer(content), Ok(value));
        }

        #[test]
        fn no_input_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(Some((_, content))) = reader.next() {
                let _ = integer(content);
            }
        }
    }

    #[test]
    fn lengths_that_ldap_does_not_allow_are_refused() {
        // Indefinite, five digits, reserved, and a tag of several bytes.
        for bytes in [&[0x30, 0x80, 0, 0][..], &[4, 0x85, 0, 0, 0, 0, 1, 9], &[4, 0xff], &[0x1f, 1, 0]] {
            assert_eq!(header(bytes), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(header(&[4, 0x82, 1]), Ok(None));
        assert_eq!(integer(&[]), Err(Malformed));
        assert_eq!(integer(&[0xff]), Ok(-1));
    }
}
