//! Users as CSV (RFC 4180).
//!
//! The separator is a comma, or a semicolon, which spreadsheets write in locales with decimal
//! commas.

use ::csv::{ReaderBuilder, StringRecord, Trim};
use memchr::memchr_iter;

use crate::csv_cells::unguarded;
use crate::users_file::{UserRow, UsersFile};
use sealgate_domain::line_fault::{LineFault, LineProblem};
use sealgate_domain::secret::Secret;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Email,
    Name,
    Username,
    Groups,
    PasswordHash,
    EmailVerified,
    PhoneNumber,
    State,
    App,
    Language,
}

/// Columns of a file.
pub(super) struct Columns {
    known: &'static [(&'static str, Column)],
    /// Required columns. Of each group, a file has at least one.
    required: &'static [&'static [Column]],
}

/// Columns of an import.
pub(super) const IMPORTED: Columns = Columns {
    required: &[&[Column::Email, Column::Username], &[Column::Name]],
    known: &[
        ("email", Column::Email),
        ("name", Column::Name),
        ("username", Column::Username),
        ("groups", Column::Groups),
        ("password_hash", Column::PasswordHash),
        ("email_verified", Column::EmailVerified),
        ("phone_number", Column::PhoneNumber),
        ("state", Column::State),
    ],
};

/// Columns of an invitation. Invited users choose their credential and verify their address
/// themselves.
pub(super) const INVITED: Columns = Columns {
    required: &[&[Column::Email], &[Column::Name]],
    known: &[
        ("email", Column::Email),
        ("name", Column::Name),
        ("username", Column::Username),
        ("groups", Column::Groups),
        ("phone_number", Column::PhoneNumber),
        ("app", Column::App),
        ("language", Column::Language),
    ],
};

pub(super) fn read(text: &str, known: &Columns, file: &mut UsersFile) {
    let first = text.lines().next().unwrap_or_default();
    let declared_delimiter = named_delimiter(first);
    let header = if declared_delimiter.is_some() { text.lines().nth(1).unwrap_or_default() } else { first };
    let delimiter =
        declared_delimiter.unwrap_or(if header.contains(';') && !header.contains(',') { b';' } else { b',' });
    // Rows with a different number of fields are reported below, with their line number.
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut lines = Lines { text: text.as_bytes(), at: 0, number: 1 };
    let mut columns = None::<Vec<Column>>;
    let mut record = StringRecord::new();
    while let Ok(true) = reader.read_record(&mut record) {
        let at = record.position().and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or_default();
        let line = lines.number_at(at);
        let Some(columns) = &columns else {
            if declared_delimiter.is_some() && line == 1 {
                continue;
            }
            match known.resolve(&record, line) {
                Ok(resolved) => columns = Some(resolved),
                Err(faults) => return file.faults.extend(faults),
            }
            continue;
        };
        if !file.has_room(line) {
            return;
        }
        match row(&record, columns, line) {
            Ok(row) => file.rows.push(row),
            Err(fault) => file.faults.push(fault),
        }
    }
    if columns.is_none() {
        file.fault(1, LineProblem::EmptyFile);
    }
}

/// Returns the delimiter if the first line names one, such as `sep=;` of Microsoft Excel. That line
/// is not a record.
fn named_delimiter(first: &str) -> Option<u8> {
    let first = first.trim().trim_matches('"');
    let (name, delimiter) = first.split_at_checked(4)?;
    let delimiter = Some(delimiter).filter(|_| name.eq_ignore_ascii_case("sep="))?;
    // `trim` has already removed a tab as the delimiter.
    match delimiter {
        ";" => Some(b';'),
        "," => Some(b','),
        "" | "\t" => Some(b'\t'),
        _ => None,
    }
}

impl Columns {
    /// Returns the columns that a header names.
    fn resolve(&self, header: &StringRecord, line: usize) -> Result<Vec<Column>, Vec<LineFault>> {
        let (mut columns, mut faults) = (Vec::new(), Vec::new());
        for (number, cell) in (1..).zip(header) {
            let known_column =
                self.known.iter().find(|(name, _)| cell.eq_ignore_ascii_case(name)).map(|(_, column)| *column);
            match known_column {
                Some(column) if !columns.contains(&column) => columns.push(column),
                Some(_) => {
                    faults.push(LineFault::new(line, LineProblem::RepeatedColumn { number }));
                }
                None => {
                    let known = self.known.iter().map(|(name, _)| (*name).to_owned()).collect();
                    faults.push(LineFault::new(line, LineProblem::UnknownColumn { number, known }));
                }
            }
        }
        let name_of = |wanted: &Column| {
            self.known.iter().find(|(_, column)| column == wanted).map(|(name, _)| (*name).to_owned())
        };
        for group in self.required {
            if faults.is_empty() && !group.iter().any(|column| columns.contains(column)) {
                let names = group.iter().filter_map(name_of).collect();
                faults.push(LineFault::new(line, LineProblem::MissingColumn { names }));
            }
        }
        if faults.is_empty() { Ok(columns) } else { Err(faults) }
    }
}

fn row(record: &StringRecord, columns: &[Column], line: usize) -> Result<UserRow, LineFault> {
    if record.len() != columns.len() {
        let problem = LineProblem::FieldCount { found: record.len(), expected: columns.len() };
        return Err(LineFault::new(line, problem));
    }
    let mut row = UserRow::at(line);
    for (column, cell) in columns.iter().zip(record) {
        let cell = unguarded(cell);
        match column {
            Column::Email => row.email = cell.into_owned(),
            Column::Name => row.name = cell.into_owned(),
            Column::Username => row.username = cell.into_owned(),
            Column::Groups => {
                row.groups =
                    cell.split(',').map(|group| group.trim().to_owned()).filter(|group| !group.is_empty()).collect();
            }
            Column::PasswordHash => row.password_hash = Secret::new(&*cell),
            Column::EmailVerified => {
                row.email_verified = match cell.to_ascii_lowercase().as_str() {
                    "" | "false" => false,
                    "true" => true,
                    _ => return Err(LineFault::in_column(line, "email_verified", LineProblem::NotBoolean)),
                };
            }
            Column::State => {
                row.is_disabled = match cell.to_ascii_lowercase().as_str() {
                    "" | "enabled" => false,
                    "disabled" => true,
                    _ => return Err(LineFault::in_column(line, "state", LineProblem::NotState)),
                };
            }
            Column::PhoneNumber => row.phone_number = cell.into_owned(),
            Column::App => row.app = cell.into_owned(),
            Column::Language => row.language = cell.into_owned(),
        }
    }
    Ok(row)
}

/// Counter of lines. The CSV reader's own counter attributes some line breaks to the following
/// record.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    number: usize,
}

impl Lines<'_> {
    /// Returns the line number of the record that begins at this byte, or after the line breaks at
    /// this byte.
    fn number_at(&mut self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let breaks = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let text_before = self.text.get(self.at..at + breaks).unwrap_or_default();
        self.number += memchr_iter(b'\n', text_before).count();
        self.at = at + breaks;
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::super::UsersFormat;
    use super::super::tests::{faults, read};

    fn csv(text: &str) -> super::UsersFile {
        read(UsersFormat::Csv, text)
    }

    #[test]
    fn a_row_is_parsed_by_its_column_names() {
        for text in [
            "name,Email,groups,phone_number,email_verified,username,password_hash\r\n\r\n\
             \"Öz, Anna\", anna@example.test ,\"staff, night shift\",'+90 555 111 22 33,TRUE,anna,$6$a$b\r\n",
            "\u{feff}name;email;groups;phone_number;email_verified;username;password_hash\n\n\
             \"Öz, Anna\";anna@example.test;staff,night shift;+90 555 111 22 33;true;anna;$6$a$b",
        ] {
            let file = csv(text);
            assert_eq!(faults(&file), [""; 0]);
            let row = &file.rows[0];
            assert_eq!((row.line, row.name.as_str(), row.email.as_str()), (3, "Öz, Anna", "anna@example.test"));
            assert_eq!((row.groups.join("|").as_str(), row.username.as_str()), ("staff|night shift", "anna"));
            assert_eq!((row.phone_number.as_str(), row.email_verified), ("+90 555 111 22 33", true));
            assert_eq!(row.password_hash.expose(), "$6$a$b");
        }
    }

    #[test]
    fn a_first_line_may_name_the_delimiter() {
        for text in [
            "sep=;\r\nemail;name;groups\r\na@b.test;Anna;staff,night shift\r\n",
            "\u{feff}SEP=;\nemail;name;groups\na@b.test;Anna;staff,night shift",
            "\"sep=;\"\nemail;name;groups\na@b.test;Anna;staff,night shift",
            "sep=,\nemail,name,groups\na@b.test,Anna,\"staff,night shift\"",
            "sep=\t\nemail\tname\tgroups\na@b.test\tAnna\tstaff,night shift",
        ] {
            let file = csv(text);
            assert_eq!(faults(&file), [""; 0], "{text:?}");
            let row = &file.rows[0];
            assert_eq!(
                (row.line, row.name.as_str(), row.groups.join("|")),
                (3, "Anna", "staff|night shift".to_owned())
            );
        }
        for (text, told) in [
            ("sep=;\n", "1: the file is empty"),
            ("sep=;\nname;groups\n", "2: there is no column email"),
            ("sep=x\nemailxname\n", "1: column 1 has an unknown name"),
        ] {
            assert!(faults(&csv(text))[0].starts_with(told), "{text:?} {:?}", faults(&csv(text)));
        }
        // Only the first line names a delimiter.
        assert_eq!(csv("email;name\nsep=;\n").rows[0].email, "sep=");
    }

    #[test]
    fn faults_name_the_lines_of_the_file() {
        for end in ["\n", "\r\n"] {
            let text = ["email,name", "a@b.test,\"A\nB\"", "", "c@d.test", "e@f.test,E,x", "g@h.test,G"].join(end);
            let file = csv(&text);
            let lines: Vec<_> = file.rows.iter().map(|row| row.line).collect();
            assert_eq!(lines, [2, 7], "{end:?}");
            let messages = faults(&file);
            assert!(
                messages.len() == 2 && messages[0].starts_with("5: the row has 1 fields, and the header has 2"),
                "{messages:?}"
            );
            assert!(messages[1].starts_with("6: the row has 3 fields"), "{messages:?}");
        }
    }

    #[test]
    fn an_unknown_header_is_refused() {
        for (text, told) in [
            ("", "1: the file is empty"),
            ("email,name,password\na@b.test,A,x\n", "1: column 3 has an unknown name"),
            ("email,name,email\n", "1: column 3 is repeated"),
            ("name,groups\n", "1: there is no column email"),
            ("a@b.test,Anna\n", "1: column 1 has an unknown name"),
        ] {
            let told_by = faults(&csv(text));
            assert!(told_by[0].starts_with(told), "{told_by:?}");
            assert!(!told_by.join("").contains("b.test"));
        }
    }

    #[test]
    fn an_unterminated_quote_is_an_error() {
        assert_eq!(csv("email,name\na@b.test,\"Anna\nc@d.test,Ben\n").rows[0].name, "Anna\nc@d.test,Ben");
        assert_eq!(faults(&csv("email,name\n\"a@b.test,Anna\nc@d.test,Ben\n")).len(), 1);
        assert_eq!(
            faults(&csv("email,name,email_verified\na@b.test,Anna,yes\n")),
            ["2: email_verified: write true or false"]
        );
    }
}
