//! Parser for CBOR (RFC 8949) in the canonical form of CTAP2 §6, for the types that ceremonies
//! need.
//!
//! Level 3 §2 requires all encoders to use the canonical form. The parser rejects other encodings,
//! so that a value has exactly one encoding.

use std::cmp::Ordering;

/// Maximum nesting of arrays and maps (CTAP2 §6).
const MAX_DEPTH: u8 = 4;

/// Reason why bytes are not canonical CBOR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CborFault {
    #[error("the CBOR ends too early")]
    Truncated,
    /// Further bytes follow the value.
    #[error("the CBOR has trailing bytes")]
    Trailing,
    /// A number or length is not in its shortest form, or a length is indefinite.
    #[error("a number or a length is not in the shortest form")]
    NotShortest,
    /// The keys of a map are not in order, or one is repeated.
    #[error("the keys of a map are out of order or repeated")]
    KeyOrder,
    #[error("the CBOR is nested too deeply")]
    TooDeep,
    /// A text is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// The value has an unsupported type: a tag, a float, a number beyond 63 bits, or a map key
    /// that is neither a number nor text.
    #[error("the CBOR has a value of an unsupported type")]
    Unsupported,
    /// The value is valid, but has another type than required.
    #[error("the CBOR value is not of the required type")]
    Shape,
}

/// Parsed value that borrows its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CborItem<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    Text(&'a str),
    Map(Vec<(CborItem<'a>, CborItem<'a>)>),
    /// An array, a boolean or null. The content was parsed and discarded.
    Other,
}

impl<'a> CborItem<'a> {
    /// Parses a value that is not followed by further bytes.
    pub(super) fn whole(bytes: &'a [u8]) -> Result<Self, CborFault> {
        match Self::first(bytes)? {
            (item, []) => Ok(item),
            _ => Err(CborFault::Trailing),
        }
    }

    /// Parses a value and returns the remaining bytes.
    pub(super) fn first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), CborFault> {
        let mut reader = CborReader { rest: bytes };
        let item = reader.item(0)?;
        Ok((item, reader.rest))
    }
}

struct CborReader<'a> {
    rest: &'a [u8],
}

impl<'a> CborReader<'a> {
    fn item(&mut self, depth: u8) -> Result<CborItem<'a>, CborFault> {
        let [first] = self.array()?;
        let (major, short) = (first >> 5, first & 0b1_1111);
        if major == 7 {
            // 20, 21 and 22 are false, true and null.
            return if matches!(short, 20..=22) { Ok(CborItem::Other) } else { Err(CborFault::Unsupported) };
        }
        let number = self.number(short)?;
        match major {
            0 => i64::try_from(number).map(CborItem::Integer).map_err(|_| CborFault::Unsupported),
            1 => i64::try_from(number).map(|number| CborItem::Integer(-1 - number)).map_err(|_| CborFault::Unsupported),
            2 => self.take(number).map(CborItem::Bytes),
            3 => str::from_utf8(self.take(number)?).map(CborItem::Text).map_err(|_| CborFault::NotUtf8),
            4 | 5 if depth == MAX_DEPTH => Err(CborFault::TooDeep),
            4 => {
                for _ in 0..self.count(number)? {
                    self.item(depth + 1)?;
                }
                Ok(CborItem::Other)
            }
            5 => self.map(number, depth),
            _ => Err(CborFault::Unsupported),
        }
    }

    fn map(&mut self, entries: u64, depth: u8) -> Result<CborItem<'a>, CborFault> {
        let mut members = Vec::new();
        let mut before: Option<&[u8]> = None;
        for _ in 0..self.count(entries)? {
            let start = self.rest;
            let key = self.item(depth + 1)?;
            if !matches!(key, CborItem::Integer(_) | CborItem::Text(_)) {
                return Err(CborFault::Unsupported);
            }
            let encoded = &start[..start.len() - self.rest.len()];
            if before.is_some_and(|before| canonical_order(before, encoded) != Ordering::Less) {
                return Err(CborFault::KeyOrder);
            }
            before = Some(encoded);
            members.push((key, self.item(depth + 1)?));
        }
        Ok(CborItem::Map(members))
    }

    /// Parses the number that follows an item's first byte.
    fn number(&mut self, short: u8) -> Result<u64, CborFault> {
        let (number, least) = match short {
            0..24 => return Ok(short.into()),
            24 => (u64::from(self.array::<1>()?[0]), 24),
            25 => (u64::from(u16::from_be_bytes(self.array()?)), 1 << 8),
            26 => (u64::from(u32::from_be_bytes(self.array()?)), 1 << 16),
            27 => (u64::from_be_bytes(self.array()?), 1 << 32),
            // 31 means an indefinite length.
            _ => return Err(CborFault::NotShortest),
        };
        if number < least { Err(CborFault::NotShortest) } else { Ok(number) }
    }

    /// Checks a stated number of elements. Each element takes at least one byte, so a false number
    /// cannot cause a large allocation.
    fn count(&self, number: u64) -> Result<u64, CborFault> {
        if number > self.rest.len() as u64 { Err(CborFault::Truncated) } else { Ok(number) }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], CborFault> {
        let length = usize::try_from(length).map_err(|_| CborFault::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(CborFault::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CborFault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CborFault::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }
}

/// Compares keys by type, then by length, then by bytes (CTAP2 §6).
fn canonical_order(a: &[u8], b: &[u8]) -> Ordering {
    let kind = |key: &[u8]| key.first().map(|first| first >> 5);
    kind(a).cmp(&kind(b)).then(a.len().cmp(&b.len())).then(a.cmp(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Result<CborItem<'_>, CborFault> {
        CborItem::whole(bytes)
    }

    #[test]
    fn values_of_rfc_8949_are_parsed() {
        // Examples of RFC 8949 appendix A.
        for (bytes, number) in [
            (&b"\x00"[..], 0),
            (b"\x17", 23),
            (b"\x18\x18", 24),
            (b"\x19\x03\xe8", 1000),
            (b"\x1a\x00\x0f\x42\x40", 1_000_000),
            (b"\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00", 1_000_000_000_000),
            (b"\x20", -1),
            (b"\x39\x03\xe7", -1000),
            (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", i64::MIN),
        ] {
            assert_eq!(whole(bytes), Ok(CborItem::Integer(number)));
        }
        assert_eq!(whole(b"\x44\x01\x02\x03\x04"), Ok(CborItem::Bytes(&[1, 2, 3, 4])));
        assert_eq!(whole(b"\x62\xc3\xbc"), Ok(CborItem::Text("ü")));
        assert_eq!(whole(b"\x83\x01\x82\x02\x03\xf5"), Ok(CborItem::Other));
        let member = |key, value| (CborItem::Text(key), value);
        assert_eq!(
            whole(b"\xa2\x61a\x01\x61b\xa0"),
            Ok(CborItem::Map(vec![member("a", CborItem::Integer(1)), member("b", CborItem::Map(vec![]))]))
        );
        assert_eq!(CborItem::first(b"\x01\x02"), Ok((CborItem::Integer(1), &b"\x02"[..])));
    }

    #[test]
    fn non_canonical_encodings_are_refused() {
        for bytes in [
            &b"\x18\x17"[..],
            b"\x19\x00\xff",
            b"\x1a\x00\x00\xff\xff",
            b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
            b"\x38\x17",
            b"\x58\x01\x00",
            b"\x78\x01a",
            b"\x98\x01\x00",
            b"\xb8\x01\x00\x00",
            b"\x5f\x41\x00\xff",
            b"\x9f\xff",
            b"\xbf\xff",
            b"\x1c",
        ] {
            assert_eq!(whole(bytes), Err(CborFault::NotShortest), "{bytes:x?}");
        }
    }

    #[test]
    fn map_keys_are_in_ctap2_order_without_duplicates() {
        for sound in [
            &b"\xa2\x01\x00\x20\x00"[..],
            b"\xa2\x17\x00\x18\x18\x00",
            b"\xa2\x18\xff\x00\x20\x00",
            b"\xa2\x61b\x00\x62aa\x00",
        ] {
            assert!(whole(sound).is_ok(), "{sound:x?}");
        }
        for wrong in [
            &b"\xa2\x20\x00\x01\x00"[..],
            b"\xa2\x01\x00\x01\x00",
            b"\xa2\x62aa\x00\x61b\x00",
            b"\xa2\x61a\x00\x61a\x01",
        ] {
            assert_eq!(whole(wrong), Err(CborFault::KeyOrder), "{wrong:x?}");
        }
    }

    #[test]
    fn depth_and_declared_lengths_are_checked() {
        assert!(whole(b"\x81\x81\x81\x81\x00").is_ok());
        assert_eq!(whole(b"\x81\x81\x81\x81\x81\x00"), Err(CborFault::TooDeep));
        assert_eq!(whole(&[0x81; 16_384]), Err(CborFault::TooDeep));
        for bytes in [
            &b""[..],
            b"\x18",
            b"\x41",
            b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xba\x7f\xff\xff\xff",
            b"\xa1\x00",
        ] {
            assert_eq!(whole(bytes), Err(CborFault::Truncated), "{bytes:x?}");
        }
        assert_eq!(whole(b"\x00\x00"), Err(CborFault::Trailing));
    }

    #[test]
    fn unsupported_types_are_refused() {
        for bytes in [
            &b"\xc0\x00"[..],
            b"\xf7",
            b"\xf8\xff",
            b"\xf9\x3c\x00",
            b"\xfa\x47\xc3\x50\x00",
            b"\xff",
            b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x3b\x80\x00\x00\x00\x00\x00\x00\x00",
            b"\xa1\x40\x00",
            b"\xa1\xf5\x00",
            b"\xa1\x80\x00",
        ] {
            assert_eq!(whole(bytes), Err(CborFault::Unsupported), "{bytes:x?}");
        }
        assert_eq!(whole(b"\x61\xff"), Err(CborFault::NotUtf8));
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic_and_values_end_at_their_length(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((item, rest)) = CborItem::first(&bytes) {
                prop_assert_eq!(whole(&bytes[..bytes.len() - rest.len()]), Ok(item));
            }
        }
    }
}
