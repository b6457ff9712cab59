//! Assembly of the program, from a checked configuration to a running server.
//!
//! All errors of a start occur here, before a socket accepts connections. Each error has a line
//! that says what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::app::reload;
use crate::app::reload::Reloader;
use crate::app::rotation;
use crate::app::sealing;
use crate::app::sealing::NoDataKey;
use crate::app::server::{Background, Server, ServerParts, Stop, StopSignal};
use crate::app::site::Site;
use crate::app::{
    certificates, client_logouts, counting, defined_clients, directories, enrolment, memory, outbox, relying_party,
    sweeping, traces, upstreams,
};
use sealgate_admin as admin;
use sealgate_config::{Config, StoreConfig};
use sealgate_core::client_keys::ClientKeys;
use sealgate_core::reload::Reload;
use sealgate_core::state::Parts;
use sealgate_core::state::{NotServing, Sealgate};
use sealgate_core::tokens::{client_key_sets, documents, trusted};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_edge::{Challenges, LoopMark, Resolver, TokenKeys, inherited_sockets};
use sealgate_gateway::max_login_threads;
use sealgate_signer::{ErrorClass, Observer, Pkcs11Signer, SignError};
use sealgate_store::Store;
use sealgate_store::engine::{CommitObserver, Engine, Heartbeat, RerunCause};
use sealgate_store::postgres::{PostgresEngine, PostgresSettings};
use sealgate_store::sealer::Sealer;
use sealgate_store::sled::{CopyVerifier, Options, SledEngine};
use sealgate_system::clock::{OsEntropy, SystemClock, wall_clock_seconds};
use sealgate_system::log::SetFilter;
use sealgate_system::metrics::Metrics;

/// The configuration file for reloads, and the setter of the log filter.
pub(crate) struct ReloadInputs {
    pub file: PathBuf,
    pub set_filter: SetFilter,
}

/// Serves until stopped.
///
/// # Errors
/// The reason why serving could not start.
pub(crate) fn run(config: Config, reload_inputs: ReloadInputs, signal: StopSignal) -> Result<(), NotServing> {
    memory::set_huge_pages(config.server.huge_pages);
    crate::app::server::log_panics();
    let line = |error: String| vec![error];
    block_on(async { reload::handle_hangup().map_err(line) })?;
    let metrics = Arc::new(new_metrics().map_err(line)?);
    let watch = Arc::new(StoreWatch(Arc::clone(&metrics)));
    let bind = |path: &Path| admin::socket::bind(path).map_err(|error| line(error.to_string()));
    // Bind the socket before a shared store is opened. Binding fails if another process with this
    // configuration is running. If this process joined the cluster first, it would evict that
    // process, because both have the same node name. A local store has a lock of its own.
    let socket = match &config.store {
        StoreConfig::Postgres(_) => Some(bind(&config.admin.socket)?),
        StoreConfig::Sled(_) => None,
    };
    let engine = open_engine(&config, watch)?;
    let sealer = block_on(open_sealer(&config, Arc::clone(&engine)))?;
    let signer = Pkcs11Signer::open(&config.hsm, Arc::new(SignerWatch(Arc::clone(&metrics))))
        .map_err(|error| NotServing { lines: line(error.to_string()), is_transient: error.is_transient() })?
        .with_token_holder(config.token_holder());
    let signer = Arc::new(signer);
    let (token_keys, closing) = (TokenKeys::new(Arc::clone(&signer)), Arc::clone(&engine));
    let parts = Parts {
        config,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(OsEntropy),
        engine,
        client_keys: Arc::new(ClientKeys::new(Arc::clone(&signer))),
        signer,
        metrics,
    };
    let sealgate = Arc::new(block_on(async {
        let sealgate = parts.assemble().await?;
        relying_party::apply(&sealgate.config, &sealgate.store, &sealgate.audit, sealgate.clock.now()).await?;
        attach_sealer(sealgate, sealer).await
    })?);
    sealgate.metrics.configured(sealgate.clock.now().seconds());
    let site = Arc::new(Site::new(Arc::clone(&sealgate)));
    let config = &sealgate.config;
    let [last, keeping, beating, reporting] = std::array::from_fn(|_| Arc::clone(&site));
    let own = || Arc::clone(&sealgate);
    let (rotating, people, mailing, sweeping, bounded, ordering) = (own(), own(), own(), own(), own(), own());
    let (reading, confirming, fetching, signing_out) = (own(), own(), own(), own());
    let challenges = Arc::<Challenges>::default();
    certificates::prepare(config).map_err(line)?;
    let (tracer, exporter) = traces::prepare(config, &sealgate.metrics).map_err(line)?.unzip();
    let last_traces = exporter.clone();
    let socket = socket.map_or_else(|| bind(&config.admin.socket), Ok)?;
    let mut server = Server::prepare(ServerParts {
        server: config.server.clone(),
        https: config.issuer.is_https(),
        admin: config.admin.listen,
        sockets: inherited_sockets().map_err(line)?,
        apps: config.apps.clone(),
        loop_mark: LoopMark::new(config.issuer.as_str()),
        resolver: Resolver::system(),
        challenges: Arc::clone(&challenges),
        token_keys: Some(token_keys),
        front: Arc::clone(&site) as Arc<dyn sealgate_edge::Front>,
        health: Arc::clone(&site) as Arc<dyn sealgate_edge::Health>,
        tracer,
        background: vec![
            Background::new("store", |stop| keeping.run(stop)),
            Background::new("heartbeat", |stop| beating.run_heartbeat(stop)),
            Background::new("answers", |stop| reporting.report_answers(stop)),
            Background::new("sweeping", |stop| sweeping::run(sweeping, stop)),
            Background::new("trusted issuers", |stop| read_trusted(fetching, stop)),
            Background::new("key rotation", |stop| rotation::run(rotating, stop)),
            Background::new("directories", |stop| directories::run(reading, stop)),
            Background::new("openid providers", |stop| upstreams::run(confirming, stop)),
            Background::new("people", |stop| enrolment::run(people, stop)),
            Background::new("counting", |stop| counting::run(bounded, stop)),
            Background::new("outbox", |stop| outbox::run(mailing, stop)),
            Background::new("client logouts", |stop| client_logouts::run(signing_out, stop)),
            Background::new("certificate orders", |stop| certificates::run(ordering, challenges, stop)),
        ],
        waiting_threads: waiting_threads(config),
        stopped: Box::new(move || {
            Box::pin(async move {
                if let Some(exporter) = last_traces {
                    exporter.flush().await;
                }
                last.report_last_answers().await;
                last.write_last_audit().await;
                // May block for up to ten seconds. That is harmless because no other task is running,
                // and `spawn_blocking` might not get a thread.
                closing.close();
            })
        }),
    })?;
    // This is the last step that can fail. So no client is changed if the start fails.
    let store = async { defined_clients::store(&sealgate, &sealgate.config.clients).await.map_err(NotServing::from) };
    let removed = block_on(store)?;
    let ending = Arc::clone(&sealgate);
    server.add_background(Background::new("removed clients", |_| async move {
        defined_clients::end_grants(&ending, &removed).await;
    }));
    if let Some(exporter) = exporter {
        server.add_background(Background::new("traces", |stop| exporter.run(stop)));
    }
    let reloader = Arc::new(Reloader::new(reload_inputs.file, server.edge_updater(), reload_inputs.set_filter, site));
    let commanded = Arc::clone(&reloader) as Arc<dyn Reload>;
    sealgate.reload.set(&commanded);
    server.add_background(Background::new("reload", |stop| reloader.listen(stop)));
    let serve = |stop| admin::socket::serve(socket, sealgate, commanded, stop);
    server.add_background(Background::new("admin socket", serve));
    Ok(server.run(signal).map_err(line)?)
}

/// Returns the maximum number of threads that wait for other servers at the same time. Without threads of
/// their own, slow servers would delay the work of all users.
fn waiting_threads(config: &Config) -> usize {
    let providers = config.upstreams.len() * sealgate_upstream::MAX_THREADS;
    let logins: usize = config.apps.iter().filter_map(|app| app.login.as_ref()).map(max_login_threads).sum();
    let documents = if config.registration.document_hosts.is_empty() { 0 } else { documents::MAX_WAITING };
    let keys = if config.trusted_issuers.is_empty() { 0 } else { trusted::MAX_FETCHES };
    providers + logins + documents + keys + client_key_sets::MAX_WAITING + client_logouts::MAX_PARALLEL
}

async fn read_trusted(sealgate: Arc<Sealgate>, stop: Stop) {
    let (trust, clock) = (Arc::clone(&sealgate.trust), Arc::clone(&sealgate.clock));
    trusted::run(trust, clock, Arc::clone(&sealgate.metrics), stop).await;
}

/// Returns metrics with a series for each kind of error.
fn new_metrics() -> Result<Metrics, String> {
    let metrics = Metrics::new().map_err(|error| format!("metrics: {error}"))?;
    metrics.init_sign_errors(ErrorClass::ALL.map(ErrorClass::as_str));
    metrics.init_tls_sign_errors(SignError::CLASSES.map(ErrorClass::as_str));
    metrics.init_reruns(RerunCause::ALL.map(RerunCause::as_str));
    Ok(metrics)
}

/// Gives the sealer to the store. Without a sealer, features that need it are off or prevent startup.
async fn attach_sealer(mut sealgate: Sealgate, sealer: Result<Sealer, NoDataKey>) -> Result<Sealgate, NotServing> {
    let line = |error: String| vec![error];
    match sealer {
        Ok(sealer) => {
            let most_forms = sealgate.config.sessions.max_forms;
            let store =
                Arc::into_inner(sealgate.store).ok_or_else(|| line("store: another process uses it".to_owned()))?;
            sealgate.store = Arc::new(store.sealing_with(sealer, most_forms).await?);
        }
        Err(no_data_key) => {
            if let Some(fault) = sealgate.config.registration_of_people.fault_without_sealing() {
                let of_cluster = no_data_key == NoDataKey::NotAdmitted;
                return Err(line(if of_cluster { no_data_key.to_string() } else { fault }).into());
            }
            tracing::warn!("{no_data_key}");
            if no_data_key == NoDataKey::NoWrappingKey && sealgate.config.mail.is_some() {
                tracing::warn!("{}", sealing::NO_MAIL);
            }
        }
    }
    Ok(sealgate)
}

fn open_engine(config: &Config, watch: Arc<StoreWatch>) -> Result<Arc<dyn Engine>, NotServing> {
    match &config.store {
        StoreConfig::Sled(settings) => {
            let options = Options { verifier: CopyVerifier::Apart, ..Options::default() };
            let engine = SledEngine::open_with(settings, options, watch);
            Ok(Arc::new(engine.map_err(|error| vec![error.to_string()])?))
        }
        StoreConfig::Postgres(settings) => {
            let settings = PostgresSettings::from_config(settings, config.cluster.as_ref())?;
            let settings = PostgresSettings { wall_clock: Some(wall_clock_seconds), ..settings };
            let opened = async { Ok::<_, NotServing>(PostgresEngine::open(&settings, watch).await?) };
            Ok(Arc::new(block_on(opened)?))
        }
    }
}

async fn open_sealer(config: &Config, engine: Arc<dyn Engine>) -> Result<Result<Sealer, NoDataKey>, NotServing> {
    let store = Store::open(engine, config.sessions.max_interactions).await?;
    Ok(match config.token_holder() {
        Some(holder) => sealing::open_or_receive(&config.hsm, &store, &holder, &OsEntropy).await?,
        None => sealing::open(&config.hsm, &store, &OsEntropy).await?,
    })
}

/// Runs an async step of the start, before the server has its own runtimes.
fn block_on<T, E: From<Vec<String>>>(step: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| vec![format!("cannot start a runtime: {error}")])?.block_on(step)
}

/// Records the signer's events in metrics.
struct SignerWatch(Arc<Metrics>);

impl Observer for SignerWatch {
    fn signed(&self, algorithm: Algorithm, _waited: Duration, took: Duration) {
        self.0.signed(algorithm.name(), took.as_secs_f64());
    }

    fn tls_signed(&self, took: Duration) {
        self.0.tls_signed(took.as_secs_f64());
    }

    fn tls_failed(&self, class: ErrorClass) {
        self.0.tls_sign_failed(class.as_str());
    }

    fn queue_length(&self, jobs: usize) {
        self.0.sign_queue.set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    fn failed(&self, class: ErrorClass) {
        self.0.sign_failed(class.as_str());
    }

    fn reset(&self) {
        self.0.sign_resets.inc();
    }

    fn ready(&self, ready: bool) {
        self.0.sign_ready.set(i64::from(ready));
    }
}

/// Records the store's events in metrics.
struct StoreWatch(Arc<Metrics>);

impl CommitObserver for StoreWatch {
    fn committed(&self, operations: usize, seconds: f64) {
        self.0.store_batches.inc();
        self.0.store_commits.inc_by(operations as u64);
        self.0.store_batch_seconds.observe(seconds);
    }

    fn queue(&self, waiting: usize) {
        self.0.store_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    fn beat(&self, beat: &Heartbeat) {
        self.0.beat(beat.seconds, beat.at, beat.nodes, beat.clock_offset);
    }

    fn rerun(&self, cause: RerunCause) {
        self.0.store_rerun(cause.as_str());
    }

    fn connected(&self, timeline: Option<u32>) {
        self.0.store_connected(timeline);
    }

    fn backed_up(&self, at: u64) {
        self.0.backed_up(at);
    }
}
