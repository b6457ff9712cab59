//! Entries of a directory.

/// Entry as a search returned it. All values are bytes, because some values and even DNs are not
/// UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LdapEntry {
    pub(crate) dn: Vec<u8>,
    /// Names of attributes, with options, and their values.
    pub(crate) attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl LdapEntry {
    /// Returns the values of an attribute. Attributes with options, such as languages, are others.
    pub(crate) fn values(&self, name: &str) -> &[Vec<u8>] {
        let found = self.attributes.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    /// Returns whether the server returned only a part of the attribute's values (MS-ADTS
    /// §3.1.1.3.1.3.3).
    pub(crate) fn is_partial(&self, name: &str) -> bool {
        self.attributes.iter().any(|(found, _)| {
            found.split_once(';').is_some_and(|(attribute, option)| {
                attribute.eq_ignore_ascii_case(name) && option.to_ascii_lowercase().starts_with("range=")
            })
        })
    }

    /// Returns the first value of an attribute.
    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        self.values(name).first().map(Vec::as_slice)
    }

    /// Returns the first value of an attribute, if it is UTF-8.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the first value of an attribute, if it is a number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the DN for messages.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.dn).into_owned()
    }
}
