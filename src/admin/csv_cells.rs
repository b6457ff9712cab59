//! Fields of a CSV file that a spreadsheet does not evaluate (OWASP, "CSV Injection").
//!
//! A file has commas as separators. A spreadsheet in a locale with decimal commas splits its lines at
//! semicolons instead, and others split them at tabs. So a formula may begin after any of these
//! characters, also in the middle of a field. An apostrophe before it makes it a text.

use std::borrow::Cow;
use std::io;
use std::io::Write;

/// Writes a row of quoted fields, in which no formula begins.
pub(crate) fn write_fields<'f>(to: &mut impl Write, fields: impl Iterator<Item = Cow<'f, str>>) -> io::Result<()> {
    for (number, field) in fields.enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(to, "{comma}\"{}\"", guarded(&field).replace('"', "\"\""))?;
    }
    to.write_all(b"\r\n")
}

/// Adds an apostrophe wherever a formula may begin. [`unguarded`] removes it.
///
/// Apostrophes that are already there get one more, so that the two functions are inverse.
fn guarded(field: &str) -> Cow<'_, str> {
    let (mut guarded, mut copied) = (String::new(), 0);
    for at in cell_starts(field).filter(|at| is_guardable(field, *at)) {
        guarded.push_str(&field[copied..at]);
        guarded.push('\'');
        copied = at;
    }
    if guarded.is_empty() { Cow::Borrowed(field) } else { Cow::Owned(guarded + &field[copied..]) }
}

/// Removes the apostrophes that [`guarded`] has added.
pub(crate) fn unguarded(field: &str) -> Cow<'_, str> {
    let (mut unguarded, mut copied) = (String::new(), 0);
    for at in cell_starts(field).filter(|at| field[*at..].starts_with('\'') && is_guardable(field, *at)) {
        unguarded.push_str(&field[copied..at]);
        copied = at + 1;
    }
    if copied == 0 { Cow::Borrowed(field) } else { Cow::Owned(unguarded + &field[copied..]) }
}

/// Returns the positions at which the content of a cell may begin: at the start of the field and after
/// each separator, with any quotation marks and spaces in between, which a spreadsheet may remove.
fn cell_starts(field: &str) -> impl Iterator<Item = usize> {
    let mut is_start = true;
    field.char_indices().filter_map(move |(at, char)| {
        let was_start = is_start;
        is_start = matches!(char, ';' | '\t' | '\r' | '\n') || (was_start && is_skipped(char));
        was_start.then_some(at)
    })
}

fn is_skipped(char: char) -> bool {
    char == '"' || char.is_whitespace()
}

/// Returns whether a formula begins at this position, or apostrophes before a formula.
fn is_guardable(field: &str, at: usize) -> bool {
    let begins_formula = |char| matches!(char, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    // Some programs remove a control character at the start of a field.
    let begins_field = |char| at == 0 && matches!(char, '\t' | '\r' | '\n');
    field[at..].trim_start_matches('\'').starts_with(|char: char| begins_formula(char) || begins_field(char))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(fields: &[&str]) -> String {
        let mut row = Vec::new();
        write_fields(&mut row, fields.iter().map(|field| Cow::Borrowed(*field))).unwrap();
        String::from_utf8(row).unwrap()
    }

    #[test]
    fn csv_fields_contain_no_formulas_and_no_row_ends() {
        assert_eq!(row(&["a", "", "say \"hi\", you", "x\r\ny"]), "\"a\",\"\",\"say \"\"hi\"\", you\",\"x\r\ny\"\r\n");
        assert_eq!(
            row(&["=1+1", "+1", "-1", "@a", "\t=1", "\r=1"]),
            "\"'=1+1\",\"'+1\",\"'-1\",\"'@a\",\"'\t'=1\",\"'\r'=1\"\r\n"
        );
        assert_eq!(
            row(&["x;=1;y", "x\t@a", "x; \"=1&\"", "'=1", "x;''=1", "a-b;c", "x;－1"]),
            "\"x;'=1;y\",\"x\t'@a\",\"x; \"\"'=1&\"\"\",\"''=1\",\"x;'''=1\",\"a-b;c\",\"x;'－1\"\r\n"
        );
    }

    fn fields() -> impl Strategy<Value = Vec<String>> {
        let piece = proptest::sample::select(vec![
            "=", "+", "-", "@", "＝", "'", "\"", ";", ",", "\t", "\r", "\n", " ", "\u{a0}", "a", "ş", "1",
        ]);
        let field = proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
        proptest::collection::vec(field, 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn a_guarded_field_is_restored(fields in fields()) {
            for field in &fields {
                let guarded = guarded(field);
                prop_assert_eq!(unguarded(&guarded), field.as_str());
            }
        }

        /// Splits at each separator, whether it is in quotation marks or not.
        #[test]
        fn no_cell_begins_a_formula_whatever_separates_them(fields in fields()) {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            for cell in row(&fields).split([';', '\t', '\r', '\n']) {
                let content = cell.trim_start_matches(is_skipped);
                prop_assert!(!content.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']), "{:?}", cell);
            }
        }
    }
}
