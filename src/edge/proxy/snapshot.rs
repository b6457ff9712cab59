//! Front and upstreams of one configuration.
//!
//! A request takes the current snapshot when it starts and keeps it to its end. A reload sets a new
//! snapshot for later requests.

use std::sync::Arc;
use std::time::Duration;

use http::request;
use http::uri::PathAndQuery;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::listen::tls::{Tls, TlsSnapshot};
use crate::upstream::{Resolver, Upstreams};
use crate::{Forward, Front, RouteDecision};
use sealgate_config::{App, ServerConfig, Upstream};
use sealgate_system::read_mostly::{LocalRef, ReadMostly};

/// Delay before a failed watch task is restarted.
const WATCH_RESTART_DELAY: Duration = Duration::from_secs(1);

/// Front and upstreams of the same configuration.
pub struct Snapshot {
    pub front: Arc<dyn Front>,
    /// Upstreams of each application, in the order of the configuration: first its own, then the
    /// lists of its routes.
    pub apps: Arc<[Box<[Arc<Upstreams>]>]>,
}

/// Whether an exchange in progress would still be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Valid,
    /// Access has ended. The exchange must be aborted.
    Ended,
    Unknown,
}

impl Snapshot {
    /// Returns the upstreams for a request.
    pub(crate) fn upstreams(&self, forward: &Forward) -> Option<&Arc<Upstreams>> {
        self.apps.get(forward.app)?.get(forward.upstreams)
    }

    /// Returns the upstreams of all applications.
    pub(crate) fn all_upstreams(&self) -> impl Iterator<Item = &Arc<Upstreams>> {
        self.apps.iter().flatten()
    }

    /// Returns whether a request that was forwarded to the application `app` would be permitted
    /// now.
    ///
    /// `head` is the head that was decided on, with [`crate::Reauthorization`] in its extensions, and
    /// `target` the path and query for the upstream. If a reload has assigned the host to another
    /// application, or the path to another target or to other upstreams than `upstream`, access has
    /// ended.
    pub(crate) async fn validity(
        &self,
        head: &request::Parts,
        app: &str,
        target: &PathAndQuery,
        upstream: Option<&Upstream>,
    ) -> Validity {
        let is_same = |now: &Upstreams| now.app() == app && upstream.is_none_or(|upstream| now.contains(upstream));
        match self.front.decide(head).await {
            RouteDecision::Forward(forward)
                if forward.rewrite.path_and_query == *target
                    && self.upstreams(&forward).is_some_and(|now| is_same(now)) =>
            {
                Validity::Valid
            }
            RouteDecision::Answer(response) if response.status().is_server_error() => Validity::Unknown,
            _ => Validity::Ended,
        }
    }

    /// Creates the snapshot for these applications.
    ///
    /// An application that is unchanged since `before` keeps its upstreams. A new or changed
    /// application takes over the known addresses of names and the health of servers that `before`
    /// has too. Reads certificates, but resolves no names.
    ///
    /// # Errors
    /// One line for each upstream that cannot be used.
    pub fn prepare(
        apps: &[App],
        resolver: &Resolver,
        front: Arc<dyn Front>,
        before: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let known: Vec<_> = before.into_iter().flat_map(Self::all_upstreams).map(Arc::clone).collect();
        let mut faults = Vec::new();
        let mut of_list = |app: &App| {
            if let Some(same) = known.iter().find(|upstreams| upstreams.are_unchanged_in(app)) {
                return Some(Arc::clone(same));
            }
            let new = Upstreams::new(app, resolver).map_err(|fault| faults.push(fault)).ok()?;
            new.inherit(&known);
            Some(Arc::new(new))
        };
        let mut of_app = |app: &App| {
            let of_routes = app.route_upstreams();
            let of_routes = of_routes.iter().map(|(servers, protocol)| App {
                upstreams: servers.to_vec(),
                upstream_protocol: *protocol,
                ..app.clone()
            });
            let lists: Vec<_> = std::iter::once(app.clone()).chain(of_routes).map(|app| of_list(&app)).collect();
            lists.into_iter().flatten().collect()
        };
        let apps: Vec<Box<[_]>> = apps.iter().map(&mut of_app).collect();
        if faults.is_empty() { Ok(Self { front, apps: apps.into() }) } else { Err(faults) }
    }

    /// Resolves the names of the upstreams that are new since `before`. Waits only briefly for the
    /// answers. Blocking.
    pub fn find_names(&self, before: Option<&Self>) {
        let is_new = |upstreams: &&Arc<Upstreams>| {
            before.is_none_or(|snapshot| snapshot.all_upstreams().all(|known| !Arc::ptr_eq(known, upstreams)))
        };
        Upstreams::find_names(&self.all_upstreams().filter(is_new).map(Arc::clone).collect::<Vec<_>>());
    }
}

/// Current snapshot, which a reload replaces.
pub struct Snapshots {
    current: ReadMostly<Snapshot>,
    changed: watch::Sender<()>,
}

impl Snapshots {
    /// Creates the holder with the first snapshot.
    pub fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self { current: ReadMostly::new(snapshot), changed: watch::Sender::new(()) })
    }

    /// Returns the snapshot for a request that starts now.
    pub fn current(&self) -> LocalRef<Snapshot> {
        self.current.get()
    }

    fn set(&self, snapshot: Snapshot) {
        self.current.set(snapshot);
        self.changed.send_replace(());
    }
}

/// Replaces the applications and the certificates of a running server.
pub struct EdgeUpdater {
    snapshots: Arc<Snapshots>,
    resolver: Resolver,
    tls: Option<Arc<Tls>>,
}

/// Prepared applications and certificates. Applying them cannot fail.
pub struct EdgeUpdate {
    snapshot: Snapshot,
    tls_snapshot: Option<TlsSnapshot>,
}

impl EdgeUpdater {
    /// Creates an updater of the current snapshot. `tls` is `None` if the server has no TLS
    /// listener.
    pub fn new(snapshots: Arc<Snapshots>, resolver: Resolver, tls: Option<Arc<Tls>>) -> Self {
        Self { snapshots, resolver, tls }
    }

    /// Prepares to serve these applications with this front. Changes nothing yet.
    ///
    /// Of `server`, only the certificates and the client authentication are used. A server that
    /// started without TLS cannot change to TLS. Blocking I/O.
    ///
    /// # Errors
    /// All errors, one line each.
    pub fn prepare(
        &self,
        apps: &[App],
        server: &ServerConfig,
        front: Arc<dyn Front>,
    ) -> Result<EdgeUpdate, Vec<String>> {
        let before = self.snapshots.current();
        let snapshot = Snapshot::prepare(apps, &self.resolver, front, Some(&before));
        let tls_snapshot = self.tls.as_ref().map_or(Ok(None), |tls| tls.load_snapshot(server));
        match (snapshot, tls_snapshot) {
            (Ok(snapshot), Ok(tls_snapshot)) => {
                snapshot.find_names(Some(&before));
                Ok(EdgeUpdate { snapshot, tls_snapshot })
            }
            (snapshot, tls_snapshot) => Err(snapshot.err().into_iter().flatten().chain(tls_snapshot.err()).collect()),
        }
    }

    /// Applies the update. Requests in progress keep their snapshot.
    pub fn apply(&self, update: EdgeUpdate) {
        if let (Some(tls), Some(tls_snapshot)) = (&self.tls, update.tls_snapshot) {
            tls.replace(tls_snapshot);
        }
        let before = self.snapshots.current();
        self.snapshots.set(update.snapshot);
        let now = self.snapshots.current();
        let is_removed = |old: &&Arc<Upstreams>| now.all_upstreams().all(|new| !Arc::ptr_eq(new, old));
        before.all_upstreams().filter(is_removed).for_each(|upstreams| upstreams.retire());
    }
}

/// Interval between reports of the upstreams' health to the front.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Watches an application's upstreams until `stop` becomes true or its sender is dropped.
///
/// If the watch fails, for example because no thread can be started, it is restarted. Without a
/// watch, requests would still be sent to a server that is down.
async fn watch_and_restart(upstreams: Arc<Upstreams>, mut stop: watch::Receiver<bool>) {
    while let Err(error) = tokio::spawn(Arc::clone(&upstreams).watch(stop.clone())).await {
        tracing::error!(%error, "the monitor of an application's upstreams failed and is restarted");
        if timeout(WATCH_RESTART_DELAY, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Watches the upstreams of the current snapshot until `stop` becomes true.
///
/// After a reload, starts to watch new upstreams and stops watching removed ones.
pub async fn watch_upstreams(snapshots: Arc<Snapshots>, mut stop: watch::Receiver<bool>) {
    let mut changed = snapshots.changed.subscribe();
    let mut running: Vec<(Arc<Upstreams>, watch::Sender<bool>)> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let snapshot = snapshots.current();
        // Dropping the sender ends the watch of removed upstreams.
        running.retain(|(upstreams, _)| snapshot.all_upstreams().any(|other| Arc::ptr_eq(other, upstreams)));
        for upstreams in snapshot.all_upstreams() {
            if !running.iter().any(|(other, _)| Arc::ptr_eq(other, upstreams)) {
                let (end, ending) = watch::channel(false);
                tasks.spawn(watch_and_restart(Arc::clone(upstreams), ending));
                running.push((Arc::clone(upstreams), end));
            }
        }
        drop(snapshot);
        loop {
            tokio::select! {
                () = async { drop(stop.wait_for(|stop| *stop).await) } => {
                    running.clear();
                    while tasks.join_next().await.is_some() {}
                    return;
                }
                // Cannot fail: the sender exists as long as `snapshots`.
                _ = changed.changed() => break,
                () = tokio::time::sleep(REPORT_INTERVAL) => {
                    let snapshot = snapshots.current();
                    snapshot.front.upstreams(snapshot.all_upstreams().flat_map(|upstreams| upstreams.states()).collect());
                }
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
    }
}
