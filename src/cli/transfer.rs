//! `sealgate export` and `sealgate import`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::import_target::{self, ImportTarget};
use super::output::Output;
use super::restored_keys::{self, KeysReport};
use sealgate_admin as admin;
use sealgate_admin::ExportError;
use sealgate_config::{SledConfig, StoreConfig};
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{PostgresSettings, snapshot};
use sealgate_store::sled::{Options, SledEngine};
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
    fn of(arguments: &ExportArguments, access: &StoreAccess) -> Result<Self, CommandFailure> {
        if let (None, StoreConfig::Postgres(settings)) = (&arguments.backup, &access.config().store) {
            // Possible while servers run: the export reads one snapshot.
            return PostgresSettings::of(settings, None).map(Self::Database).map_err(CommandFailure::line);
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
                // A backup may be anywhere, and is only read.
                let options = Options { allow_volatile: true, ..Options::default() };
                let engine = SledEngine::open_with(settings, options, Arc::new(())).map_err(io::Error::other)?;
                Ok(Arc::new(engine))
            }
            Self::Database(settings) => snapshot(settings).await.map_err(io::Error::other),
        }
    }
}

pub(super) fn export(arguments: &ExportArguments, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let source = Source::of(arguments, access)?;
    if arguments.to == Path::new("-") {
        write(access, &source, &mut BufWriter::new(io::stdout())).map_err(CommandFailure::line)?;
        return Ok(());
    }
    let to = &arguments.to;
    let named = |error: ExportError| CommandFailure::line(format_args!("{}: {error}", to.display()));
    // The file contains users' names and password hashes.
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(|error| named(error.into()))?;
    let mut file = BufWriter::new(file);
    let written = write(access, &source, &mut file);
    let written = written.and_then(|records| {
        file.get_ref().sync_all()?;
        Ok(records)
    });
    if written.is_err() {
        // This function created the file; a partial export is useless.
        let _ = fs::remove_file(to);
    }
    let records = written.map_err(named)?;
    output.result(&json!({ "file": to, "records": records }), || {
        format!("Exported {records} records to {}\n", to.display())
    })
}

/// Returns the path of an existing store. Opening a missing one would create it.
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
    let named = |error: ExportError| match error {
        ExportError::Store(StoreError::Broken(refused)) => {
            CommandFailure::line(format_args!("{}: {refused}; nothing was imported", from.display()))
        }
        ExportError::Store(error) => {
            CommandFailure::line(format_args!("{}: {error}; nothing was imported", from.display()))
        }
        error => CommandFailure::line(format_args!("{}: {error}", from.display())),
    };
    let file = File::open(from).map_err(|error| named(error.into()))?;
    let file = BufReader::new(Hashing { file, digest: Sha256::new() });
    let store = &access.config().store;
    let (records, keys) = access.block_on(async {
        let target = ImportTarget::begin(store).await?;
        let imported = fill(target.engine(), file, arguments, access).await.map_err(named)?;
        target.finish().await?;
        Ok::<_, CommandFailure>(imported)
    })?;
    let (directory, place) = match import_target::directory(store) {
        Some(path) => (json!(path), path.display().to_string()),
        None => (Value::Null, "the database".to_owned()),
    };
    let result = json!({ "directory": directory, "records": records, "keys": keys.keys, "notices": keys.lines });
    output.result(&result, || format!("{place}: {records} records\n") + &restored_keys::said(&keys))
}

/// Writes everything that an import creates in a store.
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
    // The import has read the file to its end.
    let found = admin::hex(&file.get_ref().digest.clone().finalize());
    if arguments.sha256.as_ref().is_some_and(|meant| *meant != found) {
        return Err(ExportError::OtherFile { found });
    }
    if arguments.old {
        store.take_back_after_restore(SystemClock.now()).await?;
    }
    Ok((records, restored_keys::settle(&store, &config.hsm, SystemClock.now()).await?))
}

/// A file whose bytes are hashed while they are read.
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
    let sound = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if sound { Ok(text.to_ascii_lowercase()) } else { Err("a SHA-256 has 64 hexadecimal digits") }
}
