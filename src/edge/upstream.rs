//! Servers of an application: IP addresses, Unix sockets, and host names.
//!
//! Host names are resolved and servers are checked periodically, independently of requests. Requests
//! of each thread are distributed round-robin over the servers that are in the rotation.

mod affinity;
mod fair_queue;
mod fields;
mod handle;
mod health;
mod pinned;
mod server;
mod source;
mod trust;

use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use thread_local::ThreadLocal;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(super) use affinity::client_number;
use fair_queue::FairQueue;
pub(super) use fair_queue::QueueSlot;
use fields::UpstreamFields;
pub(super) use handle::Handle;
use health::ServerCheck;
pub(super) use pinned::{PinnedConnection, authenticates_connection};
use sealgate_config::{App, Upstream, UpstreamProtocol};
use sealgate_system::file_version::FileVersion;
use sealgate_system::own_line::OwnLine;
use sealgate_system::read_mostly::{LocalRef, ReadMostly};
pub(super) use server::{ServerRef, UpstreamServer};
use source::LookupAnswer;
pub use source::Resolver;
use source::{Address, UpstreamPlace, UpstreamSource};
use trust::UpstreamTrust;

/// Interval between checks that only open a connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between checks of the certificate and header files.
const FILES_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a failed name lookup is repeated.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum time that startup waits for name lookups. Slower lookups continue in the background.
const FIRST_LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Servers of one application, with the limits on its concurrent requests.
pub struct Upstreams {
    app: App,
    resolver: Resolver,
    sources: Vec<UpstreamSource>,
    check: Arc<ServerCheck>,
    /// Current servers of all upstreams in the configuration.
    servers: ReadMostly<Box<[Arc<UpstreamServer>]>>,
    /// Number of the next request of each thread, for the choice of a server.
    turns: ThreadLocal<OwnLine<Cell<usize>>>,
    /// Number of the next thread.
    first_turn: AtomicUsize,
    fair_queue: ReadMostly<FairQueue>,
    /// Locked while the list of servers is rebuilt.
    files: Mutex<UpstreamFiles>,
}

/// Contents of the files of an application's settings.
struct UpstreamFiles {
    /// Versions of the files when they were read.
    versions: Vec<Option<FileVersion>>,
    trust: UpstreamTrust,
    fields: Arc<UpstreamFields>,
}

impl UpstreamFiles {
    fn read(app: &App) -> Result<Self, String> {
        // The versions are read first, so that the next check finds a change that happens during the
        // reads.
        let versions = Self::versions(app);
        let trust = UpstreamTrust::read(&app.upstream_tls)?;
        let fields = Arc::new(UpstreamFields::read(&app.fixed_headers)?);
        Ok(Self { versions, trust, fields })
    }

    fn versions(app: &App) -> Vec<Option<FileVersion>> {
        let headers = app.fixed_headers.request_files.iter().map(|(_, file)| file);
        trust::files(&app.upstream_tls).chain(headers).map(|file| FileVersion::of(file)).collect()
    }
}

impl Upstreams {
    /// Creates the servers of the application and reads the files.
    ///
    /// Upstreams with a host name have no server until [`Upstreams::find_names`].
    ///
    /// # Errors
    /// One line with the reason.
    pub fn new(app: &App, resolver: &Resolver) -> Result<Self, String> {
        let fault = |why: String| format!("app {}: {why}", app.name);
        if app.upstreams.is_empty() {
            return Err(fault("the application has no upstream".to_owned()));
        }
        let sources = app
            .upstreams
            .iter()
            .map(|upstream| UpstreamSource::new(app, upstream))
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        let files = UpstreamFiles::read(app).map_err(fault)?;
        let upstreams = Self {
            app: app.clone(),
            resolver: resolver.clone(),
            sources,
            check: Arc::new(ServerCheck::new(app).map_err(fault)?),
            servers: ReadMostly::new(Box::default()),
            turns: ThreadLocal::new(),
            first_turn: AtomicUsize::new(0),
            fair_queue: ReadMostly::new(FairQueue::new(app.max_requests, app.max_requests_per_client)),
            files: Mutex::new(files),
        };
        upstreams.rebuild_servers().map_err(fault)?;
        Ok(upstreams)
    }

    pub(super) fn app(&self) -> &str {
        &self.app.name
    }

    /// Returns whether an upstream connection may be reused after a request with a body.
    pub(super) const fn reads_bodies_whole(&self) -> bool {
        self.app.reads_bodies_whole
    }

    /// Returns whether connections use HTTP/2 only, instead of HTTP/1.1.
    pub(super) fn use_http2(&self) -> bool {
        self.app.upstream_protocol == UpstreamProtocol::Http2
    }

    /// Returns whether the configuration still contains this upstream.
    pub(super) fn contains(&self, upstream: &Upstream) -> bool {
        self.app.upstreams.contains(upstream)
    }

    /// Returns whether `app` has the same upstreams with the same settings.
    pub(super) fn are_unchanged_in(&self, app: &App) -> bool {
        // The listed fields concern only requests and responses, so they are not compared. A new field
        // of `App` is compared unless it is added here. Health checks contain the host.
        let old = self.app.clone();
        let App { host, url, routes, audience, clients, trusted_issuers, identity, maintenance, compression, .. } = old;
        let new = app.clone();
        let new =
            App { host, url, routes, audience, clients, trusted_issuers, identity, maintenance, compression, ..new };
        self.app == new && (app.health_check.is_none() || self.app.public_authority() == app.public_authority())
    }

    /// Copies the known addresses of host names and the health of servers from an earlier snapshot.
    ///
    /// The copied values are used until the first lookup and the first health check.
    pub(super) fn inherit(&self, others: &[Arc<Self>]) {
        for source in &self.sources {
            let UpstreamPlace::Named { host, port, found } = &source.place else { continue };
            let known = others.iter().flat_map(|other| &other.sources).find_map(|other| match &other.place {
                UpstreamPlace::Named { host: name, port: at, found } if (name, at) == (host, port) => {
                    let addresses = found.read().unwrap_or_else(PoisonError::into_inner).addresses.clone();
                    Some(addresses).filter(|addresses| !addresses.is_empty())
                }
                _ => None,
            });
            if let Some(addresses) = known {
                found.write().unwrap_or_else(PoisonError::into_inner).addresses = addresses;
            }
        }
        if let Err(why) = self.rebuild_servers() {
            tracing::error!(app = self.app.name, why, "cannot use the upstream's addresses");
        }
        for server in self.current().iter() {
            let known = others
                .iter()
                .find_map(|other| other.current().iter().find(|other| other.address == server.address).map(Arc::clone));
            if let Some(known) = known {
                server.inherit(&known);
            }
        }
    }

    /// Resolves all names. Blocks until all answers arrive, but at most for three seconds. The
    /// caller must not call this function on an async thread.
    ///
    /// [`Upstreams::watch`] repeats lookups that were not answered in time.
    pub fn find_names(all: &[Arc<Self>]) {
        let (pending, answered) = mpsc::channel::<Infallible>();
        for upstreams in all {
            for (index, source) in upstreams.sources.iter().enumerate() {
                let UpstreamPlace::Named { host, port, .. } = &source.place else { continue };
                let (this, pending) = (Arc::clone(upstreams), pending.clone());
                upstreams.resolver.begin(host, *port, move |answer| {
                    this.apply_lookup(index, answer);
                    drop(pending);
                });
            }
        }
        drop(pending);
        // No message is sent. The channel closes when all callbacks have dropped their sender.
        let _ = answered.recv_timeout(FIRST_LOOKUP_TIMEOUT);
        for upstreams in all {
            for (index, source) in upstreams.sources.iter().enumerate() {
                if let UpstreamPlace::Named { found, .. } = &source.place
                    && found.read().unwrap_or_else(PoisonError::into_inner).addresses.is_empty()
                {
                    upstreams.apply_lookup(index, Err("the name server has not answered yet".to_owned()));
                }
            }
        }
    }

    /// Waits until the request may be sent. `None` if the wait takes too long; see
    /// [`FairQueue::turn`].
    pub(super) async fn turn(&self, client: Option<IpAddr>) -> Option<QueueSlot> {
        FairQueue::turn(self.fair_queue.get(), client).await
    }

    /// Closes idle connections that need permits, now and later. Must be called when a reload has
    /// replaced the upstreams, because the new ones have permits of their own.
    pub(super) fn retire(&self) {
        self.fair_queue.get().retire();
    }

    /// Returns whether there is more than one server.
    pub(super) fn has_choice(&self) -> bool {
        self.current().len() > 1
    }

    /// Returns the next server, or `None` while no address is known.
    ///
    /// Prefers a live server other than `avoid`, then any server other than `avoid`, then any
    /// server. Returns a server even if all seem dead, because the result of the health check may
    /// be outdated.
    pub(super) fn pick(&self, avoid: Option<&ServerRef>) -> Option<ServerRef> {
        let servers = self.current();
        if servers.len() == 1 {
            return ServerRef::new(servers, 0);
        }
        // Each thread begins with another server, so that few requests reach all servers too.
        let next = self.turns.get_or(|| OwnLine(Cell::new(self.first_turn.fetch_add(1, Ordering::Relaxed))));
        let turn = next.replace(next.get().wrapping_add(1));
        let index = preferred(avoid, |fits| {
            // Counts only suitable servers, so that they share the requests of a dead server evenly.
            let count = servers.iter().filter(|server| fits(server)).count();
            let mut fitting = servers.iter().enumerate().filter(|(_, server)| fits(server));
            fitting.nth(turn.checked_rem(count)?).map(|(index, _)| index)
        });
        ServerRef::new(servers, index?)
    }

    /// Returns the server for all requests with this number, or `None` while no address is known. The
    /// preference is that of [`Self::pick`].
    pub(super) fn pick_for(&self, number: u64, avoid: Option<&ServerRef>) -> Option<ServerRef> {
        let servers = self.current();
        let index = preferred(avoid, |fits| {
            affinity::best(number, servers.iter().enumerate().filter(|(_, server)| fits(server)))
        });
        ServerRef::new(servers, index?)
    }

    /// Returns a number whose server is `server`, unless that of `known` is.
    pub(super) fn new_number(&self, server: &UpstreamServer, known: Option<u64>) -> Option<u64> {
        let servers = self.current();
        if known.is_some_and(|number| affinity::is_best(number, server, &servers)) {
            return None;
        }
        affinity::number_for(server, &servers)
    }

    /// Returns the server of a client's own upstream connection, if that server is alive and not
    /// `avoid`.
    ///
    /// The application may have authenticated that connection, so later requests must use it too.
    pub(super) fn pinned(&self, pinned: &PinnedConnection, avoid: Option<&ServerRef>) -> Option<ServerRef> {
        let address = pinned.server().filter(|address| avoid.is_none_or(|avoid| avoid.address != *address))?;
        let servers = self.current();
        let index = servers.iter().position(|server| server.address == address && server.is_alive());
        ServerRef::new(servers, index?)
    }

    /// Returns the application, the address and the last known health of each server.
    pub(super) fn states(&self) -> Vec<(String, String, bool)> {
        let state =
            |server: &Arc<UpstreamServer>| (self.app.name.clone(), server.address.to_string(), server.is_alive());
        self.current().iter().map(state).collect()
    }

    fn current(&self) -> LocalRef<Box<[Arc<UpstreamServer>]>> {
        self.servers.get()
    }

    /// Checks the servers, resolves names and reloads changed files, until `stop` becomes true or
    /// its sender is dropped.
    pub async fn watch(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let mut lookups = JoinSet::new();
        for index in 0..self.sources.len() {
            lookups.spawn(Arc::clone(&self).follow_name(index, stop.clone()));
        }
        tokio::join!(self.check_servers(stop.clone()), self.follow_files(stop));
    }

    /// Checks the servers periodically. A check in progress ends with `stop`.
    async fn check_servers(self: &Arc<Self>, mut stop: watch::Receiver<bool>) {
        let pause = self.app.health_check.as_ref().map_or(CHECK_INTERVAL, |check| check.interval);
        loop {
            let mut checks = JoinSet::new();
            for server in self.current().iter() {
                let (this, server) = (Arc::clone(self), Arc::clone(server));
                checks.spawn(async move { server.check(&this.app.name).await });
            }
            let round = async {
                checks.join_all().await;
                tokio::time::sleep(pause).await;
            };
            tokio::select! {
                () = round => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Reloads changed files periodically.
    async fn follow_files(self: &Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            let this = Arc::clone(self);
            if let Err(error) = tokio::task::spawn_blocking(move || this.reload_changed_files()).await {
                tracing::error!(%error, "checking the certificate and header files of an upstream failed");
            }
            if timeout(FILES_INTERVAL, stop.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
        }
    }

    /// Resolves the name of one upstream periodically. A slow lookup delays only this name.
    async fn follow_name(self: Arc<Self>, index: usize, mut stop: watch::Receiver<bool>) {
        let Some(source) = self.sources.get(index) else { return };
        let UpstreamPlace::Named { host, port, found } = &source.place else { return };
        loop {
            let good = found.read().unwrap_or_else(PoisonError::into_inner).is_good();
            let pause = if good { self.resolver.every } else { LOOKUP_RETRY_DELAY.min(self.resolver.every) };
            if timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            // Sending fails only after a stop, when the receiver no longer exists.
            self.resolver.begin(host, *port, move |answer| drop(sender.send(answer)));
            let answer = tokio::select! {
                answer = receiver => answer,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            self.apply_lookup(index, answer.unwrap_or_else(|_| Err("cannot start a thread".to_owned())));
        }
    }

    /// Applies the result of a name lookup. If the lookup failed, the last known addresses remain
    /// in use.
    fn apply_lookup(&self, index: usize, answer: LookupAnswer) {
        let Some(UpstreamSource { place: UpstreamPlace::Named { host, found, .. }, .. }) = self.sources.get(index)
        else {
            return;
        };
        let app = &self.app.name;
        let mut known = found.write().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(addresses) => {
                known.failing = false;
                if known.addresses == addresses {
                    return;
                }
                tracing::info!(app, host, ?addresses, "the upstream's host name resolves again");
                known.addresses = addresses;
            }
            Err(why) => {
                if !std::mem::replace(&mut known.failing, true) {
                    let consequence = if known.addresses.is_empty() {
                        "requests to this upstream are answered with 502 until the name resolves"
                    } else {
                        "the last known addresses stay in use"
                    };
                    tracing::warn!(app, host, why, "the upstream's host name does not resolve; {consequence}");
                }
                return;
            }
        }
        drop(known);
        if let Err(why) = self.rebuild_servers() {
            tracing::error!(app, host, why, "cannot use the upstream's addresses");
        }
    }

    /// Reloads the files of the settings if one has changed. Blocking I/O.
    fn reload_changed_files(&self) {
        let app = &self.app.name;
        {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let versions = UpstreamFiles::versions(&self.app);
            if files.versions == versions {
                return;
            }
            files.versions = versions;
            match UpstreamFiles::read(&self.app) {
                Ok(new) => *files = new,
                Err(why) => {
                    tracing::warn!(
                        app,
                        why,
                        "the changed certificate or header files for the upstreams cannot be used; the current contents stay in use"
                    );
                    return;
                }
            }
        }
        match self.rebuild_servers() {
            Ok(()) => tracing::info!(app, "loaded changed certificate or header files for the upstreams"),
            Err(why) => tracing::error!(app, why, "cannot use the changed files for the upstreams"),
        }
    }

    /// Rebuilds the list of servers from the addresses that are known now.
    fn rebuild_servers(&self) -> Result<(), String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let mut servers: Vec<Arc<UpstreamServer>> = Vec::new();
        for source in &self.sources {
            let addresses = match &source.place {
                UpstreamPlace::At(address) => vec![address.clone()],
                UpstreamPlace::Named { found, .. } => {
                    let found = found.read().unwrap_or_else(PoisonError::into_inner);
                    found.addresses.iter().copied().map(Address::Ip).collect()
                }
            };
            for address in addresses {
                // Several names with the same address are one server.
                if servers.iter().any(|server| server.address == address) {
                    continue;
                }
                let old = before.iter().find(|server| server.address == address);
                let server = UpstreamServer::new(&self.app, address, source, &files.trust, &files.fields, &self.check)?;
                if let Some(old) = old {
                    server.inherit(old);
                }
                servers.push(Arc::new(server));
            }
        }
        self.servers.set(servers.into());
        Ok(())
    }
}

/// Chooses among servers that are alive and not `avoid`, then any other than `avoid`, then any.
fn preferred<T>(
    avoid: Option<&ServerRef>,
    choose: impl Fn(&dyn Fn(&Arc<UpstreamServer>) -> bool) -> Option<T>,
) -> Option<T> {
    let avoided = |server: &Arc<UpstreamServer>| avoid.is_some_and(|avoid| avoid.address == server.address);
    choose(&|server| server.is_alive() && !avoided(server))
        .or_else(|| choose(&|server| !avoided(server)))
        .or_else(|| choose(&|_| true))
}

#[cfg(test)]
mod tests;
