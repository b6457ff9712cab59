//! Users as directory entries: LDIF (RFC 2849), as written by `slapcat` and `ldapsearch`.
//!
//! Only some attributes are read. Values that are URLs are never fetched.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::users_file::{UserRow, UsersFile};
use sealgate_domain::line_fault::{LineFault, LineProblem};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;

/// Object classes of users, lower case.
const PEOPLE: [&str; 9] = [
    "person",
    "organizationalperson",
    "inetorgperson",
    "residentialperson",
    "posixaccount",
    "shadowaccount",
    "account",
    "user",
    "inetuser",
];

pub(super) fn read(text: &str, file: &mut UsersFile) {
    let mut entry = None::<Entry>;
    for (line, text) in UnfoldedLines::new(text) {
        if text.is_empty() {
            if entry.take().is_some_and(|entry| !entry.end(file)) {
                return;
            }
            continue;
        }
        match &mut entry {
            Some(entry) => entry.read(line, &text),
            None if text.get(..8).is_some_and(|name| name.eq_ignore_ascii_case("version:")) => {}
            None if text.get(..3).is_some_and(|name| name.eq_ignore_ascii_case("dn:")) => entry = Some(Entry::at(line)),
            None => {
                let problem = "this is not LDIF: an entry must start with dn: and end with an empty line";
                file.fault(line, LineProblem::other(problem));
                return;
            }
        }
    }
    if let Some(entry) = entry {
        entry.end(file);
    }
}

/// Unfolded lines of a text without comments, each with the number of its first line.
struct UnfoldedLines<'t> {
    lines: std::iter::Peekable<std::iter::Zip<std::ops::RangeFrom<usize>, std::str::Lines<'t>>>,
}

impl<'t> UnfoldedLines<'t> {
    fn new(text: &'t str) -> Self {
        Self { lines: (1..).zip(text.lines()).peekable() }
    }
}

impl<'t> Iterator for UnfoldedLines<'t> {
    type Item = (usize, Cow<'t, str>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (number, first) = self.lines.next()?;
            let mut line = Cow::Borrowed(first);
            if !first.is_empty() {
                while let Some((_, more)) = self.lines.next_if(|(_, next)| next.starts_with(' ')) {
                    line.to_mut().push_str(more.get(1..).unwrap_or_default());
                }
            }
            if !first.starts_with('#') {
                return Some((number, line));
            }
        }
    }
}

/// An entry under construction.
struct Entry {
    row: UserRow,
    display_name: String,
    common_name: String,
    given_name: String,
    surname: String,
    /// Whether the object classes are those of a user. `None` if the entry has no class.
    is_person: Option<bool>,
    is_computer: bool,
    faults: Vec<LineFault>,
}

impl Entry {
    fn at(line: usize) -> Self {
        Self {
            row: UserRow::at(line),
            display_name: String::new(),
            common_name: String::new(),
            given_name: String::new(),
            surname: String::new(),
            is_person: None,
            is_computer: false,
            faults: Vec::new(),
        }
    }

    fn read(&mut self, line: usize, text: &str) {
        let Some((attribute, value)) = text.split_once(':') else {
            self.faults.push(LineFault::new(line, LineProblem::other("the line is not ATTRIBUTE: VALUE")));
            return;
        };
        // An attribute with an option, such as `cn;lang-tr`, is not in the list and is ignored.
        let attribute = attribute.to_ascii_lowercase();
        let attribute = attribute.as_str();
        let known = [
            "objectclass",
            "changetype",
            "mail",
            "displayname",
            "cn",
            "givenname",
            "sn",
            "uid",
            "userpassword",
            "memberof",
            "pwdaccountlockedtime",
            "nsaccountlock",
            "useraccountcontrol",
            "accountexpires",
            "shadowexpire",
        ];
        if !known.contains(&attribute) {
            return;
        }
        match self::value(value) {
            Ok(value) => self.take(line, attribute, &value),
            Err(fault) => self.faults.push(LineFault::in_column(line, attribute, LineProblem::other(fault))),
        }
    }

    fn take(&mut self, line: usize, attribute: &str, value: &str) {
        // If there are several values, the first is used.
        let first = |field: &mut String| {
            if field.is_empty() {
                value.clone_into(field);
            }
        };
        match attribute {
            "mail" => first(&mut self.row.email),
            "displayname" => first(&mut self.display_name),
            "cn" => first(&mut self.common_name),
            "givenname" => first(&mut self.given_name),
            "sn" => first(&mut self.surname),
            "uid" => first(&mut self.row.username),
            "userpassword" if self.row.password_hash.expose().is_empty() => self.row.password_hash = Secret::new(value),
            "userpassword" => {
                let problem = LineProblem::other("the attribute is repeated; keep one");
                self.faults.push(LineFault::in_column(line, attribute, problem));
            }
            "memberof" => {
                if let Some(group) = common_name(value) {
                    self.row.groups.push(group);
                } else {
                    let problem = "the group's DN must start with cn, its name; correct or remove the line";
                    self.faults.push(LineFault::in_column(line, attribute, LineProblem::other(problem)));
                }
            }
            "pwdaccountlockedtime" | "nsaccountlock" | "useraccountcontrol" | "accountexpires" | "shadowexpire" => {
                match Lock::from_attribute(attribute, value) {
                    Ok(Lock::Open) => {}
                    Ok(Lock::Locked) => self.row.is_disabled = true,
                    Ok(Lock::Expires(at)) => {
                        self.row.expires_at = Some(self.row.expires_at.map_or(at, |other| other.min(at)));
                    }
                    Err(fault) => self.faults.push(LineFault::in_column(line, attribute, LineProblem::other(fault))),
                }
            }
            "objectclass" => {
                let class = value.to_ascii_lowercase();
                self.is_computer |= class == "computer";
                *self.is_person.get_or_insert_default() |= PEOPLE.contains(&class.as_str());
            }
            // `changetype`: records that add an entry are accepted, all others are refused.
            _ if value.eq_ignore_ascii_case("add") => {}
            _ => {
                let problem = LineProblem::other("only entries can be imported, not changes");
                self.faults.push(LineFault::in_column(line, attribute, problem));
            }
        }
    }

    /// Adds the entry to the file. Returns false if the file accepts no more entries.
    fn end(self, file: &mut UsersFile) -> bool {
        if self.is_person == Some(false) || self.is_computer {
            file.skipped += 1;
            return true;
        }
        let mut row = self.row;
        if !file.has_room(row.line) {
            return false;
        }
        let whole = format!("{} {}", self.given_name, self.surname);
        let names = [self.display_name.as_str(), &self.common_name, whole.trim()];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or_default().clone_into(&mut row.name);
        if self.faults.is_empty() {
            file.rows.push(row);
        } else {
            file.faults.extend(self.faults);
        }
        true
    }
}

/// State of an account according to an attribute.
enum Lock {
    Open,
    Locked,
    Expires(UnixTime),
}

impl Lock {
    /// Flag ACCOUNTDISABLE of `userAccountControl` (MS-ADTS §2.2.16).
    const ACCOUNT_DISABLED: i64 = 0x2;
    /// Seconds from the Windows epoch (1601) to the Unix epoch (1970).
    const FILETIME_EPOCH: i64 = 11_644_473_600;
    const DAY: u64 = 24 * 60 * 60;

    /// Parses an attribute of the LDAP password policy draft, 389 Directory Server, Active
    /// Directory or RFC 2307.
    fn from_attribute(attribute: &str, value: &str) -> Result<Self, &'static str> {
        let number = || value.parse::<i64>().map_err(|_| "the value is not an integer");
        let locked_if = |is_locked| if is_locked { Self::Locked } else { Self::Open };
        Ok(match attribute {
            // Set while the account is locked, by an administrator (000001010000Z) or after wrong
            // passwords.
            "pwdaccountlockedtime" => locked_if(!value.is_empty()),
            "nsaccountlock" => locked_if(value.eq_ignore_ascii_case("true")),
            "useraccountcontrol" => locked_if(number()? & Self::ACCOUNT_DISABLED != 0),
            // In units of 100 nanoseconds since 1601. 0 and the largest number mean never.
            "accountexpires" => match number()? {
                ..=0 | i64::MAX => Self::Open,
                ticks => {
                    let seconds = u64::try_from(ticks / 10_000_000 - Self::FILETIME_EPOCH).unwrap_or_default();
                    Self::Expires(UnixTime::from_seconds(seconds))
                }
            },
            // Days since 1970. In shadow(5), -1 or empty means never.
            _ if value.is_empty() => Self::Open,
            _ => match u64::try_from(number()?) {
                Ok(days) => Self::Expires(UnixTime::from_seconds(days.saturating_mul(Self::DAY))),
                Err(_) => Self::Open,
            },
        })
    }
}

/// Decodes a value.
fn value(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if text.starts_with('<') {
        return Err("a reference to another file (:<) is not supported; write the value into this file");
    }
    let Some(encoded) = text.strip_prefix(':') else { return Ok(Cow::Borrowed(text.trim())) };
    let bytes = STANDARD.decode(encoded.trim()).map_err(|_| "the value after :: is not base64")?;
    String::from_utf8(bytes).map(|text| Cow::Owned(text.trim().to_owned())).map_err(|_| "the value is not UTF-8")
}

/// Returns the `cn` at the start of a distinguished name (RFC 4514).
fn common_name(name: &str) -> Option<String> {
    let (attribute, rest) = name.split_once('=')?;
    if !attribute.trim().eq_ignore_ascii_case("cn") {
        return None;
    }
    let (mut value, mut bytes) = (Vec::new(), rest.trim_start().bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'+' | b';' => break,
            b'\\' => {
                let next = bytes.next()?;
                match char::from(next).to_digit(16) {
                    Some(high) => {
                        let low = char::from(bytes.next()?).to_digit(16)?;
                        value.push(u8::try_from(high * 16 + low).ok()?);
                    }
                    None => value.push(next),
                }
            }
            other => value.push(other),
        }
    }
    String::from_utf8(value).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::UsersFormat;
    use super::super::tests::{faults, read};
    use super::*;

    fn ldif(text: &str) -> UsersFile {
        read(UsersFormat::Ldif, text)
    }

    /// LDIF as `slapcat` writes it: folded lines, and base64 for text beyond ASCII.
    const DIRECTORY: &str = "version: 1\n\n# the tree\n# folded\n  comment\ndn: dc=example,dc=test\nobjectClass: dcObject\ndc: example\n\n\
        dn: uid=anna,ou=people,dc=exam\n ple,dc=test\nobjectClass: top\nobjectClass: inetOrgPerson\nuid: Anna\ncn;lang-tr: x\n\
        cn:: QW5uYSDDlno=\nsn:: w5Z6\nmail: anna@exam\n ple.test\nmail: second@example.test\njpegPhoto:< file:///etc/shadow\n\
        userPassword:: e1NTSEF9M3N6aUcwTEJEOGFKS21zN3FVVlVjNmp2bkRsYVN3bEY=\n\
        memberOf: cn=night shift,ou=groups,dc=example,dc=test\nmemberOf: CN=A\\2cB\\, C+x=y,ou=groups\nentryCSN: 2026\n\n\n\
        dn: uid=ben\r\nobjectClass: person\r\ngivenName: Ben\r\nsn: Kaya\r\nmail: ben@example.test\r\n";

    #[test]
    fn user_entries_are_found() {
        let file = ldif(DIRECTORY);
        assert_eq!(faults(&file), [""; 0]);
        assert_eq!((file.rows.len(), file.skipped), (2, 1));
        let (anna, ben) = (&file.rows[0], &file.rows[1]);
        assert_eq!((anna.line, anna.name.as_str(), anna.email.as_str()), (10, "Anna Öz", "anna@example.test"));
        assert_eq!((anna.username.as_str(), anna.groups.join("|").as_str()), ("Anna", "night shift|A,B, C"));
        assert_eq!(anna.password_hash.expose(), "{SSHA}3sziG0LBD8aJKms7qUVUc6jvnDlaSwlF");
        assert_eq!((ben.name.as_str(), ben.username.as_str(), ben.password_hash.expose()), ("Ben Kaya", "", ""));
    }

    #[test]
    fn unreadable_lines_are_reported_by_number() {
        for (text, told) in [
            ("dn: x\nuserPassword:< file:///etc/shadow\n", "2: userpassword: a reference to another file"),
            ("dn: x\nmail:: ????\n", "2: mail: the value after :: is not base64"),
            ("dn: x\ncn:: /w==\n", "2: cn: the value is not UTF-8"),
            ("dn: x\nchangetype: delete\n", "2: changetype: only entries"),
            ("dn: x\nuserAccountControl: disabled\n", "2: useraccountcontrol: the value is not an integer"),
            ("dn: x\nno colon\n", "2: the line is not ATTRIBUTE: VALUE"),
            ("dn: x\nuserPassword: a\n\n", ""),
            ("dn: x\nuserPassword: a\nuserPassword: b\n", "3: userpassword: the attribute is repeated"),
            ("dn: x\nmemberOf: ou=x,cn=y\n", "2: memberof: the group's DN"),
            ("email,name\na@b.test,A\n", "1: this is not LDIF"),
        ] {
            let found = faults(&ldif(text));
            assert!(found.first().map_or("", String::as_str).starts_with(told), "{text:?}: {found:?}");
            assert_eq!(found.is_empty(), told.is_empty());
            assert!(!found.join("").contains("shadow"));
        }
    }

    proptest! {
        #[test]
        fn no_input_causes_a_panic(text in "(dn: x\n)?([ a-c:<#\\\\=,\n]|mail:|userPassword::|memberOf:cn=|\\PC){0,60}") {
            let file = ldif(&text);
            prop_assert!(file.rows.len() + file.skipped <= text.lines().count());
        }
    }
}
