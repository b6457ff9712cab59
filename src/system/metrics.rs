//! All Prometheus metrics, each declared once. Label values come from enums or the configuration,
//! never from a request.

mod client_logouts;
mod cluster;
mod directories;
mod limits;
mod mail;
mod of_threads;
mod openid_providers;
mod registry;
mod tls;
mod traces;
mod upstreams;
mod users;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::log;
use client_logouts::ClientLogoutSeries;
use cluster::ClusterSeries;
use directories::DirectorySeries;
use limits::LimitSeries;
use mail::MailSeries;
use of_threads::OfThreads;
use openid_providers::OpenIdProviderSeries;
use registry::{SECONDS, Series, SeriesRegistry};
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod};
use sealgate_domain::mail::MailKind;
use tls::TlsSeries;
use traces::TraceSeries;
use upstreams::UpstreamSeries;
use users::FactorSeries;

pub use client_logouts::ClientLogoutOutcome;
pub use directories::{DirectoryReadOutcome, DirectorySignInOutcome};
pub use limits::BlockOutcome;
pub use mail::MailOutcome;
pub use openid_providers::{UpstreamLogoutOutcome, UpstreamRefreshOutcome, UpstreamSignInOutcome};
pub use tls::AcmeOutcome;
pub use users::RegistrationOutcome;
pub use users::{EnrolmentShare, FactorOutcome};

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    series: Vec<Series>,
    requests: OfThreads<IntCounterVec>,
    request_seconds: OfThreads<HistogramVec>,
    limits: LimitSeries,
    tokens: IntCounterVec,
    sign_ins: IntCounterVec,
    self_registrations: IntCounterVec,
    client_assertions: IntCounterVec,
    replays: IntCounterVec,
    gate: OfThreads<IntCounterVec>,
    turned_away: IntCounterVec,
    upstream_requests: OfThreads<IntCounterVec>,
    app_sign_ins: IntCounterVec,
    upstream_seconds: OfThreads<HistogramVec>,
    /// Seconds that the PKCS#11 token took for a signature.
    pub sign_seconds: Histogram,
    pub sign_queue: IntGauge,
    sign_errors: IntCounterVec,
    signatures_made: IntCounterVec,
    /// Sum of `sign_errors` for [`Measurements`]; not exported.
    signatures_failed: IntCounter,
    /// 1 while the PKCS#11 token signs, 0 during a repair.
    pub sign_ready: IntGauge,
    /// Number of resets of the PKCS#11 module.
    pub sign_resets: IntCounter,
    /// Number of signing key rotations that this node started itself.
    pub key_rotations: IntCounter,
    /// 1 while a due rotation fails.
    pub key_rotation_failing: IntGauge,
    /// Number of keys of other nodes that this node has not endorsed.
    pub keys_unendorsed: IntGauge,
    /// Number of committed batches.
    pub store_batches: IntCounter,
    pub store_commits: IntCounter,
    /// Seconds from the start of a batch to its commit.
    pub store_batch_seconds: Histogram,
    pub store_queue: IntGauge,
    pub connections: IntGauge,
    /// Number of pending sign-ins.
    pub interactions: IntGauge,
    pub swept: IntCounter,
    /// Number of expired records that are not yet removed, counted up to a bound.
    pub expired_pending: IntGauge,
    /// Has no series if the store is in PostgreSQL.
    last_backup: IntGaugeVec,
    leases: IntGaugeVec,
    factors: FactorSeries,
    mails: MailSeries,
    client_logouts: ClientLogoutSeries,
    cluster: ClusterSeries,
    directories: DirectorySeries,
    openid_providers: OpenIdProviderSeries,
    foreign: ForeignSeries,
    reloads: IntCounterVec,
    tls: TlsSeries,
    traces: TraceSeries,
    upstreams: UpstreamSeries,
    reload_succeeded: IntGauge,
    log_dropped: IntCounter,
    configured: IntGauge,
}

/// Summary of the metrics for the status command. Counts and means start with the process.
#[derive(Debug, Clone, Copy)]
pub struct Measurements {
    pub signatures: u64,
    pub signatures_failed: u64,
    /// Zero if there was no signature.
    pub mean_signature: Duration,
    /// Zero if there was no commit.
    pub mean_commit: Duration,
    /// Whether the last reload was refused.
    pub reload_refused: bool,
}

#[expect(clippy::cast_precision_loss, reason = "a mean for users")]
fn mean(histogram: &Histogram) -> Duration {
    let mean = histogram.get_sample_sum() / histogram.get_sample_count() as f64;
    Duration::try_from_secs_f64(mean).unwrap_or_default()
}

/// Metrics about tokens and keys of other issuers.
struct ForeignSeries {
    tokens: IntCounterVec,
    reads: IntCounterVec,
    keys: IntGaugeVec,
    read_at: IntGaugeVec,
}

const PAGE_HEAD: &str = "\
# Metrics

Every series of `/metrics`, on the listener that `admin.listen` names. This page is made from the program (`sealgate documents
--to DIR`), and a test compares the two. A histogram has `_bucket`, `_sum` and `_count` behind its name; times are in
seconds. Labels are words of the program or names of the configuration, never what a request sent; a series whose labels
come with the first event is absent until then.

`conf/prometheus/sealgate.rules.yml` has alerts and `conf/grafana/sealgate.json` a dashboard for import into Grafana. Both expect
the job to be called `sealgate`:

```yaml
scrape_configs:
  - job_name: sealgate
    static_configs:
      - targets: [\"127.0.0.1:9100\"]
```

| name | type | labels | what it is |
|---|---|---|---|
";

fn leases(registry: &SeriesRegistry) -> Result<IntGaugeVec, prometheus::Error> {
    let help = "1 while this node holds the lease of a cluster task: see docs/explanation/cluster.md.";
    let gauges = IntGaugeVec::new(Opts::new("sealgate_cluster_lease_held", help), &["name"])?;
    registry.register("gauge", &gauges)?;
    Ok(gauges)
}

fn last_backup(registry: &SeriesRegistry) -> Result<IntGaugeVec, prometheus::Error> {
    let help = "Time of the last verified backup (`sealgate backup`), seconds since 1970; 0 if there is none. Absent for \
        a store in PostgreSQL.";
    let gauges = IntGaugeVec::new(Opts::new("sealgate_store_last_backup_timestamp_seconds", help), &[])?;
    registry.register("gauge", &gauges)?;
    Ok(gauges)
}

/// Kind of an issued token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Access,
    Id,
    Refresh,
    Code,
    /// Access token that a client got in its own name.
    Service,
}

/// Outcome of a sign-in attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInOutcome {
    Succeeded,
    Failed,
    /// Rejected without checking the password, after too many failures.
    Throttled,
}

/// Kind of a replayed credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    Code,
    RefreshToken,
}

impl TokenKind {
    const ALL: [Self; 5] = [Self::Access, Self::Id, Self::Refresh, Self::Code, Self::Service];

    fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access_token",
            Self::Id => "id_token",
            Self::Refresh => "refresh_token",
            Self::Code => "code",
            Self::Service => "service_access_token",
        }
    }
}

impl SignInOutcome {
    const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Throttled];

    fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
        }
    }
}

impl Replayed {
    const ALL: [Self; 2] = [Self::Code, Self::RefreshToken];

    fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::RefreshToken => "refresh_token",
        }
    }
}

fn reload_result(applied: bool) -> &'static str {
    if applied { "applied" } else { "refused" }
}

impl Metrics {
    /// Creates all metrics with value zero.
    ///
    /// # Errors
    /// If two metrics share a name. This is a bug that makes every start fail.
    #[expect(clippy::too_many_lines, reason = "a table of all time series")]
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = SeriesRegistry::with_process_series()?;
        let counters = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        let counter = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let counter = IntCounter::new(name, help)?;
            registry.register("counter", &counter)?;
            Ok(counter)
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register("gauge", &gauge)?;
            Ok(gauge)
        };
        let histogram = |name: &str, help: &str| -> Result<Histogram, prometheus::Error> {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()))?;
            registry.register("histogram", &histogram)?;
            Ok(histogram)
        };
        let of_threads = |name: &str, help: &str, labels: &'static [&'static str]| {
            let opts = Opts::new(name, help);
            let counters = OfThreads::new(move || IntCounterVec::new(opts.clone(), labels))?;
            registry.register("counter", &counters)?;
            Ok::<_, prometheus::Error>(counters)
        };
        let histograms = |name: &str, help: &str, label: &'static str| {
            let opts = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            let histograms = OfThreads::new(move || HistogramVec::new(opts.clone(), &[label]))?;
            registry.register("histogram", &histograms)?;
            Ok::<_, prometheus::Error>(histograms)
        };
        let metrics = Self {
            requests: of_threads(
                "sealgate_requests_total",
                "Requests answered, by endpoint.",
                &["endpoint", "status"],
            )?,
            request_seconds: histograms("sealgate_request_seconds", "Time to answer a request.", "endpoint")?,
            limits: LimitSeries::new(&registry)?,
            tokens: counters("sealgate_tokens_issued_total", "Tokens and codes issued.", &["kind"])?,
            sign_ins: counters("sealgate_sign_ins_total", "Sign-in attempts.", &["outcome"])?,
            client_assertions: counters(
                "sealgate_client_assertions_total",
                "Signed assertions of clients (private_key_jwt), by result.",
                &["outcome"],
            )?,
            self_registrations: counters(
                "sealgate_self_registrations_total",
                "Self-registrations of users, by stage reached.",
                &["outcome"],
            )?,
            replays: counters("sealgate_replays_total", "Codes and refresh tokens presented again.", &["kind"])?,
            gate: of_threads("sealgate_gate_decisions_total", "Decisions of the gateway.", &["app", "decision"])?,
            turned_away: counters(
                "sealgate_connections_turned_away_total",
                "Connections closed before a response, and open exchanges closed because access was revoked.",
                &["reason"],
            )?,
            upstream_requests: of_threads(
                "sealgate_upstream_requests_total",
                "Requests answered by an upstream, or by Sealgate when the upstream failed.",
                &["app", "status"],
            )?,
            app_sign_ins: counters(
                "sealgate_app_sign_ins_total",
                "Sign-ins of the gateway by the login form of an application.",
                &["app", "outcome"],
            )?,
            upstream_seconds: histograms("sealgate_upstream_seconds", "Time of a proxied request.", "app")?,
            sign_seconds: histogram("sealgate_sign_seconds", "Duration of one signature in the PKCS#11 token.")?,
            sign_queue: gauge(
                "sealgate_sign_queue_length",
                "Signatures that wait for a session of the PKCS#11 token.",
            )?,
            sign_errors: counters("sealgate_sign_errors_total", "Signatures that failed.", &["class"])?,
            signatures_made: counters("sealgate_signatures_total", "Signatures of tokens, by algorithm.", &["alg"])?,
            signatures_failed: IntCounter::new("signatures_failed", "Not exported.")?,
            sign_ready: gauge("sealgate_sign_ready", "1 while the PKCS#11 token signs, 0 during a repair.")?,
            sign_resets: counter("sealgate_sign_resets_total", "Resets of the PKCS#11 module.")?,
            key_rotations: counter(
                "sealgate_key_rotations_total",
                "Automatic rotations of the signing key by this server.",
            )?,
            keys_unendorsed: gauge(
                "sealgate_keys_unendorsed",
                "Keys of other nodes that this node has not endorsed. This node refuses tokens signed with such a key.",
            )?,
            key_rotation_failing: gauge(
                "sealgate_key_rotation_failing",
                "1 while a due rotation of the signing key fails.",
            )?,
            log_dropped: counter(
                "sealgate_log_lines_dropped_total",
                "Log lines dropped because the log buffer was full.",
            )?,
            store_batches: counter("sealgate_store_batches_total", "Batches made durable, one disk barrier each.")?,
            store_commits: counter("sealgate_store_commits_total", "Commits in all batches.")?,
            store_batch_seconds: histogram("sealgate_store_batch_seconds", "Time of one batch.")?,
            store_queue: gauge("sealgate_store_queue_length", "Commits in the queue.")?,
            connections: gauge("sealgate_connections", "Open client connections.")?,
            interactions: gauge("sealgate_interactions", "Pending sign-ins.")?,
            swept: counter("sealgate_store_swept_total", "Expired records removed.")?,
            expired_pending: gauge(
                "sealgate_store_expired_pending",
                "Expired records that the last sweep did not remove, counted up to 16384.",
            )?,
            last_backup: last_backup(&registry)?,
            leases: leases(&registry)?,
            factors: FactorSeries::new(&registry)?,
            mails: MailSeries::new(&registry)?,
            client_logouts: ClientLogoutSeries::new(&registry)?,
            cluster: ClusterSeries::new(&registry)?,
            directories: DirectorySeries::new(&registry)?,
            openid_providers: OpenIdProviderSeries::new(&registry)?,
            foreign: ForeignSeries::new(&registry)?,
            reloads: counters("sealgate_config_reloads_total", "Reloads of the configuration.", &["result"])?,
            reload_succeeded: gauge(
                "sealgate_config_last_reload_successful",
                "0 after a refused reload: the running configuration differs from the file.",
            )?,
            configured: gauge(
                "sealgate_config_last_reload_success_timestamp_seconds",
                "Time at which the running configuration was loaded, at start or by a reload.",
            )?,
            tls: TlsSeries::new(&registry)?,
            upstreams: UpstreamSeries::new(&registry)?,
            traces: TraceSeries::new(&registry)?,
            series: registry.series.into_inner(),
            registry: registry.registry,
        };
        Ok(metrics.initialized())
    }

    /// Sets series with fixed labels to zero, so that a rate includes the first event.
    fn initialized(self) -> Self {
        for outcome in SignInOutcome::ALL {
            self.sign_ins.with_label_values(&[outcome.as_str()]);
        }
        for outcome in RegistrationOutcome::ALL {
            self.self_registrations.with_label_values(&[outcome.as_str()]);
        }
        self.factors.init_labels();
        self.mails.init_labels();
        self.client_logouts.init_labels();
        self.limits.init_labels();
        self.tls.init_labels();
        self.traces.init_labels();
        for kind in TokenKind::ALL {
            self.tokens.with_label_values(&[kind.as_str()]);
        }
        for kind in Replayed::ALL {
            self.replays.with_label_values(&[kind.as_str()]);
        }
        for applied in [true, false] {
            self.reloads.with_label_values(&[reload_result(applied)]);
        }
        self
    }

    /// Sets the counters of these error classes to zero.
    pub fn init_sign_errors(&self, classes: impl IntoIterator<Item = &'static str>) {
        for class in classes {
            self.sign_errors.with_label_values(&[class]);
        }
    }

    /// Counts a signature of a token. `took` is the time in the PKCS#11 token, in seconds.
    pub fn signed(&self, alg: &str, took: f64) {
        self.sign_seconds.observe(took);
        self.signatures_made.with_label_values(&[alg]).inc();
    }

    /// Sets the counters of failed TLS signatures of these classes to zero.
    pub fn init_tls_sign_errors(&self, classes: impl IntoIterator<Item = &'static str>) {
        classes.into_iter().for_each(|class| self.tls.init_sign_errors(class));
    }

    /// Returns the contents of `docs/reference/metrics.md`: a table of all metrics.
    pub fn page(&self) -> String {
        let mut series: Vec<&Series> = self.series.iter().collect();
        series.sort_by(|a, b| a.name.cmp(&b.name));
        let mut page = String::from(PAGE_HEAD);
        for Series { name, kind, labels, help } in series {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
        }
        page
    }

    /// Records a heartbeat of this node.
    ///
    /// The heartbeat took `seconds`. The database confirmed it at `at` by the database's clock, in
    /// seconds since 1970. The database's clock is ahead of the local clock by `clock_offset`
    /// seconds.
    pub fn beat(&self, seconds: f64, at: f64, nodes: u32, clock_offset: f64) {
        self.cluster.beat(seconds, at, nodes, clock_offset);
    }

    /// Sets the counters of these retry causes to zero.
    pub fn init_reruns(&self, causes: impl IntoIterator<Item = &'static str>) {
        self.cluster.init_labels(causes);
    }

    /// Counts a retried batch of commits.
    pub fn store_rerun(&self, cause: &'static str) {
        self.cluster.rerun(cause);
    }

    /// Records a connection for commits to a server on this timeline; `None` records a failed
    /// connection.
    pub fn store_connected(&self, timeline: Option<u32>) {
        self.cluster.connected(timeline);
    }

    /// Records when the last backup was made, in seconds since 1970. Zero means that there is no
    /// backup.
    pub fn backed_up(&self, at: u64) {
        self.last_backup.with_label_values::<&str>(&[]).set(i64::try_from(at).unwrap_or(i64::MAX));
    }

    /// Records that the running configuration was loaded at `now`, in seconds since 1970.
    pub fn configured(&self, now: u64) {
        self.configured.set(i64::try_from(now).unwrap_or(i64::MAX));
        self.reload_succeeded.set(1);
    }

    /// Returns when the running configuration was loaded, in seconds since 1970.
    pub fn configured_at(&self) -> u64 {
        u64::try_from(self.configured.get()).unwrap_or_default()
    }

    /// Returns by how many seconds the database's clock is ahead of this machine's, as the last heartbeat
    /// measured it. Zero without a database.
    pub fn clock_offset(&self) -> f64 {
        self.cluster.clock_offset()
    }

    /// Returns the summary for the status command.
    pub fn measurements(&self) -> Measurements {
        Measurements {
            signatures: self.sign_seconds.get_sample_count(),
            signatures_failed: self.signatures_failed.get(),
            mean_signature: mean(&self.sign_seconds),
            mean_commit: mean(&self.store_batch_seconds),
            reload_refused: self.reload_succeeded.get() == 0,
        }
    }

    /// Records when a certificate in use expires, in seconds since 1970.
    pub fn certificate(&self, file: &Path, ends: i64) {
        self.tls.certificate(file, ends);
    }

    /// Replaces the states of all upstreams. Each has an application, one of its servers, and whether
    /// that server gets requests.
    pub fn upstreams(&self, states: &[(String, String, bool)]) {
        self.upstreams.set(states);
    }

    /// Records whether this node holds the lease with this name.
    pub fn lease_held(&self, name: &str, is_held: bool) {
        self.leases.with_label_values(&[name]).set(i64::from(is_held));
    }

    /// Removes the series of a certificate that is no longer in use.
    pub fn forget_certificate(&self, file: &Path) {
        self.tls.forget_certificate(file);
    }

    /// Counts spans that the collector of traces accepted.
    pub fn spans_exported(&self, spans: usize) {
        self.traces.exported(spans);
    }

    /// Counts spans that are lost.
    pub fn spans_dropped(&self, spans: usize) {
        self.traces.dropped(spans);
    }

    /// Counts a failed request to the collector of traces.
    pub fn trace_export_failed(&self) {
        self.traces.failed();
    }

    /// Counts an order at an ACME authority.
    pub fn acme_ordered(&self, outcome: AcmeOutcome) {
        self.tls.acme_ordered(outcome);
    }

    /// Records for how many hosts the last order failed.
    pub fn acme_failing(&self, hosts: usize) {
        self.tls.acme_failing(hosts);
    }

    /// Counts a reload of the configuration.
    pub fn reloaded(&self, applied: bool) {
        self.reloads.with_label_values(&[reload_result(applied)]).inc();
        self.reload_succeeded.set(i64::from(applied));
    }

    /// Returns all metrics in the text exposition format.
    pub fn text(&self) -> String {
        self.log_dropped.inc_by(log::take_dropped());
        self.tls.take_key_exchanges();
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        String::from_utf8(text).unwrap_or_default()
    }

    /// Records a response of the provider. `seconds` is the time since the request.
    pub fn answered(&self, endpoint: &str, status: u16, seconds: f64) {
        self.requests.here().with_label_values(&[endpoint, status_text(status)]).inc();
        self.request_seconds.here().with_label_values(&[endpoint]).observe(seconds);
    }

    /// Counts a decision of a rate limit. `allowed` is false if the request was rejected.
    pub fn rate_limited(&self, endpoint: &str, allowed: bool) {
        self.limits.decided(endpoint, allowed);
    }

    /// Counts a request of this node for a share of a cluster-wide limit.
    pub fn limit_block(&self, outcome: BlockOutcome) {
        self.limits.block_requested(outcome);
    }

    /// Counts an issued token.
    pub fn issued(&self, kind: TokenKind) {
        self.tokens.with_label_values(&[kind.as_str()]).inc();
    }

    /// Counts a sign-in attempt.
    pub fn signed_in(&self, outcome: SignInOutcome) {
        self.sign_ins.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Counts an assertion of a client. `outcome` is a word from a fixed set.
    pub fn client_assertion(&self, outcome: &'static str) {
        self.client_assertions.with_label_values(&[outcome]).inc();
    }

    /// Counts a stage of a self-registration.
    pub fn registered(&self, outcome: RegistrationOutcome) {
        self.self_registrations.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Counts a sign-in or step-up that reached this assurance level.
    pub fn level_reached(&self, level: AssuranceLevel) {
        self.factors.reached(level);
    }

    /// Counts an attempt to verify a second factor or a passkey.
    pub fn factor_tried(&self, method: AuthenticationMethod, outcome: FactorOutcome) {
        self.factors.count_attempt(method, outcome);
    }

    /// Records how many users have which factors.
    pub fn enrolled(&self, enrolment: &EnrolmentShare) {
        self.factors.enrolled(enrolment);
    }

    /// Counts an attempt to create or send a message.
    pub fn mail(&self, kind: MailKind, outcome: MailOutcome) {
        self.mails.count(kind, outcome);
    }

    /// Records whether the mail server is usable.
    pub fn mail_relay(&self, usable: bool) {
        self.mails.usable(usable);
    }

    /// Records the size of the outbox: messages in the queue and undeliverable messages.
    ///
    /// `oldest` is the age of the oldest message in the queue, in seconds.
    pub fn outbox(&self, waiting: usize, dead: usize, oldest: u64) {
        self.mails.outbox(waiting, dead, oldest);
    }

    /// Counts logout tokens to clients.
    pub fn client_logouts(&self, outcome: ClientLogoutOutcome, number: u64) {
        self.client_logouts.count(outcome, number);
    }

    /// Records the size of the queue of logout tokens. `oldest` is the time since the first attempt of
    /// the oldest one, in seconds.
    pub fn client_logout_queue(&self, waiting: usize, oldest: u64) {
        self.client_logouts.queue(waiting, oldest);
    }

    /// Returns the last recorded size of the queue of logout tokens, and the age of its oldest one.
    pub fn last_client_logout_queue(&self) -> (u64, u64) {
        self.client_logouts.last_queue()
    }

    /// Counts a replay of a used code or a rotated refresh token.
    pub fn replayed(&self, what: Replayed) {
        self.replays.with_label_values(&[what.as_str()]).inc();
    }

    /// Counts an access decision of the gateway. `decision` is a word from a fixed set.
    pub fn decided(&self, app: &str, decision: &'static str) {
        self.gate.here().with_label_values(&[app, decision]).inc();
    }

    /// Counts an attempt of the gateway to sign a user in to an application. `outcome` is a word
    /// from a fixed set.
    pub fn signed_in_to_app(&self, app: &str, outcome: &'static str) {
        self.app_sign_ins.with_label_values(&[app, outcome]).inc();
    }

    /// Records a proxied request to an application. `seconds` is the time until its response ended.
    pub fn proxied(&self, app: &str, status: u16, seconds: f64) {
        self.upstream_requests.here().with_label_values(&[app, status_text(status)]).inc();
        self.upstream_seconds.here().with_label_values(&[app]).observe(seconds);
    }

    /// Counts a connection that was closed before a response, or an exchange that was ended because
    /// its access was revoked. `reason` is a word from a fixed set.
    pub fn turned_away(&self, reason: &'static str) {
        self.turned_away.with_label_values(&[reason]).inc();
    }

    /// Sets the series of an OpenID provider to zero.
    pub fn init_openid_provider(&self, upstream: &str, now: u64) {
        self.openid_providers.init_labels(upstream, now);
    }

    /// Counts a sign-in that was confirmed with a refresh token.
    pub fn upstream_refreshed(&self, upstream: &str, outcome: UpstreamRefreshOutcome) {
        self.openid_providers.refreshed(upstream, outcome);
    }

    /// Sets the time at which an OpenID provider last answered, in seconds since 1970.
    pub fn upstream_answered(&self, upstream: &str, at: u64) {
        self.openid_providers.answered(upstream, at);
    }

    /// Counts an answer of an OpenID provider to a sign-in.
    pub fn upstream_signed_in(&self, upstream: &str, outcome: UpstreamSignInOutcome, seconds: f64) {
        self.openid_providers.signed_in(upstream, outcome, seconds);
    }

    /// Counts a logout token that arrived for an OpenID provider.
    pub fn upstream_logged_out(&self, upstream: &str, outcome: UpstreamLogoutOutcome) {
        self.openid_providers.logged_out(upstream, outcome);
    }

    /// Sets the series of a directory to their initial values. `now` is in seconds since 1970.
    pub fn init_directory(&self, directory: &str, now: u64) {
        self.directories.init_labels(directory, now);
    }

    /// Counts a password that a directory was asked to check.
    pub fn directory_signed_in(&self, directory: &str, outcome: DirectorySignInOutcome, seconds: f64) {
        self.directories.signed_in(directory, outcome, seconds);
    }

    /// Records a round in which the signed-in users of a directory were read again.
    pub fn directory_was_read(&self, directory: &str, outcome: DirectoryReadOutcome) {
        self.directories.was_read(directory, outcome);
    }

    /// Counts a token of another issuer that a client sent to an application. `issuer` is the
    /// configured name, `outcome` a word from a fixed set.
    pub fn foreign_token(&self, issuer: &str, outcome: &'static str) {
        self.foreign.tokens.with_label_values(&[issuer, outcome]).inc();
    }

    /// Records a fetch of another issuer's keys: the number of usable keys and the time in seconds
    /// since 1970. `None` records a failed fetch.
    pub fn foreign_keys_read(&self, issuer: &str, read: Option<(usize, u64)>) {
        let outcome = if read.is_some() { "read" } else { "failed" };
        self.foreign.reads.with_label_values(&[issuer, outcome]).inc();
        let Some((keys, seconds)) = read else { return };
        self.foreign.keys.with_label_values(&[issuer]).set(i64::try_from(keys).unwrap_or(i64::MAX));
        self.foreign.read_at.with_label_values(&[issuer]).set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// Counts a signature of a TLS handshake.
    pub fn tls_signed(&self, seconds: f64) {
        self.tls.signed(seconds);
    }

    /// Counts a TLS handshake that was not signed. `class` is a word from a fixed set.
    pub fn tls_sign_failed(&self, class: &'static str) {
        self.tls.sign_failed(class);
    }

    /// Counts a failed signature. `class` is a word from a fixed set.
    pub fn sign_failed(&self, class: &'static str) {
        self.sign_errors.with_label_values(&[class]).inc();
        self.signatures_failed.inc();
    }
}

impl ForeignSeries {
    fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), &["issuer", "outcome"])?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        let gauges = |name: &str, help: &str| -> Result<IntGaugeVec, prometheus::Error> {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &["issuer"])?;
            registry.register("gauge", &gauges)?;
            Ok(gauges)
        };
        Ok(Self {
            tokens: counters(
                "sealgate_foreign_tokens_total",
                "Tokens of other issuers in requests, by result of the verification.",
            )?,
            reads: counters("sealgate_foreign_key_reads_total", "Fetches of other issuers' keys.")?,
            keys: gauges("sealgate_foreign_keys", "Usable keys of another issuer.")?,
            read_at: gauges(
                "sealgate_foreign_keys_read_timestamp_seconds",
                "Time of the last successful fetch of another issuer's keys, seconds since 1970.",
            )?,
        })
    }
}

/// Returns the label for a status: the number if Sealgate itself uses that status, otherwise its
/// class. Upstreams can send any number, so this limits the number of series.
fn status_text(status: u16) -> &'static str {
    const OWN: [(u16, &str); 18] = [
        (200, "200"),
        (201, "201"),
        (204, "204"),
        (302, "302"),
        (303, "303"),
        (304, "304"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (408, "408"),
        (413, "413"),
        (429, "429"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
        (504, "504"),
    ];
    match OWN.iter().find(|(own, _)| *own == status) {
        Some((_, text)) => text,
        None => match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "none",
        },
    }
}
