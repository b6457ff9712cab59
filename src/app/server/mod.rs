//! The program's server: binds the sockets and checks the settings, starts the services, and stops
//! them in order.

mod lifecycle;
mod process;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora::server::configuration::ServerConf;
use pingora::server::{self, ListenFds, RunArgs, ShutdownWatch};
use pingora::services::Service;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use sealgate_config::{App, ServerConfig};
use sealgate_edge::{
    Cancellable, Challenges, EdgeUpdater, FailureChannels, Front, Health, HealthPath, HttpService, Limits, Listener,
    LongLived, LoopMark, Phase, Probe, Proxy, Quota, Redirect, RequestIds, Resolver, Snapshot, Snapshots, Threads,
    Timers, Tls, TokenKeys, TransportSecurity, Watch, admin_service, watch_long_lived, watch_tls, watch_upstreams,
};
use sealgate_system::read_mostly::LocalRef;
use sealgate_system::tls::install;
use sealgate_system::trace::Tracer;

pub use self::lifecycle::StopSignal;
use self::lifecycle::{Lifecycle, Startup};
use self::process::{UPSTREAM_POOL, allow_descriptors};
pub(crate) use self::process::{log_panics, needed_descriptors, notify};

/// Maximum number of attempts per request, including the first.
const UPSTREAM_TRIES: usize = 2;
/// Maximum number of blocking threads of each runtime for short work, such as reading certificate files
/// and the store. Threads that wait for TLS signatures of the token and for other servers are added
/// to this number.
const BLOCKING_THREADS: usize = 16;
/// Maximum number of connections to the admin listener.
const ADMIN_CONNECTIONS: usize = 64;
/// Maximum number of concurrent streams per HTTP/2 connection.
const H2_STREAMS: u32 = 100;
/// HTTP/2 receive window, in bytes: the protocol's default.
const H2_WINDOW: u32 = 65_535;
/// Buffer per HTTP/2 response that the client does not read, in bytes.
const H2_SEND_BUFFER: usize = 32 * 1024;
/// Timeout for a client to accept written data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A boxed future.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Stop signal of the program: becomes true when the program stops.
pub(crate) type Stop = watch::Receiver<bool>;

/// A background task. It has a few seconds to end after [`Stop`] has become true.
pub struct Background {
    pub name: &'static str,
    /// Creates the task's future. Called once, inside the runtime.
    pub start: Box<dyn FnOnce(Stop) -> Task + Send + Sync>,
}

impl Background {
    /// Creates a background task from an async function.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        start: impl FnOnce(Stop) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { name, start: Box::new(|stop| Box::pin(start(stop))) }
    }
}

/// Parts from which [`Server::prepare`] creates a server.
pub struct ServerParts {
    /// `[server]`.
    pub server: ServerConfig,
    /// Whether browsers use https, to this server or to a load balancer in front of it.
    pub https: bool,
    /// Address of the admin listener, if there is one.
    pub admin: Option<SocketAddr>,
    /// Listening sockets that the service manager passed to the process. A listener uses the socket
    /// with its address.
    pub sockets: Vec<TcpListener>,
    /// The applications. [`sealgate_edge::Forward::app`] is an index into this list.
    pub apps: Vec<App>,
    /// Element that identifies requests of this installation.
    pub loop_mark: LoopMark,
    /// Resolver of upstream names.
    pub resolver: Resolver,
    /// Answers to the challenges of a certificate authority.
    pub challenges: Arc<Challenges>,
    /// TLS keys in the token. `None` if all keys are in files.
    pub token_keys: Option<Arc<TokenKeys>>,
    pub front: Arc<dyn Front>,
    pub health: Arc<dyn Health>,
    /// Recorder of traces, if they are exported.
    pub tracer: Option<Arc<Tracer>>,
    pub background: Vec<Background>,
    /// Maximum number of blocking threads that wait for other servers at the same time.
    pub waiting_threads: usize,
    /// Hook to run after all requests and background tasks have ended. It closes the store.
    pub stopped: Box<dyn FnOnce() -> Task + Send + Sync>,
}

/// A server with bound sockets and checked settings, before it serves.
pub struct Server {
    parts: ServerParts,
    public: Vec<Listener>,
    redirecting: Vec<Listener>,
    admin: Option<Listener>,
    snapshots: Arc<Snapshots>,
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// Reads the certificates, binds the sockets and resolves the upstreams' names.
    ///
    /// # Errors
    /// Every error found, one line each.
    pub fn prepare(mut parts: ServerParts) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut noted = |fault| faults.push(fault);
        install().unwrap_or_else(&mut noted);
        let tls = Tls::load(&parts.server, Arc::clone(&parts.challenges), parts.token_keys.clone());
        let tls = tls.map_err(&mut noted).ok().flatten().map(Arc::new);
        let snapshot = Snapshot::prepare(&parts.apps, &parts.resolver, Arc::clone(&parts.front), None)
            .map_err(|lines| lines.into_iter().for_each(&mut noted))
            .ok();
        let mut sockets = std::mem::take(&mut parts.sockets);
        let mut bind = |address, tls| Listener::take_or_bind(&mut sockets, address, tls).map_err(&mut noted).ok();
        let public = parts.server.listen.iter().filter_map(|address| bind(*address, tls.clone())).collect();
        let redirecting = parts.server.redirect_listen.iter().filter_map(|address| bind(*address, None)).collect();
        let admin = parts.admin.and_then(|address| bind(address, None));
        for address in sockets.iter().filter_map(|socket| socket.local_addr().ok()) {
            // Clients would wait forever on a socket whose connections are never accepted.
            noted(format!(
                "systemd passed a socket on {address}, which is not in server.listen, server.redirect_listen \
                 or admin.listen; correct the .socket unit or the configuration"
            ));
        }
        let Some(snapshot) = snapshot.filter(|_| faults.is_empty()) else { return Err(faults) };
        snapshot.find_names(None);
        Ok(Self { parts, public, redirecting, admin, snapshots: Snapshots::new(snapshot), tls })
    }

    /// Returns an updater, which replaces the applications, the front and the certificates of the
    /// running server.
    pub fn edge_updater(&self) -> EdgeUpdater {
        EdgeUpdater::new(Arc::clone(&self.snapshots), self.parts.resolver.clone(), self.tls.clone())
    }

    /// Adds a task, which starts and stops with the server.
    pub fn add_background(&mut self, task: Background) {
        self.parts.background.push(task);
    }

    /// Returns the bound public addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.public.iter().map(Listener::address).collect()
    }

    /// Returns the bound addresses for redirects.
    pub fn redirect_addresses(&self) -> Vec<SocketAddr> {
        self.redirecting.iter().map(Listener::address).collect()
    }

    /// Returns the admin listener's address, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Listener::address)
    }

    /// Serves until stopped, then stops in order.
    ///
    /// A stop has these steps:
    ///
    /// - accept no new connections,
    /// - wait up to `shutdown_timeout` for requests in progress,
    /// - end the background tasks,
    /// - run the stop hook.
    ///
    /// Blocking. Must not be called inside a runtime.
    ///
    /// # Errors
    /// One line with the reason why serving could not start.
    pub fn run(self, signal: StopSignal) -> Result<(), String> {
        let Self { parts, public, redirecting, admin, snapshots, tls } = self;
        allow_descriptors(&parts.server);
        let blocking = BLOCKING_THREADS + signing_threads(&parts) + parts.waiting_threads;
        let (stop, stopping) = watch::channel(false);
        let (phase, phases) = watch::channel(Phase::Starting);
        let (ready, readiness) = mpsc::channel(1);
        let (failed, failures) = mpsc::channel(1);
        let channels = FailureChannels { ready, failed };
        let (background_done, background) = oneshot::channel();
        let mut server =
            server::Server::new_with_opt_and_conf(None, pingora_config(parts.server.threads, UPSTREAM_POOL, blocking));
        server.bootstrap();

        let ServerConfig { max_connections, max_connections_per_peer, header_bytes, .. } = &parts.server;
        let proxies = [&parts.server.trusted_proxies[..], &parts.server.proxy_protocol].concat();
        let quota = Quota::new(*max_connections, *max_connections_per_peer, *header_bytes, proxies);
        let listening: Vec<SocketAddr> = public.iter().chain(&redirecting).map(Listener::address).collect();
        let long_lived = Arc::new(LongLived::default());
        let watch = watch_of(&snapshots);
        // Each thread has its own upstream connections.
        let pool = UPSTREAM_POOL.div_ceil(parts.server.threads.max(1));
        let configuration = Arc::new(pingora_config(1, pool, blocking));
        let severable = |proxy: Proxy| {
            let (configuration, settings) = (Arc::clone(&configuration), parts.server.clone());
            let (quota, watch) = (Arc::clone(&quota), Arc::clone(&watch));
            move || {
                let app = Arc::new(app(&configuration, &settings, proxy.for_thread()));
                Cancellable {
                    app,
                    quota: LocalRef::new(Arc::clone(&quota)),
                    watch: Arc::clone(&watch),
                    timers: Timers::default(),
                }
            }
        };
        let mut http_service = HttpService::new(
            "public",
            public_threads(&parts, blocking),
            severable(proxy(&parts, Arc::clone(&snapshots), Arc::clone(&long_lived))),
            public,
            limits(&parts.server),
            Arc::clone(&quota),
            Arc::clone(&watch),
            stopping.clone(),
            channels.clone(),
        );
        let (connectors, pings) = (http_service.connectors(), http_service.pings());
        let probe = Arc::new(Probe::new(connectors, pings, Arc::clone(&parts.health)));
        server.add_service(http_service);
        if !redirecting.is_empty() {
            server.add_service(HttpService::new(
                "redirect",
                Threads::ONE,
                severable(redirecting_proxy(&parts, &snapshots)),
                redirecting,
                limits(&parts.server),
                Arc::clone(&quota),
                Arc::clone(&watch),
                stopping.clone(),
                channels.clone(),
            ));
        }
        // The admin listener does not stop, so that monitoring can read metrics until the end.
        let (_never, running) = watch::channel(false);
        if let Some(listener) = admin {
            let (health, loop_mark) = (Arc::clone(&parts.health), parts.loop_mark.clone());
            server.add_service(HttpService::new(
                "admin",
                Threads::ONE,
                move || admin_service(Arc::clone(&health), phases.clone(), Arc::clone(&probe), loop_mark.clone()),
                vec![listener],
                Limits { proxy_protocol: Vec::new(), ..limits(&parts.server) },
                Quota::new(ADMIN_CONNECTIONS, ADMIN_CONNECTIONS, parts.server.header_bytes, Vec::new()),
                Arc::new(|_| {}),
                running,
                channels.clone(),
            ));
        }
        drop(channels);
        let tasks = with_watches(parts.background, &snapshots, long_lived, tls);
        server.add_service(BackgroundTasks { tasks, stop: stopping, done: Some(background_done) });

        let failure = Arc::new(Mutex::new(None));
        let lifecycle = Lifecycle {
            startup: Mutex::new(Some(Startup {
                signal,
                readiness,
                failures,
                background,
                stopped: parts.stopped,
                listening,
            })),
            stop,
            phase,
            quota,
            drain_timeout: parts.server.shutdown_timeout,
            failure: Arc::clone(&failure),
        };
        server.run(RunArgs { shutdown_signal: Box::new(lifecycle) });
        let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the proxy of listeners that only redirect to HTTPS.
fn redirecting_proxy(parts: &ServerParts, snapshots: &Arc<Snapshots>) -> Proxy {
    let front = Arc::new(Redirect { snapshots: Arc::clone(snapshots), challenges: Arc::clone(&parts.challenges) });
    Proxy {
        // Browsers must ignore `Strict-Transport-Security` over plain HTTP.
        transport_security: None,
        ..proxy(parts, Snapshots::new(Snapshot { front, apps: Arc::new([]) }), Arc::default())
    }
}

/// Adds the tasks that watch open exchanges, certificates and upstream servers.
fn with_watches(
    mut tasks: Vec<Background>,
    snapshots: &Arc<Snapshots>,
    long_lived: Arc<LongLived>,
    tls: Option<Arc<Tls>>,
) -> Vec<Background> {
    let set = Arc::clone(snapshots);
    tasks.push(Background::new("open exchanges", |stop| watch_long_lived(long_lived, set, stop)));
    if let Some(tls) = tls {
        let set = Arc::clone(snapshots);
        tasks.push(Background::new("certificates", |stop| {
            watch_tls(tls, move |served| set.current().front.certificates(served), stop)
        }));
    }
    let set = Arc::clone(snapshots);
    tasks.push(Background::new("upstreams", |stop| watch_upstreams(set, stop)));
    tasks
}

fn pingora_config(threads: usize, pool: usize, blocking: usize) -> ServerConf {
    ServerConf {
        threads,
        upstream_keepalive_pool_size: pool,
        max_retries: UPSTREAM_TRIES,
        max_blocking_threads: Some(blocking),
        ..ServerConf::default()
    }
}

/// Returns the threads of the public service. `blocking` is the maximum for each worker.
fn public_threads(parts: &ServerParts, blocking: usize) -> Threads {
    let workers = parts.server.threads;
    Threads { workers, shared: if parts.token_keys.is_some() { workers } else { 1 }, blocking }
}

/// Returns the maximum number of threads that wait for TLS signatures of the token.
fn signing_threads(parts: &ServerParts) -> usize {
    parts.token_keys.as_ref().map_or(0, |keys| keys.max_threads())
}

fn proxy(parts: &ServerParts, snapshots: Arc<Snapshots>, long_lived: Arc<LongLived>) -> Proxy {
    Proxy {
        snapshots,
        trusted_proxies: parts.server.trusted_proxies.clone(),
        proxy_protocol: parts.server.proxy_protocol.clone(),
        header_bytes: parts.server.header_bytes,
        body_timeout: parts.server.body_timeout,
        write_timeout: WRITE_TIMEOUT,
        request_ids: RequestIds::random(),
        loop_mark: parts.loop_mark.clone(),
        long_lived,
        tracer: parts.tracer.clone(),
        health_path: parts
            .server
            .health_path
            .clone()
            .map(|path| HealthPath { path, health: Arc::clone(&parts.health) }),
        transport_security: parts.https.then(|| TransportSecurity::for_time(parts.server.hsts)).flatten(),
    }
}

fn app(config: &Arc<ServerConf>, server: &ServerConfig, proxy: Proxy) -> pingora::proxy::HttpProxy<Proxy> {
    let mut app = pingora::proxy::http_proxy(config, proxy);
    let mut options = pingora::apps::HttpServerOptions::default();
    options.h2_idle_timeout = Some(server.idle_timeout);
    // Over HTTP/2, lets CONNECT reach the proxy, which refuses it with an error page. Over
    // HTTP/1.1, the listener has already refused it.
    options.allow_connect_method_proxying = true;
    app.server_options = Some(options);
    app.h2_options = Some(h2_options(server));
    app
}

/// Limits the resources that an HTTP/2 connection can use before the quota counts its requests.
///
/// The values are explicit, because the memory bound depends on them and defaults may change.
fn h2_options(server: &ServerConfig) -> H2Options {
    let mut h2 = default_h2_options();
    h2.max_concurrent_streams(H2_STREAMS);
    // If a head exceeds the configured length, the proxy refuses it with an error page. If a head
    // exceeds this size, the library discards it and refuses it without a page. The limit on
    // CONTINUATION frames follows from this size.
    h2.max_header_list_size(u32::try_from(server.header_bytes + server.header_bytes / 4).unwrap_or(u32::MAX));
    h2.header_table_size(4096);
    h2.max_frame_size(16 * 1024);
    // Maximum unread request data, for each stream and for all bodies of a connection together.
    h2.initial_window_size(H2_WINDOW);
    h2.initial_connection_window_size(H2_WINDOW);
    // Maximum response data that is buffered for a client that reads slowly. The windows that the
    // client announces do not change it.
    h2.max_send_buffer_size(H2_SEND_BUFFER);
    // Disconnects a client that opens and resets streams in quick succession (CVE-2023-44487).
    h2.max_pending_accept_reset_streams(20);
    h2.max_local_error_reset_streams(Some(256));
    h2
}

fn limits(server: &ServerConfig) -> Limits {
    Limits {
        proxy_protocol: server.proxy_protocol.clone(),
        header_timeout: server.header_timeout,
        header_bytes: server.header_bytes,
        idle_timeout: server.idle_timeout,
        write_timeout: WRITE_TIMEOUT,
    }
}

fn watch_of(snapshots: &Arc<Snapshots>) -> Watch {
    let snapshots = Arc::clone(snapshots);
    Arc::new(move |event| snapshots.current().front.connection(event))
}

/// Runs the background tasks in their own runtime.
struct BackgroundTasks {
    tasks: Vec<Background>,
    stop: Stop,
    done: Option<oneshot::Sender<()>>,
}

#[async_trait]
impl Service for BackgroundTasks {
    async fn start_service(&mut self, _fds: Option<ListenFds>, _shutdown: ShutdownWatch, _listeners_per_fd: usize) {
        let mut running = JoinSet::new();
        for Background { name, start } in self.tasks.drain(..) {
            let task = start(self.stop.clone());
            let stop = self.stop.clone();
            running.spawn(async move {
                task.await;
                if !*stop.borrow() {
                    tracing::debug!(task = name, "a background task has ended");
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a background task has failed");
            }
        }
        if let Some(done) = self.done.take() {
            let _ = done.send(());
        }
    }

    fn name(&self) -> &'static str {
        "background"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}
