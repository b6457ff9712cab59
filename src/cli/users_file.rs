//! Files of `sealgate user import`, `user invite --from` and `user export`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;
use zeroize::Zeroizing;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use sealgate_admin::answer::{ListPage, Rows};
use sealgate_admin::command::{Command, ExportFormat, UserCommand};
use sealgate_admin::import::Import;
use sealgate_admin::users_file;
use sealgate_admin::users_file::{MAX_BYTES, MAX_INVITEE_BYTES, UsersFile, UsersFormat};

/// Reads the file that an import names.
pub(super) fn read(import: &mut Import) -> Result<(), CommandFailure> {
    let source = &import.source;
    if source.format != UsersFormat::Htpasswd && source.email_domain.is_some() {
        return Err(CommandFailure::line("--email-domain requires --format htpasswd; other formats contain addresses"));
    }
    import.file = users_file::read(&whole(&source.file, MAX_BYTES)?, source);
    Ok(())
}

/// Reads the file of users to invite.
pub(super) fn read_invitees(from: &Path) -> Result<UsersFile, CommandFailure> {
    Ok(users_file::read_invitees(&whole(from, MAX_INVITEE_BYTES)?))
}

/// Reads a whole file, or standard input.
fn whole(path: &Path, most: usize) -> Result<Zeroizing<Vec<u8>>, CommandFailure> {
    let file_failure = |why: &dyn std::fmt::Display| CommandFailure::line(format_args!("{}: {why}", path.display()));
    let mut bytes = Zeroizing::new(Vec::new());
    // Reads one byte more than is accepted, to detect longer files.
    let most_read = most as u64 + 1;
    let read = if path == Path::new("-") {
        io::stdin().take(most_read).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most_read).read_to_end(&mut bytes))
    };
    read.map_err(|error| file_failure(&error))?;
    if bytes.len() > most {
        return Err(file_failure(&format_args!("the file has more than {} MiB; split it", most >> 20)));
    }
    Ok(bytes)
}

/// Exports all users, page by page.
pub(super) fn export(to: &Path, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    if to == Path::new("-") {
        write(access, BufWriter::new(io::stdout().lock()))?;
        return Ok(());
    }
    let file_failure = |error: io::Error| CommandFailure::line(format_args!("{}: {error}", to.display()));
    // Only the owner may read the file, because it contains names, addresses and telephone numbers.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(file_failure)?;
    let written = write(access, BufWriter::new(&file)).and_then(|people| {
        file.sync_all().map_err(file_failure)?;
        Ok(people)
    });
    if written.is_err() {
        // Remove the file, because a partial export is useless. This function has created the file.
        let _ = fs::remove_file(to);
    }
    let people = written?;
    output.result(&json!({ "file": to, "people": people }), || format!("Exported {people} users to {}\n", to.display()))
}

fn write(access: &mut StoreAccess, mut to: impl Write) -> Result<usize, CommandFailure> {
    let failed = |error: io::Error| CommandFailure::line(format_args!("cannot write the users: {error}"));
    users_file::write_header(&mut to).map_err(failed)?;
    let (mut written, mut after) = (0, None);
    loop {
        let page = Command::User(UserCommand::Export { format: ExportFormat::Csv, to: "-".into(), after });
        let ListPage { rows: Rows::Users(users), next } = access.ask_page(&page)? else {
            return Err(CommandFailure::other_answer());
        };
        for user in &users {
            users_file::write_row(&mut to, user).map_err(failed)?;
        }
        written += users.len();
        after = next;
        if after.is_none() {
            to.flush().map_err(failed)?;
            return Ok(written);
        }
    }
}
