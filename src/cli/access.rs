//! Execution of commands: on the running server, or directly on the store. Only one process can
//! open a store.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::failure::CommandFailure;
use sealgate_admin as admin;
use sealgate_admin::answer::{KeysAnswer, ListPage};
use sealgate_admin::command::{Command, KeyCommand};
use sealgate_admin::{Answer, AskError, CommandContext, Mailing, NoSigner, OnThisThread};
use sealgate_config::{Config, SledConfig, StoreConfig};
use sealgate_core::audit::AuditLog;
use sealgate_domain::audit::Actor;
use sealgate_domain::client::Authority;
use sealgate_store::Store;
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{PostgresEngine, PostgresSettings};
use sealgate_store::sled::SledEngine;
use sealgate_system::clock::{OsEntropy, SystemClock};

/// Access to the data of one configuration: through its running server, or directly in its store.
pub(super) struct StoreAccess {
    config: Config,
    runtime: Runtime,
    /// Open store, if no server answered.
    store: Option<Store>,
}

impl StoreAccess {
    pub(super) fn open(config: Config) -> Result<Self, CommandFailure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
        Ok(Self { config, runtime, store: None })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn ask(&mut self, command: &Command) -> Result<Answer, CommandFailure> {
        let store = match self.store.take() {
            Some(store) => store,
            None => match self.connect(command) {
                Err(AskError::NoServer) => self.runtime.block_on(open_store(&self.config))?,
                Err(error) => return Err(refused(error)),
                Ok(answer) => return Ok(answer),
            },
        };
        let store = self.store.insert(store);
        self.runtime.block_on(execute_on(store, &self.config, command))
    }

    /// Returns the key schedule of the server, or of the store on disk.
    ///
    /// Creates and writes nothing. Without a server and a store, the schedule is empty.
    pub(super) fn key_times(&self) -> Result<KeysAnswer, CommandFailure> {
        let list = Command::Key(KeyCommand::List);
        let answer = match self.connect(&list) {
            Ok(answer) => answer,
            Err(AskError::NoServer) => self.block_on(async {
                match self.open_stopped_store().await? {
                    Some(store) => execute_on(&store, &self.config, &list).await,
                    None => Ok(Answer::Keys(KeysAnswer::default())),
                }
            })?,
            Err(error) => return Err(refused(error)),
        };
        match answer {
            Answer::Keys(keys) => Ok(keys),
            _ => Err(CommandFailure::other_answer()),
        }
    }

    pub(super) fn is_served(&self) -> bool {
        !matches!(self.connect(&Command::Status), Err(AskError::NoServer))
    }

    /// Opens the store of a stopped server for reading. `None` if the store does not exist yet.
    pub(super) async fn open_stopped_store(&self) -> Result<Option<Store>, CommandFailure> {
        let is_there = match &self.config.store {
            StoreConfig::Sled(settings) => settings.path.join("db").is_file(),
            StoreConfig::Postgres(_) => true,
        };
        if !is_there {
            return Ok(None);
        }
        let store = Store::open_for_export(engine(&self.config).await?).await.map_err(CommandFailure::line)?;
        Ok(Some(store.of_node(self.config.token_holder().as_ref())))
    }

    /// Returns the settings of a file-based store, for operations on its files.
    pub(super) fn files(&self) -> Result<&SledConfig, CommandFailure> {
        match &self.config.store {
            StoreConfig::Sled(settings) => Ok(settings),
            StoreConfig::Postgres(_) => Err(CommandFailure::line(
                "the store is in PostgreSQL (store.engine = \"postgres\"); use PostgreSQL's own tools, see \
                 docs/how-to/move-a-store.md",
            )),
        }
    }

    /// Executes a command whose answer is a page of a list.
    pub(super) fn ask_page(&mut self, command: &Command) -> Result<ListPage, CommandFailure> {
        match self.ask(command)? {
            Answer::Page(page) => Ok(page),
            _ => Err(CommandFailure::other_answer()),
        }
    }

    /// Executes a command on the server, never directly on the store.
    pub(super) fn ask_server(&self, command: &Command) -> Result<Answer, CommandFailure> {
        self.connect(command).map_err(|error| match error {
            AskError::NoServer => {
                CommandFailure::line(format_args!("no server answers on {}", self.config.admin.socket.display()))
            }
            error => refused(error),
        })
    }

    /// Returns an error if a server uses the store, or if this process runs as root and the store
    /// belongs to another user.
    pub(super) fn refuse_beside_server(&self) -> Result<(), CommandFailure> {
        match self.connect(&Command::Status) {
            Err(AskError::NoServer) => refuse_as_root(&self.config.store),
            _ => Err(CommandFailure::line(format_args!(
                "a server answers on {}; stop it first",
                self.config.admin.socket.display()
            ))),
        }
    }

    /// Opens the store, provided that no server with this configuration runs.
    pub(super) async fn open_store(&self) -> Result<Store, CommandFailure> {
        open_store(&self.config).await
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn connect(&self, command: &Command) -> Result<Answer, AskError> {
        self.runtime.block_on(admin::ask(&self.config.admin.socket, self.config.owned_place(), command))
    }
}

async fn execute_on(store: &Store, config: &Config, command: &Command) -> Result<Answer, CommandFailure> {
    let context = CommandContext {
        store,
        clock: &SystemClock,
        entropy: &OsEntropy,
        passwords: &OnThisThread,
        keys: &NoSigner,
        algorithms: &config.keys.algorithms,
        key_times: config.keys.times,
        keep_signed_in: config.sessions.keep_signed_in,
        trail: &AuditLog::new(&config.audit),
        issuer: config.issuer.as_str(),
        mailing: Mailing::NoServer,
        console: &config.console,
        apps: &config.apps,
        trusted_issuers: &config.trusted_issuers,
        config_file: config.file.as_deref(),
        rotate: config.keys.rotate,
        actor: Actor::Operator,
        authority: Authority::Operator,
        request: None,
    };
    admin::execute(&context, command.clone()).await.map_err(|error| CommandFailure::Failed(error.into_lines()))
}

fn refused(error: AskError) -> CommandFailure {
    match error {
        AskError::Refused(lines) => CommandFailure::Failed(lines),
        error => CommandFailure::line(error),
    }
}

async fn open_store(config: &Config) -> Result<Store, CommandFailure> {
    let store = Store::open(engine(config).await?, config.sessions.max_interactions).await;
    Ok(store.map_err(CommandFailure::line)?.of_node(config.token_holder().as_ref()))
}

async fn engine(config: &Config) -> Result<Arc<dyn Engine>, CommandFailure> {
    refuse_as_root(&config.store)?;
    let observer = Arc::new(());
    Ok(match &config.store {
        StoreConfig::Sled(settings) => {
            Arc::new(SledEngine::open(settings, observer).map_err(CommandFailure::line)?) as Arc<dyn Engine>
        }
        StoreConfig::Postgres(settings) => {
            let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
            Arc::new(PostgresEngine::open(&settings, observer).await.map_err(CommandFailure::line)?)
        }
    })
}

/// Refuses to run as root on another user's store, because the server could not open files that
/// root creates.
fn refuse_as_root(store: &StoreConfig) -> Result<(), CommandFailure> {
    let StoreConfig::Sled(SledConfig { path: store, .. }) = store else { return Ok(()) };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = store.ancestors().find_map(|path| fs::metadata(path).ok()).map_or(0, |metadata| metadata.uid());
    if owner == 0 {
        return Ok(());
    }
    Err(CommandFailure::line(format_args!(
        "the store {} belongs to the user with the ID {owner}; while no server runs, run this command as \
         that user (sudo -u '#{owner}' …)",
        store.display()
    )))
}
