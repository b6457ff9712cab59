//! `sealgate export` and `sealgate import`.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use clap::Args;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::access::StoreAccess;
use crate::cli::backup;
use crate::cli::backup::KeysReport;
use crate::cli::failure::CommandFailure;
use crate::cli::output::Output;
use sealgate_admin as admin;
use sealgate_admin::ExportError;
use sealgate_config::{SledConfig, StoreConfig};
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{NewPostgresStore, PostgresSettings, snapshot};
use sealgate_store::sled::{NewStore, Options, SledEngine};
use sealgate_store::{Store, StoreError};
use sealgate_system::clock::{Clock, SystemClock};

/// Source and destination of an export.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// New file, or - for standard output
    #[arg(long, value_name = "FILE|-")]
    to: PathBuf,
    /// Export this backup instead of the store; the sled store of a running server cannot be exported
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,
}

/// Source of an import.
#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// File that `export` wrote
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Issuer of the export, if it differs from the configuration
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Expected SHA-256 of the file, as `sha256sum` prints it
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    sha256: Option<String>,
    /// The export is not recent: end sessions and grants as `restore` does
    #[arg(long)]
    old: bool,
}

/// Store to export.
enum Source {
    Files(SledConfig),
    Database(PostgresSettings),
}

impl Source {
    fn from_arguments(arguments: &ExportArguments, access: &StoreAccess) -> Result<Self, CommandFailure> {
        if let (None, StoreConfig::Postgres(settings)) = (&arguments.backup, &access.config().store) {
            // An export from PostgreSQL is possible while servers run, because it reads one
            // snapshot.
            return PostgresSettings::from_config(settings, None).map(Self::Database).map_err(CommandFailure::line);
        }
        let store = access.files()?;
        if arguments.backup.is_none() {
            access.refuse_beside_server().map_err(served)?;
        }
        let path = existing(arguments.backup.as_ref().unwrap_or(&store.path))?;
        Ok(Self::Files(SledConfig { path, ..store.clone() }))
    }

    async fn engine(&self) -> io::Result<Arc<dyn Engine>> {
        match self {
            Self::Files(settings) => {
                // A backup is only read, so it may be on a volatile file system.
                let options = Options { allow_volatile: true, ..Options::default() };
                let engine = SledEngine::open_with(settings, options, Arc::new(())).map_err(io::Error::other)?;
                Ok(Arc::new(engine))
            }
            Self::Database(settings) => snapshot(settings).await.map_err(io::Error::other),
        }
    }
}

pub(super) fn export(arguments: &ExportArguments, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let source = Source::from_arguments(arguments, access)?;
    if arguments.to == Path::new("-") {
        write(access, &source, &mut BufWriter::new(io::stdout())).map_err(CommandFailure::line)?;
        return Ok(());
    }
    let to = &arguments.to;
    let file_failure = |error: ExportError| CommandFailure::line(format_args!("{}: {error}", to.display()));
    // Only the owner may read the file, because it contains users' names and password hashes.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(|error| file_failure(error.into()))?;
    let mut file = BufWriter::new(file);
    let written = write(access, &source, &mut file);
    let written = written.and_then(|records| {
        file.get_ref().sync_all()?;
        Ok(records)
    });
    if written.is_err() {
        // Remove the file, because a partial export is useless. This function has created the file.
        let _ = fs::remove_file(to);
    }
    let records = written.map_err(file_failure)?;
    output.result(&json!({ "file": to, "records": records }), || {
        format!("Exported {records} records to {}\n", to.display())
    })
}

/// Returns the path of the store, if the store exists. To open a missing store would create the
/// store.
pub(super) fn existing(store: &Path) -> Result<PathBuf, CommandFailure> {
    if store.join("db").is_file() {
        return Ok(store.to_owned());
    }
    Err(CommandFailure::line(format_args!("{} holds no store", store.display())))
}

fn served(failure: CommandFailure) -> CommandFailure {
    match failure {
        CommandFailure::Failed(mut lines) => {
            lines.push("or make a backup and export it: sealgate export --backup DIR".to_owned());
            CommandFailure::Failed(lines)
        }
        other => other,
    }
}

fn write(access: &StoreAccess, source: &Source, file: &mut (impl Write + Send)) -> Result<usize, ExportError> {
    access.block_on(async {
        let store = Store::open_for_export(source.engine().await?).await?;
        admin::export(&store, access.config().issuer.as_str(), SystemClock.now(), file).await
    })
}

pub(super) fn import(arguments: &ImportArguments, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    access.refuse_beside_server()?;
    let from = &arguments.from;
    let file_failure = |error: ExportError| match error {
        ExportError::Store(StoreError::Broken(refused)) => {
            CommandFailure::line(format_args!("{}: {refused}; nothing was imported", from.display()))
        }
        ExportError::Store(error) => {
            CommandFailure::line(format_args!("{}: {error}; nothing was imported", from.display()))
        }
        error => CommandFailure::line(format_args!("{}: {error}", from.display())),
    };
    let file = File::open(from).map_err(|error| file_failure(error.into()))?;
    let file = BufReader::new(Hashing { file, digest: Sha256::new() });
    let store = &access.config().store;
    let (records, keys) = access.block_on(async {
        let target = ImportTarget::begin(store).await?;
        let imported = fill(target.engine(), file, arguments, access).await.map_err(file_failure)?;
        target.finish().await?;
        Ok::<_, CommandFailure>(imported)
    })?;
    let (directory, place) = match directory(store) {
        Some(path) => (json!(path), path.display().to_string()),
        None => (Value::Null, "the database".to_owned()),
    };
    let result = json!({ "directory": directory, "records": records, "keys": keys.keys, "notices": keys.lines });
    output.result(&result, || format!("{place}: {records} records\n") + &backup::keys_text(&keys))
}

/// Writes the imported records to a store, and compares the store's keys with the token.
async fn fill(
    engine: Arc<dyn Engine>,
    mut file: BufReader<Hashing>,
    arguments: &ImportArguments,
    access: &StoreAccess,
) -> Result<(usize, KeysReport), ExportError> {
    let config = access.config();
    let store = Store::open(engine, usize::MAX).await?;
    let instance = arguments.issuer.as_deref().unwrap_or(config.issuer.as_str());
    let records = admin::import(&store, instance, &mut file).await?;
    // The import has read the file to its end, so the digest is complete.
    let digest = admin::hex(&file.get_ref().digest.clone().finalize());
    if arguments.sha256.as_ref().is_some_and(|expected| *expected != digest) {
        return Err(ExportError::OtherFile { sha256: digest });
    }
    if arguments.old {
        store.take_back_after_restore(SystemClock.now()).await?;
    }
    Ok((records, backup::compare_keys(&store, &config.hsm, SystemClock.now()).await?))
}

/// File that hashes its bytes while they are read.
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

/// Parses a SHA-256 in hexadecimal digits.
fn digest(text: &str) -> Result<String, &'static str> {
    let is_valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_valid { Ok(text.to_ascii_lowercase()) } else { Err("a SHA-256 has 64 hexadecimal digits") }
}

/// Store under construction. It is discarded if it is dropped before [`ImportTarget::finish`].
pub(super) enum ImportTarget {
    // The order of the fields matters: the engine closes before its files are removed.
    Files { engine: Arc<SledEngine>, new: NewStore },
    Database(NewPostgresStore),
}

impl ImportTarget {
    /// Creates an empty store, unless one exists.
    pub(super) async fn begin(store: &StoreConfig) -> Result<Self, CommandFailure> {
        match store {
            StoreConfig::Sled(files) => {
                let new = NewStore::begin(files).map_err(CommandFailure::line)?;
                let options = Options { discard: true, ..Options::default() };
                let engine = SledEngine::open_with(new.settings(), options, Arc::new(()));
                Ok(Self::Files { engine: Arc::new(engine.map_err(CommandFailure::line)?), new })
            }
            StoreConfig::Postgres(settings) => {
                let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
                NewPostgresStore::begin(&settings).await.map(Self::Database).map_err(CommandFailure::line)
            }
        }
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Files { engine, .. } => Arc::clone(engine) as _,
            Self::Database(new) => new.engine(),
        }
    }

    /// Moves the complete store to its final location.
    pub(super) async fn finish(self) -> Result<(), CommandFailure> {
        match self {
            Self::Files { engine, new } => {
                engine.close();
                drop(engine);
                new.finish().map_err(CommandFailure::line)
            }
            Self::Database(new) => new.finish().await.map_err(CommandFailure::line),
        }
    }
}

/// Returns the directory of a file-based store.
pub(super) fn directory(store: &StoreConfig) -> Option<&Path> {
    match store {
        StoreConfig::Sled(files) => Some(&files.path),
        StoreConfig::Postgres(_) => None,
    }
}
