//! TCP relay in front of a server that can discard or hold the bytes that it forwards.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Handling of bytes on the connections that were open when it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Carry,
    /// Discards the server's answers.
    SwallowAnswers,
    /// Holds the client's bytes until the next [`Manner::Carry`].
    HoldQuestions,
}

struct Shared {
    manner: watch::Sender<Manner>,
    /// Closes the connections between client and relay.
    cut: watch::Sender<()>,
    /// Number of bytes that were discarded or held.
    stopped: AtomicUsize,
    /// Whether new connections are forwarded regardless of the manner.
    new_ones_pass: AtomicBool,
    always_carry: watch::Sender<Manner>,
    refuses: AtomicBool,
    connected: AtomicUsize,
    /// Connections that the server has closed, numbered in the order in which they were opened.
    ended: Mutex<BTreeSet<usize>>,
}

pub(crate) struct Relay {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl Relay {
    /// Starts a relay that delays each answer, like a network with this latency.
    pub(crate) async fn start_far(server: u16, delay: Duration) -> Self {
        Self::start_with(server, Some(delay)).await
    }

    pub(crate) async fn start(server: u16) -> Self {
        Self::start_with(server, None).await
    }

    async fn start_with(server: u16, delay: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            manner: watch::Sender::new(Manner::Carry),
            cut: watch::Sender::new(()),
            stopped: AtomicUsize::new(0),
            new_ones_pass: AtomicBool::new(false),
            always_carry: watch::Sender::new(Manner::Carry),
            refuses: AtomicBool::new(false),
            connected: AtomicUsize::new(0),
            ended: Mutex::default(),
        });
        let relay = Self { port, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let manner = if shared.new_ones_pass.load(Ordering::SeqCst) {
                    shared.always_carry.subscribe()
                } else {
                    shared.manner.subscribe()
                };
                let number = shared.connected.fetch_add(1, Ordering::SeqCst);
                if let Some(delay) = delay {
                    tokio::spawn(carry_late(client, server, delay));
                } else {
                    tokio::spawn(carry(number, client, server, manner, Arc::clone(&shared)));
                }
            }
        });
        relay
    }

    pub(crate) fn set(&self, manner: Manner) {
        self.shared.new_ones_pass.store(manner != Manner::Carry, Ordering::SeqCst);
        self.shared.stopped.store(0, Ordering::SeqCst);
        self.shared.manner.send_replace(manner);
    }

    /// Sets whether new connections are closed at once.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Returns the number of bytes discarded or held since the manner was set.
    pub(crate) fn stopped(&self) -> usize {
        self.shared.stopped.load(Ordering::SeqCst)
    }

    /// Returns the number of connections opened since startup.
    pub(crate) fn connected(&self) -> usize {
        self.shared.connected.load(Ordering::SeqCst)
    }

    /// Returns whether the server has closed the first `connections` connections.
    pub(crate) fn has_ended(&self, connections: usize) -> bool {
        let ended = self.shared.ended.lock().unwrap();
        (0..connections).all(|number| ended.contains(&number))
    }

    /// Closes the current connections between clients and relay. Connections to the server stay
    /// open.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_replace(());
    }
}

/// Forwards everything and delays each answer. Delayed answers do not wait for one another.
async fn carry_late(client: TcpStream, server: TcpStream, delay: Duration) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (line, mut arriving) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let questions = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let answers = tokio::spawn(async move {
        while let Some((due, bytes)) = arriving.recv().await {
            tokio::time::sleep_until(due).await;
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from_server.read(&mut buffer).await {
        if read == 0 || line.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
            break;
        }
    }
    drop(line);
    let _ = answers.await;
    questions.abort();
}

async fn carry(
    number: usize,
    client: TcpStream,
    server: TcpStream,
    manner: watch::Receiver<Manner>,
    shared: Arc<Shared>,
) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let questions = tokio::spawn(questions(from_client, to_server, manner.clone(), Arc::clone(&shared)));
    answers(from_server, to_client, manner, &shared).await;
    shared.ended.lock().unwrap().insert(number);
    questions.abort();
}

async fn questions(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    mut manner: watch::Receiver<Manner>,
    shared: Arc<Shared>,
) {
    let (mut buffer, mut held) = (vec![0; 1 << 16], Vec::new());
    let mut is_open = true;
    loop {
        tokio::select! {
            read = client.read(&mut buffer), if is_open => match read {
                Ok(read) if read > 0 && *manner.borrow() == Manner::HoldQuestions => {
                    held.extend_from_slice(&buffer[..read]);
                    shared.stopped.fetch_add(read, Ordering::SeqCst);
                }
                Ok(read) if read > 0 => {
                    if server.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
                // Held bytes are forwarded even if the client has closed the connection.
                _ if held.is_empty() => return,
                _ => is_open = false,
            },
            Ok(()) = manner.changed() => {
                let carries = *manner.borrow_and_update() == Manner::Carry;
                if carries && (server.write_all(&std::mem::take(&mut held)).await.is_err() || !is_open) {
                    return;
                }
            }
        }
    }
}

async fn answers(mut server: OwnedReadHalf, client: OwnedWriteHalf, manner: watch::Receiver<Manner>, shared: &Shared) {
    let mut buffer = vec![0; 1 << 16];
    let (mut client, mut cut) = (Some(client), shared.cut.subscribe());
    loop {
        tokio::select! {
            read = server.read(&mut buffer) => {
                let Ok(read) = read else { return };
                if read == 0 {
                    return;
                }
                if *manner.borrow() == Manner::SwallowAnswers {
                    shared.stopped.fetch_add(read, Ordering::SeqCst);
                } else if let Some(open) = &mut client
                    && open.write_all(&buffer[..read]).await.is_err()
                {
                    client = None;
                }
            }
            Ok(()) = cut.changed(), if client.is_some() => client = None,
        }
    }
}
