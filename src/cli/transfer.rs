//! `sealgate export` and `sealgate import`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use super::restored_keys;
use crate::admin::{self, ExportError};
use crate::clock::{Clock, SystemClock};
use crate::config::SledConfig;
use crate::store::engine::Engine;
use crate::store::sled::{NewStore, Options, SledEngine};
use crate::store::{Store, StoreError};

/// What is exported, and where to.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// A new file, or - for standard output
    #[arg(long, value_name = "FILE|-")]
    to: PathBuf,
    /// Export this backup instead of the store: a store that is served cannot be exported itself
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,
}

/// What is imported.
#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// The file that `export` wrote
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The issuer that the export was made under, if it is not the configuration's
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The SHA-256 of the whole file, as `sha256sum` prints it: any other file is refused
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    sha256: Option<String>,
    /// The export is not from just now: end what may have ended since, as `restore` does
    #[arg(long)]
    old: bool,
}

pub(super) fn export(arguments: &ExportArguments, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let store = access.files()?;
    if arguments.backup.is_none() {
        access.refuse_beside_server().map_err(|failure| served(failure, access))?;
    }
    let settings = SledConfig { path: existing(arguments.backup.as_ref().unwrap_or(&store.path))?, ..store.clone() };
    if arguments.to == Path::new("-") {
        write(access, &settings, &mut BufWriter::new(io::stdout())).map_err(CommandFailure::line)?;
        return Ok(());
    }
    let to = &arguments.to;
    let named = |error: ExportError| CommandFailure::line(format_args!("{}: {error}", to.display()));
    // People's names and the hashes of their passwords stand in it.
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(|error| named(error.into()))?;
    let mut file = BufWriter::new(file);
    let written = write(access, &settings, &mut file);
    let written = written.and_then(|records| {
        file.get_ref().sync_all()?;
        Ok(records)
    });
    if written.is_err() {
        // Made above; half of an export is of no use.
        let _ = fs::remove_file(to);
    }
    let records = written.map_err(named)?;
    output.result(&json!({ "file": to, "records": records }), || format!("{}: {records} records\n", to.display()))
}

/// A store that is there: to export one that is not would make an empty one.
fn existing(store: &Path) -> Result<PathBuf, CommandFailure> {
    if store.join("db").is_file() {
        return Ok(store.to_owned());
    }
    Err(CommandFailure::line(format_args!("{} holds no store", store.display())))
}

fn served(failure: CommandFailure, access: &StoreAccess) -> CommandFailure {
    match failure {
        CommandFailure::Failed(mut lines) => {
            let path = access.config().owned_place().display();
            lines.push(format!("or make a backup of {path} and export that: sealgate export --backup DIR"));
            CommandFailure::Failed(lines)
        }
        other => other,
    }
}

fn write(access: &StoreAccess, settings: &SledConfig, file: &mut (impl Write + Send)) -> Result<usize, ExportError> {
    // A backup may lie anywhere, and is only read.
    let options = Options { allow_volatile: true, ..Options::default() };
    let engine = SledEngine::open_with(settings, options, Arc::new(())).map_err(io::Error::other)?;
    access.block_on(async {
        let store = Store::open_for_export(Arc::new(engine)).await?;
        admin::export(&store, access.config().issuer.as_str(), SystemClock.now(), file).await
    })
}

pub(super) fn import(arguments: &ImportArguments, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let files = access.files()?;
    access.refuse_beside_server()?;
    let from = &arguments.from;
    let named = |error: ExportError| match error {
        ExportError::Store(StoreError::Broken(refused)) => {
            CommandFailure::line(format_args!("{}: {refused}; nothing was imported", from.display()))
        }
        error => CommandFailure::line(format_args!("{}: {error}", from.display())),
    };
    let file = File::open(from).map_err(|error| named(error.into()))?;
    let mut file = BufReader::new(Hashing { file, digest: Sha256::new() });
    let new = NewStore::begin(files).map_err(CommandFailure::line)?;
    let options = Options { discard: true, ..Options::default() };
    let engine = Arc::new(SledEngine::open_with(new.settings(), options, Arc::new(())).map_err(CommandFailure::line)?);
    let instance = arguments.issuer.as_deref().unwrap_or(access.config().issuer.as_str());
    let imported = access.block_on(async {
        let store = Store::open(Arc::clone(&engine) as _, usize::MAX).await?;
        let records = admin::import(&store, instance, &mut file).await?;
        // An import reads to the file's end.
        let found = admin::hex(&file.get_ref().digest.clone().finalize());
        if arguments.sha256.as_ref().is_some_and(|meant| *meant != found) {
            return Err(ExportError::OtherFile { found });
        }
        if arguments.old {
            store.take_back_after_restore(SystemClock.now()).await?;
        }
        Ok((records, restored_keys::settle(&store, &access.config().hsm, SystemClock.now()).await?))
    });
    engine.close();
    drop(engine);
    let (records, keys) = imported.map_err(named)?;
    new.finish().map_err(CommandFailure::line)?;
    let store = &files.path;
    let result = json!({ "directory": store, "records": records, "keys": keys.keys, "notices": keys.lines });
    output.result(&result, || format!("{}: {records} records\n", store.display()) + &restored_keys::said(&keys))
}

/// A file whose bytes are hashed as they are read.
struct Hashing {
    file: File,
    digest: Sha256,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.digest.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// A SHA-256 in hexadecimal digits.
fn digest(text: &str) -> Result<String, &'static str> {
    let sound = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if sound { Ok(text.to_ascii_lowercase()) } else { Err("a SHA-256 has 64 hexadecimal digits") }
}
