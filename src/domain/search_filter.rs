//! LDAP search filters: their text form (RFC 4515) as a tree.
//!
//! Values of users are added to a tree as bytes, so they cannot change its structure.

/// Maximum length of a filter in bytes, and maximum depth of its tree.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 16;

/// LDAP search filter (RFC 4511 §4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchFilter {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Equal(AttributeName, Vec<u8>),
    AtLeast(AttributeName, Vec<u8>),
    AtMost(AttributeName, Vec<u8>),
    Approximate(AttributeName, Vec<u8>),
    Present(AttributeName),
    /// Text before the first asterisk, the texts between asterisks, and the text after the last.
    /// Texts may be empty.
    Substrings(AttributeName, Vec<Vec<u8>>),
    Extensible {
        attribute: Option<AttributeName>,
        /// Whether attributes of the DN are compared too.
        with_dn: bool,
        rule: Option<AttributeName>,
        value: Vec<u8>,
    },
}

/// Name or OID of an attribute or of a matching rule (RFC 4512 §1.4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeName(String);

impl AttributeName {
    /// Parses a name: a letter, then letters, digits and `-`; or the numbers of an OID. Options are
    /// not accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let is_valid = match bytes.next()? {
            first if first.is_ascii_alphabetic() => bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            first if first.is_ascii_digit() => {
                text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
            }
            _ => false,
        };
        (is_valid && text.len() <= 128).then(|| Self(text.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SearchFilter {
    /// Parses a filter in its text form.
    ///
    /// # Errors
    /// Returns what is wrong, and at which byte.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("has {} bytes; a filter has at most {MAX_LENGTH}", text.len()));
        }
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let filter = reader.filter(MAX_DEPTH)?;
        if reader.at < reader.text.len() {
            return Err(reader.problem("the filter ends before this byte"));
        }
        Ok(filter)
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn problem(&self, what: &str) -> String {
        format!("{what} (byte {})", self.at + 1)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.problem(&format!("expected {:?}", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    fn filter(&mut self, depth: usize) -> Result<SearchFilter, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.problem(&format!("more than {MAX_DEPTH} filters are inside each other")));
        };
        self.expect(b'(')?;
        let filter = match self.peek() {
            Some(b'&') => SearchFilter::And(self.filters(depth)?),
            Some(b'|') => SearchFilter::Or(self.filters(depth)?),
            Some(b'!') => {
                self.at += 1;
                SearchFilter::Not(Box::new(self.filter(depth)?))
            }
            _ => self.comparison()?,
        };
        self.expect(b')')?;
        Ok(filter)
    }

    fn filters(&mut self, depth: usize) -> Result<Vec<SearchFilter>, String> {
        self.at += 1;
        let mut filters = Vec::new();
        while self.peek() == Some(b'(') {
            filters.push(self.filter(depth)?);
        }
        if filters.is_empty() { Err(self.problem("expected '('")) } else { Ok(filters) }
    }

    fn comparison(&mut self) -> Result<SearchFilter, String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte)) {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(self.text.get(start..self.at).unwrap_or_default()).into_owned();
        let operator = self.peek();
        if operator != Some(b'=') {
            self.at += 1;
        }
        self.expect(b'=').map_err(|_| self.problem("expected an attribute and =, >=, <= or ~="))?;
        if operator == Some(b'=') && name.ends_with(':') {
            return self.extensible(&name);
        }
        let problem = |reader: &Self| reader.problem(&format!("{name:?} is not the name of an attribute"));
        let attribute = AttributeName::parse(&name).ok_or_else(|| problem(self))?;
        let parts = self.values()?;
        let single = |reader: &Self, parts: Vec<Vec<u8>>| match <[Vec<u8>; 1]>::try_from(parts) {
            Ok([value]) => Ok(value),
            Err(_) => Err(reader.problem("an asterisk is only allowed after =; write \\2a for the character")),
        };
        match operator {
            Some(b'>') => single(self, parts).map(|value| SearchFilter::AtLeast(attribute, value)),
            Some(b'<') => single(self, parts).map(|value| SearchFilter::AtMost(attribute, value)),
            Some(b'~') => single(self, parts).map(|value| SearchFilter::Approximate(attribute, value)),
            Some(b'=') if parts.len() == 1 => single(self, parts).map(|value| SearchFilter::Equal(attribute, value)),
            Some(b'=') if parts.iter().all(Vec::is_empty) => Ok(SearchFilter::Present(attribute)),
            Some(b'=') => Ok(SearchFilter::Substrings(attribute, parts)),
            _ => Err(self.problem("expected =, >=, <= or ~=")),
        }
    }

    /// Parses `attribute:dn:rule:=value`, of which all but one of attribute and rule may be absent.
    fn extensible(&mut self, name: &str) -> Result<SearchFilter, String> {
        let mut parts = name.strip_suffix(':').unwrap_or(name).split(':');
        let problem = |reader: &Self| reader.problem(&format!("{name:?} is not an attribute with a matching rule"));
        let parse = |text: &str| AttributeName::parse(text).ok_or_else(|| problem(self));
        let attribute = parts.next().filter(|text| !text.is_empty()).map(parse).transpose()?;
        let mut rest = parts.peekable();
        let with_dn = rest.next_if(|part| part.eq_ignore_ascii_case("dn")).is_some();
        let rule = rest.next().map(parse).transpose()?;
        if rest.next().is_some() || (attribute.is_none() && rule.is_none()) {
            return Err(problem(self));
        }
        let value = <[Vec<u8>; 1]>::try_from(self.values()?);
        let [value] = value.map_err(|_| self.problem("an asterisk is not allowed after :="))?;
        Ok(SearchFilter::Extensible { attribute, with_dn, rule, value })
    }

    /// Parses the value up to the closing parenthesis, and splits it at asterisks.
    fn values(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let mut values = vec![Vec::new()];
        loop {
            let byte = match self.peek() {
                None => return Err(self.problem("expected ')'")),
                Some(b')') => return Ok(values),
                Some(b'(' | 0) => return Err(self.problem("write ( as \\28, ) as \\29 and NUL as \\00")),
                Some(b'*') => {
                    values.push(Vec::new());
                    self.at += 1;
                    continue;
                }
                Some(b'\\') => {
                    let digits = self.text.get(self.at + 1..self.at + 3);
                    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                    let byte = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                    let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    self.at += 2;
                    byte.ok_or_else(|| self.problem("write \\ and two hexadecimal digits, such as \\5c for \\"))?
                }
                Some(byte) => byte,
            };
            self.at += 1;
            if let Some(value) = values.last_mut() {
                value.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> AttributeName {
        AttributeName::parse(text).unwrap()
    }

    fn equal(attribute: &str, value: &[u8]) -> SearchFilter {
        SearchFilter::Equal(name(attribute), value.to_vec())
    }

    #[test]
    fn filters_of_rfc_4515_are_parsed() {
        let parse = |text| SearchFilter::parse(text).unwrap();
        assert_eq!(parse("(cn=Babs Jensen)"), equal("cn", b"Babs Jensen"));
        assert_eq!(parse("(!(cn=Tim Howes))"), SearchFilter::Not(Box::new(equal("cn", b"Tim Howes"))));
        let substrings = |attribute, parts: &[&str]| {
            SearchFilter::Substrings(name(attribute), parts.iter().map(|part| part.as_bytes().to_vec()).collect())
        };
        assert_eq!(
            parse("(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))"),
            SearchFilter::And(vec![
                equal("objectClass", b"Person"),
                SearchFilter::Or(vec![equal("sn", b"Jensen"), substrings("cn", &["Babs J", ""])]),
            ])
        );
        assert_eq!(parse("(o=univ*of*mich*)"), substrings("o", &["univ", "of", "mich", ""]));
        assert_eq!(parse("(seeAlso=)"), equal("seeAlso", b""));
        assert_eq!(parse("(o=*)"), SearchFilter::Present(name("o")));
        assert_eq!(parse(r"(bin=\00\00\00\04)"), equal("bin", &[0, 0, 0, 4]));
        assert_eq!(parse(r"(cn=*\2A*)"), substrings("cn", &["", "*", ""]));
        assert_eq!(parse("(n>=3)"), SearchFilter::AtLeast(name("n"), b"3".to_vec()));
        assert_eq!(
            parse("(userAccountControl:1.2.840.113556.1.4.803:=2)"),
            SearchFilter::Extensible {
                attribute: Some(name("userAccountControl")),
                with_dn: false,
                rule: Some(name("1.2.840.113556.1.4.803")),
                value: b"2".to_vec(),
            }
        );
        assert_eq!(
            parse("(:dn:2.4.6.8.10:=Dino)"),
            SearchFilter::Extensible {
                attribute: None,
                with_dn: true,
                rule: Some(name("2.4.6.8.10")),
                value: b"Dino".to_vec()
            }
        );
    }

    #[test]
    fn invalid_filters_are_refused() {
        let deep = format!("{}(a=b){}", "(!".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH));
        for wrong in [
            "",
            "a=b",
            "(a=b",
            "(a=b))",
            "()",
            "(&)",
            "(=b)",
            "(a b=c)",
            "(a=b(c)",
            r"(a=\zz)",
            r"(a=\5",
            "(a>=b*)",
            "(a>b)",
            "(a:=b*)",
            "(::=b)",
            "(1..2=b)",
            "(a;binary=b)",
            &deep,
            &"(".repeat(5000),
        ] {
            assert!(SearchFilter::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[(&|!)a=*\\\\0:~<>é]{0,40}") {
            let _ = SearchFilter::parse(&text);
        }
    }
}
