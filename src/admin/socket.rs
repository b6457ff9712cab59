//! Admin socket on which a running server accepts commands: one JSON line in, one JSON line out,
//! per connection.
//!
//! Only root and the server's own user may connect. Even these peers cannot block the server: the
//! length of the line, every wait and the number of connections are bounded.
//!
//! Both sides check the user of their peer. The check protects against wrong file permissions, and
//! against an attacker who has created a socket at this path to receive passwords.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answer::{Answer, ReloadAnswer, RunningServer, ServerWork, WaitingLogouts};
use crate::command::Command;
use crate::context::{CommandContext, CommandError};
use crate::execute::execute;
use crate::wire;
use crate::wire::Reply;
use sealgate_core::reload::Reload;
use sealgate_core::state::Sealgate;
use sealgate_domain::time::UnixTime;
use sealgate_system::metrics::Measurements;

/// Maximum number of connections. Further connections wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16;
/// Timeout for the check at startup whether another server listens on an existing socket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time that commands in progress may take after a stop was requested.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);
/// Wait before the next accept if the kernel has no resources for another connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Reason why the socket cannot be bound: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The directory does not exist.
    #[error("admin.socket: the directory {} does not exist; create it for the server's user, or write another path", .0.display())]
    NoDirectory(PathBuf),
    #[error("admin.socket: another server answers on {}; stop it, or write another path", .0.display())]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("admin.socket: {} exists and is not a socket; write another path", .0.display())]
    NotASocket(PathBuf),
    /// No thread can be started to check for another server.
    #[error(
        "admin.socket: cannot start a thread to check for another server on {}: {error}; raise TasksMax= or \
         LimitNPROC= of the unit (ulimit -u)",
        path.display()
    )]
    NoThread { path: PathBuf, error: io::Error },
    #[error("admin.socket: cannot listen on {}: {error}", path.display())]
    Kernel { path: PathBuf, error: io::Error },
}

/// Bound socket. Commands are answered only while [`serve`] runs.
#[derive(Debug)]
pub struct AdminSocket {
    listener: StdListener,
    path: PathBuf,
}

/// Binds the socket. Replaces a socket file that a killed server has left behind.
pub fn bind(path: &Path) -> Result<AdminSocket, BindError> {
    let kernel = |error| BindError::Kernel { path: path.to_owned(), error };
    make_room(path)?;
    let listener = StdListener::bind(path).map_err(kernel)?;
    // The check of the peer's user also refuses connections that were made before this call.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(kernel)?;
    listener.set_nonblocking(true).map_err(kernel)?;
    Ok(AdminSocket { listener, path: path.to_owned() })
}

fn make_room(path: &Path) -> Result<(), BindError> {
    let kernel = |error| BindError::Kernel { path: path.to_owned(), error };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.exists() {
        return Err(BindError::NoDirectory(directory.to_owned()));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(kernel(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(BindError::NotASocket(path.to_owned())),
        Ok(_) if is_live(path)? => Err(BindError::InUse(path.to_owned())),
        Ok(_) => fs::remove_file(path).map_err(kernel),
    }
}

/// Returns whether a server listens on a socket.
///
/// Connecting blocks while a listener's queue is full, so a timeout means that a server listens.
fn is_live(path: &Path) -> Result<bool, BindError> {
    let (sender, receiver) = mpsc::channel();
    let owned = path.to_owned();
    // The receiver may have timed out.
    let asking = thread::Builder::new().spawn(move || drop(sender.send(StdStream::connect(owned))));
    asking.map_err(|error| BindError::NoThread { path: path.to_owned(), error })?;
    match receiver.recv_timeout(CONNECT_TIMEOUT) {
        Ok(Ok(_)) | Err(_) => Ok(true),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Ok(Err(error)) => Err(BindError::Kernel { path: path.to_owned(), error }),
    }
}

/// Executes commands on a running server until `stop` is true, then waits for the running commands.
/// Removes the socket.
pub async fn serve(socket: AdminSocket, sealgate: Arc<Sealgate>, reload: Arc<dyn Reload>, stop: watch::Receiver<bool>) {
    let started_at = sealgate.clock.now();
    let execute_command = move |command| {
        let (sealgate, reload) = (Arc::clone(&sealgate), Arc::clone(&reload));
        async move {
            match command {
                Command::Reload => {
                    let changed =
                        reload.reload(None).await.map_err(|fault| CommandError::Invalid(fault.into_lines()))?;
                    Ok(Answer::Reloaded(ReloadAnswer { config: reload.file().to_owned(), changed }))
                }
                command => {
                    let sealgate = sealgate.current();
                    let mut answer = execute(&CommandContext::new(&sealgate), command).await?;
                    if let Answer::Status(status) = &mut answer {
                        let server = &sealgate.config.server;
                        status.server = Some(RunningServer {
                            started_at,
                            listen: server.listen.iter().chain(&server.redirect_listen).copied().collect(),
                            config: reload.file().to_owned(),
                            config_loaded_at: UnixTime::from_seconds(sealgate.metrics.configured_at()),
                            work: Some(work(&sealgate)),
                        });
                    }
                    Ok(answer)
                }
            }
        }
    };
    serve_with(socket, execute_command, stop).await;
}

fn work(sealgate: &Sealgate) -> ServerWork {
    let Measurements { signatures, signatures_failed, mean_signature, mean_commit, reload_refused } =
        sealgate.metrics.measurements();
    let milliseconds = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1000.0;
    let (waiting, oldest_seconds) = sealgate.metrics.last_client_logout_queue();
    ServerWork {
        process_id: std::process::id(),
        token_ready: sealgate.issuer.signer().ready(),
        signatures,
        signatures_failed,
        signature_milliseconds: milliseconds(mean_signature),
        commit_milliseconds: milliseconds(mean_commit),
        reload_refused,
        client_logouts: (waiting > 0).then_some(WaitingLogouts { waiting, oldest_seconds }),
    }
}

/// Executes commands like [`serve`], with any executor.
pub async fn serve_with<E, F>(socket: AdminSocket, execute: E, mut stop: watch::Receiver<bool>)
where
    E: Fn(Command) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Answer, CommandError>> + Send + 'static,
{
    let listener = match UnixListener::from_std(socket.listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot use the admin socket; commands cannot reach this server");
            return;
        }
    };
    let execute = Arc::new(execute);
    let mut connections = JoinSet::new();
    {
        // A dropped sender also means a stop.
        let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve_connection(stream, Arc::clone(&execute)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection to the admin socket failed");
                        tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                    }
                },
            }
        }
    }
    // Remove the file while the socket still listens. While it listens, no other server can take
    // over the path, so the file belongs to this server.
    if let Err(error) = fs::remove_file(&socket.path) {
        tracing::warn!(%error, path = %socket.path.display(), "cannot remove the admin socket");
    }
    drop(listener);
    let ended = timeout(STOP_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!("a command did not complete before the server stopped");
    }
}

async fn serve_connection<E, F>(mut stream: UnixStream, execute: Arc<E>)
where
    E: Fn(Command) -> F,
    F: Future<Output = Result<Answer, CommandError>>,
{
    if !may_command(&stream) {
        tracing::warn!("refused a command of another user");
        let refusal = "only root and the server's user may send commands".to_owned();
        return answer(&mut stream, &Reply::Errors(vec![refusal])).await;
    }
    let read = timeout(wire::LINE_TIMEOUT, wire::read_line(&mut stream, wire::MAX_COMMAND_LENGTH)).await;
    // The peer has disconnected, or has sent too much without a line break. No answer is possible.
    let Ok(Ok(Some(line))) = read else { return };
    let reply = match serde_json::from_slice::<Command>(&line) {
        Ok(command) => execute_in_time(execute(command)).await,
        // The parser's error could repeat a password.
        Err(_) => Reply::Errors(vec![format!(
            "the running server (version {}) does not know this command; restart it after an upgrade",
            env!("CARGO_PKG_VERSION")
        )]),
    };
    drop(line);
    answer(&mut stream, &reply).await;
}

async fn answer(stream: &mut UnixStream, reply: &Reply) {
    let Ok(line) = wire::line(reply) else { return };
    // If the peer has disconnected, it gets no answer. The effects of the command remain.
    let _ = timeout(wire::LINE_TIMEOUT, stream.write_all(&line)).await;
}

async fn execute_in_time(command: impl Future<Output = Result<Answer, CommandError>>) -> Reply {
    match timeout(wire::EXECUTION_TIMEOUT, command).await {
        Ok(Ok(answer)) => Reply::Answer(answer),
        Ok(Err(error)) => Reply::Errors(error.into_lines()),
        Err(_) => Reply::Errors(vec!["the server did not complete the command in time; try again".to_owned()]),
    }
}

/// Returns whether commands from this peer are accepted: root, or the user that the server runs as.
pub(super) fn may_command(stream: &UnixStream) -> bool {
    uid(stream).is_some_and(|peer| peer == 0 || peer == own_uid())
}

/// Returns whether this peer can be the server: root, the current user, or the owner of the store.
pub(super) fn may_serve(stream: &UnixStream, store: &Path) -> bool {
    let owner = fs::metadata(store).ok().map(|metadata| metadata.uid());
    uid(stream).is_some_and(|peer| peer == 0 || peer == own_uid() || Some(peer) == owner)
}

fn uid(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().map(|peer| peer.uid())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::sync::Notify;

    use super::*;
    use crate::wire::{AskError, ask};

    struct Running {
        directory: tempfile::TempDir,
        stop: watch::Sender<bool>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Running {
        fn start<F>(execute: impl Fn(Command) -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = Result<Answer, CommandError>> + Send + 'static,
        {
            let directory = tempfile::tempdir().unwrap();
            let socket = bind(&directory.path().join("s")).unwrap();
            let (stop, stopped) = watch::channel(false);
            let task = tokio::spawn(serve_with(socket, execute, stopped));
            Self { directory, stop, task }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("s")
        }
    }

    async fn fine(_: Command) -> Result<Answer, CommandError> {
        Ok(Answer::Reloaded(ReloadAnswer { config: "/sealgate.toml".into(), changed: Vec::new() }))
    }

    async fn exchange(path: &Path, sent: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(path).await.unwrap();
        // The server may close before it has read everything.
        let _ = stream.write_all(sent).await;
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        received
    }

    #[tokio::test]
    async fn a_command_is_answered_and_a_stop_removes_the_socket() {
        let running = Running::start(fine);
        let answer = ask(&running.path(), running.directory.path(), &Command::Status).await.unwrap();
        assert_eq!(answer.members()["config"], "/sealgate.toml");
        assert_eq!(fs::metadata(running.path()).unwrap().permissions().mode() & 0o777, 0o600);
        running.stop.send(true).unwrap();
        running.task.await.unwrap();
        let gone = ask(&running.directory.path().join("s"), running.directory.path(), &Command::Status).await;
        assert!(matches!(gone, Err(AskError::NoServer)));
        assert!(!running.directory.path().join("s").exists());
    }

    #[tokio::test]
    async fn invalid_input_is_refused_without_repeating_it() {
        let running = Running::start(fine);
        let reply = exchange(&running.path(), b"{\"user\":{\"set_password\":\"hunter2hunter2\"}}\n").await;
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.contains("does not know this command") && !reply.contains("hunter2"), "{reply}");
        assert_eq!(exchange(&running.path(), &vec![b'x'; wire::MAX_COMMAND_LENGTH + 1]).await, b"");
        assert!(ask(&running.path(), running.directory.path(), &Command::Status).await.is_ok());
    }

    #[tokio::test]
    async fn a_running_command_completes_before_the_server_stops() {
        let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go_on));
        let running = Running::start(move |command| {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                tell.notify_one();
                wait.notified().await;
                fine(command).await
            }
        });
        let (path, store) = (running.path(), running.directory.path().to_owned());
        let asked = tokio::spawn(async move { ask(&path, &store, &Command::Status).await });
        begun.notified().await;
        running.stop.send(true).unwrap();
        go_on.notify_one();
        assert!(asked.await.unwrap().is_ok());
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_peers_are_disconnected_and_others_wait() {
        let running = Running::start(fine);
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            silent.push(UnixStream::connect(running.path()).await.unwrap());
        }
        let answer = ask(&running.path(), running.directory.path(), &Command::Status).await;
        assert!(answer.is_ok(), "{answer:?}");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(bind(&path).unwrap());
        assert!(path.exists());
        let live = bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(BindError::InUse(_))));
        drop(live);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(matches!(bind(&path), Err(BindError::NotASocket(_))));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("run");
        let error = bind(&missing.join("s")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("admin.socket: the directory {} does not exist;", missing.display())));
    }
}
