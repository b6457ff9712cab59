//! What a request meets under one configuration: the front and the applications' upstreams. A request takes the snapshot that
//! is set when it begins, and keeps it to its end; a reload sets another one for those that come after.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::{App, ServerConfig};
use crate::edge::listen::tls::{Spoken, Tls};
use crate::edge::upstream::{Resolver, Upstreams};
use crate::edge::{Front, Verdict};

/// Between a watch that failed and the next.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// A configuration's front and upstreams, which belong together.
pub(crate) struct Snapshot {
    pub(crate) front: Arc<dyn Front>,
    /// One for each application, in the configuration's order.
    pub(crate) upstreams: Arc<[Arc<Upstreams>]>,
}

/// What became of the access of an exchange that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) enum Validity {
    Valid,
    /// It would not: the exchange is cut off.
    Ended,
    Unknown,
}

impl Snapshot {
    /// Whether a request that was let through to the application of this name would be let through now. `head` is the one
    /// that was decided on, with [`crate::edge::Again`] in its extensions. After a reload another application may answer to the same host.
    pub(in crate::edge) async fn validity(&self, head: &request::Parts, app: &str) -> Validity {
        match self.front.decide(head).await {
            Verdict::Forward(forward) if self.upstreams.get(forward.app).is_some_and(|now| now.app() == app) => {
                Validity::Valid
            }
            Verdict::Answer(response) if response.status().is_server_error() => Validity::Unknown,
            _ => Validity::Ended,
        }
    }

    /// The snapshot for these applications. The upstreams of one that has not changed since the snapshot `before` go on; others
    /// begin with what is known there of the same names and addresses. Reads certificates, looks nothing up.
    ///
    /// # Errors
    /// One line for each upstream that cannot be used.
    pub(crate) fn prepare(
        apps: &[App],
        resolver: &Resolver,
        front: Arc<dyn Front>,
        before: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let known = before.map_or(&[][..], |snapshot| &snapshot.upstreams);
        let (mut faults, mut upstreams) = (Vec::new(), Vec::with_capacity(apps.len()));
        for app in apps {
            if let Some(same) = known.iter().find(|upstreams| upstreams.are_those_of(app)) {
                upstreams.push(Arc::clone(same));
                continue;
            }
            match Upstreams::new(app, resolver) {
                Ok(new) => {
                    new.inherit(known);
                    upstreams.push(Arc::new(new));
                }
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(Self { front, upstreams: upstreams.into() }) } else { Err(faults) }
    }

    /// Looks up the names of the upstreams that were not there `before`, and waits a moment for the answers. Blocks.
    pub(crate) fn find_names(&self, before: Option<&Self>) {
        let is_new = |upstreams: &&Arc<Upstreams>| {
            before.is_none_or(|snapshot| snapshot.upstreams.iter().all(|known| !Arc::ptr_eq(known, upstreams)))
        };
        Upstreams::find_names(&self.upstreams.iter().filter(is_new).map(Arc::clone).collect::<Vec<_>>());
    }
}

/// The snapshot that is set.
pub(crate) struct Snapshots {
    current: ArcSwap<Snapshot>,
    changed: watch::Sender<()>,
}

impl Snapshots {
    pub(crate) fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(snapshot), changed: watch::Sender::new(()) })
    }

    /// The snapshot for a request that begins now.
    pub(crate) fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    fn set(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
        self.changed.send_replace(());
    }
}

/// Changes what a running server serves, and how it proves who it is.
pub struct Changer {
    snapshots: Arc<Snapshots>,
    resolver: Resolver,
    tls: Option<Arc<Tls>>,
}

/// A change that is ready: nothing about it can fail any more.
pub struct Change {
    snapshot: Snapshot,
    spoken: Option<Spoken>,
}

impl Changer {
    pub(crate) fn new(snapshots: Arc<Snapshots>, resolver: Resolver, tls: Option<Arc<Tls>>) -> Self {
        Self { snapshots, resolver, tls }
    }

    /// Gets ready to serve these applications by this front, with the certificates of these settings, of which nothing else
    /// counts; a server that speaks no TLS goes on so. Changes nothing. Blocks on the disk and the resolver.
    ///
    /// # Errors
    /// Every fault found, one clear line each.
    pub fn prepare(&self, apps: &[App], server: &ServerConfig, front: Arc<dyn Front>) -> Result<Change, Vec<String>> {
        let before = self.snapshots.current();
        let snapshot = Snapshot::prepare(apps, &self.resolver, front, Some(&before));
        let spoken = if self.tls.is_some() { Spoken::load(server) } else { Ok(None) };
        match (snapshot, spoken) {
            (Ok(snapshot), Ok(spoken)) => {
                snapshot.find_names(Some(&before));
                Ok(Change { snapshot, spoken })
            }
            (snapshot, spoken) => Err(snapshot.err().into_iter().flatten().chain(spoken.err()).collect()),
        }
    }

    /// Makes the change. Requests that are under way go on as they began.
    pub fn apply(&self, change: Change) {
        if let (Some(tls), Some(spoken)) = (&self.tls, change.spoken) {
            tls.replace(spoken);
        }
        self.snapshots.set(change.snapshot);
    }
}

/// How often the front is told which servers take connections.
const TELL: Duration = Duration::from_secs(2);

/// Watches over an application's upstreams until `stop` turns true or its sender is gone. A watch that fails, for want of
/// a thread say, begins anew: without one, a server that is down would be asked for ever.
async fn watch_for_good(upstreams: Arc<Upstreams>, mut stop: watch::Receiver<bool>) {
    while let Err(error) = tokio::spawn(Arc::clone(&upstreams).watch(stop.clone())).await {
        tracing::error!(%error, "watching over an application's upstreams has failed; it begins anew");
        if timeout(WATCH_AGAIN, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Watches over the upstreams of the snapshot that is set, until `stop` turns true: those that a change brings from then on,
/// those that it takes away no more.
pub(crate) async fn watch_upstreams(snapshots: Arc<Snapshots>, mut stop: watch::Receiver<bool>) {
    let mut changed = snapshots.changed.subscribe();
    let mut running: Vec<(Arc<Upstreams>, watch::Sender<bool>)> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let snapshot = snapshots.current();
        // Dropping the sender ends the watch.
        running.retain(|(upstreams, _)| snapshot.upstreams.iter().any(|other| Arc::ptr_eq(other, upstreams)));
        for upstreams in snapshot.upstreams.iter() {
            if !running.iter().any(|(other, _)| Arc::ptr_eq(other, upstreams)) {
                let (end, ending) = watch::channel(false);
                tasks.spawn(watch_for_good(Arc::clone(upstreams), ending));
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
                // The sender lives as long as `snapshots`.
                _ = changed.changed() => break,
                () = tokio::time::sleep(TELL) => {
                    let snapshot = snapshots.current();
                    snapshot.front.upstreams(snapshot.upstreams.iter().flat_map(|upstreams| upstreams.states()).collect());
                }
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
    }
}
