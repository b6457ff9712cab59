//! `sealgate user import` and `user export`: the files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;
use zeroize::Zeroizing;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::answer::{ListPage, Rows};
use crate::admin::command::{Command, ExportFormat, UserCommand};
use crate::admin::import_settings::Import;
use crate::admin::people_file::{self, MOST_BYTES, PeopleFormat};

/// Reads the file that an import names.
pub(super) fn read(import: &mut Import) -> Result<(), CommandFailure> {
    let source = &import.source;
    let is_htpasswd = source.format == PeopleFormat::Htpasswd;
    if is_htpasswd && source.email_domain.is_none() {
        return Err(CommandFailure::line(
            "htpasswd has no addresses, with which people sign in; give --email-domain example.org",
        ));
    }
    if !is_htpasswd && source.email_domain.is_some() {
        return Err(CommandFailure::line("--email-domain is for --format htpasswd; other files have addresses"));
    }
    let named = |why: &dyn std::fmt::Display| CommandFailure::line(format_args!("{}: {why}", source.file.display()));
    let bytes =
        if source.file == Path::new("-") { whole(io::stdin()) } else { File::open(&source.file).and_then(whole) };
    let bytes = bytes.map_err(|error| named(&error))?;
    if bytes.len() > MOST_BYTES {
        return Err(named(&format_args!("the file has more than {} MiB; split it", MOST_BYTES >> 20)));
    }
    import.file = people_file::read(&bytes, source);
    Ok(())
}

/// All of it, and a byte more than is taken where there is more.
fn whole(file: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes all people, page by page.
pub(super) fn export(to: &Path, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    if to == Path::new("-") {
        write(access, BufWriter::new(io::stdout().lock()))?;
        return Ok(());
    }
    let named = |error: io::Error| CommandFailure::line(format_args!("{}: {error}", to.display()));
    // Names, addresses and telephone numbers stand in it.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(named)?;
    let written = write(access, BufWriter::new(&file)).and_then(|people| {
        file.sync_all().map_err(named)?;
        Ok(people)
    });
    if written.is_err() {
        // Made above; some of the people are not all.
        let _ = fs::remove_file(to);
    }
    let people = written?;
    output.result(&json!({ "file": to, "people": people }), || format!("{}: {people} people\n", to.display()))
}

fn write(access: &mut StoreAccess, mut to: impl Write) -> Result<usize, CommandFailure> {
    let failed = |error: io::Error| CommandFailure::line(format_args!("the people cannot be written: {error}"));
    people_file::write_header(&mut to).map_err(failed)?;
    let (mut written, mut after) = (0, None);
    loop {
        let page = Command::User(UserCommand::Export { format: ExportFormat::Csv, to: "-".into(), after });
        let ListPage { rows: Rows::Users(users), next } = access.ask_page(&page)? else {
            return Err(CommandFailure::other_answer());
        };
        for user in &users {
            people_file::write_row(&mut to, user).map_err(failed)?;
        }
        written += users.len();
        after = next;
        if after.is_none() {
            to.flush().map_err(failed)?;
            return Ok(written);
        }
    }
}
