//! The servers of an application: addresses, Unix sockets, and names that are looked up beside the requests, again and
//! again. Peers are built beforehand; requests go round robin over the servers that take connections.

mod lanes;
mod lookup;
mod pinned;
mod server;
mod source;
mod spent;
mod trust;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use lanes::Lanes;
pub(super) use lanes::Turn;
use lookup::LookupAnswer;
pub use lookup::Resolver;
pub(super) use pinned::{PinnedConnection, authenticates_connection};
pub(super) use server::UpstreamServer;
use source::{Address, UpstreamPlace, UpstreamSource};
pub(super) use spent::Handle;
use trust::{UpstreamTrust, stamps};

use super::listen::certificate::Stamp;
use crate::config::{App, Upstream};

const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How soon a name that could not be looked up is looked up again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a start waits for names. Slower ones are waited for beside the requests.
const FIRST_LOOKUP: Duration = Duration::from_secs(3);

/// The servers of one application.
pub(crate) struct Upstreams {
    app: App,
    resolver: Resolver,
    sources: Vec<UpstreamSource>,
    /// Those of all sources, as they are now.
    servers: RwLock<Arc<[Arc<UpstreamServer>]>>,
    turn: AtomicUsize,
    lanes: Arc<Lanes>,
    /// Held while the servers are put together anew.
    trust: Mutex<(Vec<Stamp>, UpstreamTrust)>,
}

impl Upstreams {
    /// The servers of the application, without those that are known by name only: see [`Upstreams::find_names`]. Reads the
    /// certificates.
    ///
    /// # Errors
    /// One line that names what cannot be used.
    pub(crate) fn new(app: &App, resolver: &Resolver) -> Result<Self, String> {
        let fault = |why: String| format!("app {}: {why}", app.name);
        if app.upstreams.is_empty() {
            return Err(fault("it has no upstream".to_owned()));
        }
        let sources = app
            .upstreams
            .iter()
            .map(|upstream| UpstreamSource::new(app, upstream))
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        let stamps = stamps(&app.upstream_tls);
        let trust = UpstreamTrust::read(&app.upstream_tls).map_err(fault)?;
        let upstreams = Self {
            app: app.clone(),
            resolver: resolver.clone(),
            sources,
            servers: RwLock::new(Arc::new([])),
            turn: AtomicUsize::new(0),
            lanes: Arc::new(Lanes::new(app.max_requests, app.max_requests_per_client)),
            trust: Mutex::new((stamps, trust)),
        };
        upstreams.assemble().map_err(fault)?;
        Ok(upstreams)
    }

    pub(super) fn app(&self) -> &str {
        &self.app.name
    }

    /// Whether a connection that has carried a body can carry the next request.
    pub(super) const fn read_bodies_whole(&self) -> bool {
        self.app.reads_bodies_whole
    }

    /// Whether the configuration names this server.
    pub(super) fn name(&self, upstream: &Upstream) -> bool {
        self.app.upstreams.contains(upstream)
    }

    /// Whether the application, as it is configured now, has just these upstreams and treats them alike.
    pub(super) fn are_those_of(&self, app: &App) -> bool {
        // What says who may come, and as whom, is nothing to them. A field that is added counts until it stands here.
        let App { host, url, routes, audience, clients, trusted_issuers, identity, .. } = self.app.clone();
        self.app == App { host, url, routes, audience, clients, trusted_issuers, identity, ..app.clone() }
    }

    /// Begins with what others know of the same names and addresses: until a lookup and a check say more.
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
        if let Err(why) = self.assemble() {
            tracing::error!(app = self.app.name, why, "the upstream cannot be used");
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

    /// Looks up all names, and waits a moment for the answers. Blocks: for the start, and for threads of their own. A name
    /// that has no answer by then is looked up further by [`Upstreams::watch`].
    pub(crate) fn find_names(all: &[Arc<Self>]) {
        let (pending, answered) = mpsc::channel::<Infallible>();
        for upstreams in all {
            for (index, source) in upstreams.sources.iter().enumerate() {
                let UpstreamPlace::Named { host, port, .. } = &source.place else { continue };
                let (this, pending) = (Arc::clone(upstreams), pending.clone());
                upstreams.resolver.begin(host, *port, move |answer| {
                    this.learn(index, answer);
                    drop(pending);
                });
            }
        }
        drop(pending);
        // Nothing is sent: the channel ends when everybody has let go of it.
        let _ = answered.recv_timeout(FIRST_LOOKUP);
        for upstreams in all {
            for (index, source) in upstreams.sources.iter().enumerate() {
                if let UpstreamPlace::Named { found, .. } = &source.place
                    && found.read().unwrap_or_else(PoisonError::into_inner).addresses.is_empty()
                {
                    upstreams.learn(index, Err("there is no answer yet".to_owned()));
                }
            }
        }
    }

    /// Waits for a request's turn; none when it does not come in time. See [`Lanes::turn`].
    pub(super) async fn turn(&self, client: Option<IpAddr>) -> Option<Turn> {
        self.lanes.turn(client).await
    }

    /// Whether there is more than one server.
    pub(super) fn has_choice(&self) -> bool {
        self.current().len() > 1
    }

    /// The next server: one that is alive and not `avoid`; failing that any but `avoid`; failing that any. A check can lag
    /// behind, so that a server thought dead is worth a try when there is no better one. None while no name is known.
    pub(super) fn pick(&self, avoid: Option<&Arc<UpstreamServer>>) -> Option<Arc<UpstreamServer>> {
        let servers = self.current();
        if let [only] = &*servers {
            return Some(Arc::clone(only));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let avoided = |server: &Arc<UpstreamServer>| avoid.is_some_and(|avoid| avoid.address == server.address);
        // Counted before one is taken, so that the dead one's share goes to all the others alike.
        let among = |fits: &dyn Fn(&Arc<UpstreamServer>) -> bool| {
            let count = servers.iter().filter(|server| fits(server)).count();
            servers.iter().filter(|server| fits(server)).nth(turn.checked_rem(count)?).map(Arc::clone)
        };
        among(&|server| server.is_alive() && !avoided(server))
            .or_else(|| among(&|server| !avoided(server)))
            .or_else(|| among(&|_| true))
    }

    /// The server of a client's own upstream connection, while it is alive and not `avoid`: its application knows the client by
    /// the connection.
    pub(super) fn pinned(
        &self,
        pinned: &PinnedConnection,
        avoid: Option<&Arc<UpstreamServer>>,
    ) -> Option<Arc<UpstreamServer>> {
        let address = pinned.server().filter(|address| avoid.is_none_or(|avoid| avoid.address != *address))?;
        self.current().iter().find(|server| server.address == address && server.is_alive()).map(Arc::clone)
    }

    /// Whether each server takes connections, as far as is known: application, server, whether it does.
    pub(super) fn states(&self) -> Vec<(String, String, bool)> {
        let state =
            |server: &Arc<UpstreamServer>| (self.app.name.clone(), server.address.to_string(), server.is_alive());
        self.current().iter().map(state).collect()
    }

    fn current(&self) -> Arc<[Arc<UpstreamServer>]> {
        Arc::clone(&self.servers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the servers, looks names up and certificates over, until `stop` turns true or its sender is gone.
    pub(crate) async fn watch(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut lookups = JoinSet::new();
        for index in 0..self.sources.len() {
            lookups.spawn(Arc::clone(&self).follow_name(index, stop.clone()));
        }
        loop {
            let mut checks = JoinSet::new();
            for server in self.current().iter() {
                let (this, server) = (Arc::clone(&self), Arc::clone(server));
                checks.spawn(async move { server.check(&this.app.name).await });
            }
            checks.join_all().await;
            let this = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || this.look_at_files()).await {
                tracing::error!(%error, "looking at an application's certificates has failed");
            }
            if timeout(CHECK_EVERY, stop.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
        }
    }

    /// Looks a name up over and over. An answer that never comes holds up nobody but the name itself.
    async fn follow_name(self: Arc<Self>, index: usize, mut stop: watch::Receiver<bool>) {
        let Some(source) = self.sources.get(index) else { return };
        let UpstreamPlace::Named { host, port, found } = &source.place else { return };
        loop {
            let good = found.read().unwrap_or_else(PoisonError::into_inner).is_good();
            let pause = if good { self.resolver.every } else { AGAIN.min(self.resolver.every) };
            if timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
            let (tell, told) = oneshot::channel();
            // Nobody waits for it any more after a stop.
            self.resolver.begin(host, *port, move |answer| drop(tell.send(answer)));
            let answer = tokio::select! {
                answer = told => answer,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            self.learn(index, answer.unwrap_or_else(|_| Err("no thread can be started".to_owned())));
        }
    }

    /// Takes in what was found out about a source's name. The last good addresses outlive any failure.
    fn learn(&self, index: usize, answer: LookupAnswer) {
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
                tracing::info!(app, host, ?addresses, "the upstream's name has been found");
                known.addresses = addresses;
            }
            Err(why) => {
                if !std::mem::replace(&mut known.failing, true) {
                    let consequence = if known.addresses.is_empty() {
                        "requests to it are answered 502 until it is found"
                    } else {
                        "its last addresses stay in use"
                    };
                    tracing::warn!(app, host, why, "the upstream's name cannot be found; {consequence}");
                }
                return;
            }
        }
        drop(known);
        if let Err(why) = self.assemble() {
            tracing::error!(app, host, why, "the upstream cannot be used");
        }
    }

    /// Reads the certificates again when their files have changed. Blocks on the disk.
    fn look_at_files(&self) {
        let (app, stamps) = (&self.app.name, stamps(&self.app.upstream_tls));
        {
            let mut trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
            if trust.0 == stamps {
                return;
            }
            trust.0 = stamps;
            match UpstreamTrust::read(&self.app.upstream_tls) {
                Ok(new) => trust.1 = new,
                Err(why) => {
                    tracing::warn!(app, why, "the certificates for the upstreams stay, the new files will not do");
                    return;
                }
            }
        }
        match self.assemble() {
            Ok(()) => tracing::info!(app, "new certificates for the upstreams are in use"),
            Err(why) => tracing::error!(app, why, "the new certificates for the upstreams cannot be used"),
        }
    }

    /// Puts the servers together from what is known of the sources now.
    fn assemble(&self) -> Result<(), String> {
        let trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
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
                // Two names of one address are one server.
                if servers.iter().any(|server| server.address == address) {
                    continue;
                }
                let old = before.iter().find(|server| server.address == address);
                let server = UpstreamServer::new(&self.app, address, source, &trust.1)?;
                if let Some(old) = old {
                    server.inherit(old);
                }
                servers.push(Arc::new(server));
            }
        }
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
