//! Users in Apache's `htpasswd` format: a name and a hash per line.

use crate::users_file::{UserRow, UsersFile};
use sealgate_domain::line_fault::LineProblem;
use sealgate_domain::secret::Secret;

pub(super) fn read(text: &str, domain: Option<&str>, file: &mut UsersFile) {
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if !file.has_room(line) {
            return;
        }
        let Some((name, hash)) = text.split_once(':') else {
            file.fault(line, LineProblem::other("the line is not NAME:HASH; correct or remove the line"));
            continue;
        };
        // Lines of htdigest have three fields.
        if hash.contains(':') {
            file.fault(
                line,
                LineProblem::other("the line has more than two fields; htdigest files cannot be imported"),
            );
            continue;
        }
        let mut row = UserRow { name: name.to_owned(), password_hash: Secret::new(hash), ..UserRow::at(line) };
        if name.contains('@') {
            name.clone_into(&mut row.email);
        } else {
            name.clone_into(&mut row.username);
            if let Some(domain) = domain {
                row.email = format!("{name}@{domain}");
            }
        }
        file.rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::UsersFormat;
    use super::super::tests::{faults, read};

    #[test]
    fn a_name_becomes_username_and_address() {
        let file = read(
            UsersFormat::Htpasswd,
            "# people\r\nanna:$2y$05$x\r\n\r\nben@other.test:{SHA}x\nno colon\nc:realm:0cc\n",
        );
        let row = |at: usize| (file.rows[at].line, file.rows[at].username.as_str(), file.rows[at].email.as_str());
        assert_eq!((row(0), row(1)), ((2, "anna", "anna@example.test"), (4, "", "ben@other.test")));
        assert_eq!(file.rows[0].password_hash.expose(), "$2y$05$x");
        let messages = faults(&file);
        assert!(messages.len() == 2 && messages[0].starts_with("5: the line is not NAME:HASH"), "{messages:?}");
        assert!(messages[1].starts_with("6: the line has more than two fields"), "{messages:?}");
    }
}
