//! Where the database is, and how it is reached.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, SslMode};

use super::PostgresFault;
use super::tls::{self, TlsChoice};
use crate::config::{BeatDurability, Durability, FleetConfig, PostgresConfig, read_longer_secret_file};
use crate::store::versions::FormatRange;

const DEFAULT_PORT: u16 = 5432;
/// A password, as long as any: what is longer is another file.
const LONGEST_URL: usize = 4096;

/// How a store over PostgreSQL is reached and served.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// `postgres://USER:PASSWORD@HOST[:PORT][,HOST…]/DATABASE`. Its hosts are tried side by side.
    pub url: SecretString,
    /// Who signed the servers' certificates. Without it, every host must be this machine.
    pub ca_file: Option<PathBuf>,
    /// The name under which this process beats, one a process. None for a command, which is no node of the fleet.
    pub node: Option<String>,
    /// Of a store that this program serves.
    pub formats: FormatRange,
    /// Whether a beat waits for the standby.
    pub beat: BeatDurability,
    /// How long ago a beat may have begun for decisions to rest on it.
    pub staleness: Duration,
    /// This machine's clock, seconds since 1970, which is held against the database's; none where it is of no concern.
    pub wall_clock: Option<fn() -> f64>,
    /// Whether it is fine that the server waits for no standby.
    pub durability: Durability,
    /// Connections that write.
    pub writers: usize,
    /// Commits that may wait at once.
    pub queue: usize,
    /// The longest that a commit waits for its turn, and once more for the database when it has had it.
    pub commit_timeout: Duration,
    /// The longest that a request waits for the counts of rate limits.
    pub count_timeout: Duration,
}

impl PostgresSettings {
    /// What the configuration asks for. `fleet` is absent for a command, which is no node. Reads the URL's file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(config: &PostgresConfig, fleet: Option<&FleetConfig>) -> Result<Self, PostgresFault> {
        let url = read_longer_secret_file(&config.url_file, "the database's URL", LONGEST_URL);
        let url = url.map_err(|cause| PostgresFault::UrlFile { path: config.url_file.clone(), cause })?;
        let new = Self::new(SecretString::from(url.as_str()));
        Ok(Self {
            ca_file: config.ca_file.clone(),
            node: fleet.map(|fleet| fleet.node.clone()),
            beat: fleet.map_or(new.beat, |fleet| fleet.beat),
            staleness: fleet.map_or(new.staleness, |fleet| Duration::from_millis(fleet.staleness_ms)),
            durability: config.durability,
            writers: config.writers,
            queue: config.queue,
            ..new
        })
    }

    /// Of a command.
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            node: None,
            formats: FormatRange::served(),
            beat: BeatDurability::Replicated,
            staleness: Duration::from_millis(900),
            wall_clock: None,
            durability: Durability::Standby,
            writers: 2,
            queue: 1024,
            commit_timeout: Duration::from_secs(10),
            count_timeout: Duration::from_millis(250),
        }
    }
}

/// One server of the URL, ready to be connected to.
#[derive(Clone)]
pub(super) struct DatabaseServer {
    /// `HOST:PORT`, as it may stand in a log.
    pub(super) name: String,
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: TlsChoice,
}

impl fmt::Debug for DatabaseServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// The servers that `settings` names.
///
/// # Errors
/// `Url`, `Ca`, `Unprotected`. None has a word of the URL but its hosts.
pub(super) fn servers(settings: &PostgresSettings) -> Result<Vec<DatabaseServer>, PostgresFault> {
    let url = settings.url.expose_secret().trim();
    if url.len() > LONGEST_URL {
        return Err(PostgresFault::Url("it is too long"));
    }
    // The parser's own words might repeat a part of it.
    let given = tokio_postgres::Config::from_str(url).map_err(|_| PostgresFault::Url("it cannot be read"))?;
    if !given.get_hostaddrs().is_empty() {
        return Err(PostgresFault::Url("hostaddr is not known here; write the addresses as hosts"));
    }
    let hosts = given.get_hosts();
    if hosts.is_empty() {
        return Err(PostgresFault::Url("it names no host"));
    }
    let user = given.get_user().ok_or(PostgresFault::Url("it names no user"))?;
    let database = given.get_dbname().ok_or(PostgresFault::Url("it names no database"))?;
    let client = settings.ca_file.as_deref().map(tls::client_config).transpose()?;
    let mut servers = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let Host::Tcp(host) = host else {
            return Err(PostgresFault::Url("it names a socket of this machine; write 127.0.0.1"));
        };
        // One port is everybody's, as libpq has it.
        let ports = given.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
        let name = format!("{host}:{port}");
        let mut config = tokio_postgres::Config::new();
        config.host(host).port(port).user(user).dbname(database).application_name("sealgate");
        if let Some(password) = given.get_password() {
            config.password(password);
        }
        if let Some(options) = given.get_options() {
            config.options(options);
        }
        let tls = protection(host, client.as_ref(), &mut config)?;
        servers.push(DatabaseServer { name, config, tls });
    }
    Ok(servers)
}

/// TLS, whatever the URL says of it; in clear only on this machine.
fn protection(
    host: &str,
    client: Option<&ClientConfig>,
    config: &mut tokio_postgres::Config,
) -> Result<TlsChoice, PostgresFault> {
    let Some(client) = client else {
        let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !here {
            return Err(PostgresFault::Unprotected { host: host.to_owned() });
        }
        config.ssl_mode(SslMode::Disable);
        return Ok(TlsChoice::none());
    };
    // The default would go on in clear where the server has no TLS.
    config.ssl_mode(SslMode::Require);
    Ok(TlsChoice::new(client.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(url: &str) -> Result<Vec<DatabaseServer>, PostgresFault> {
        servers(&PostgresSettings::new(url.into()))
    }

    #[test]
    fn each_host_has_its_port_or_the_only_one() {
        let names = |url| named(url).unwrap().into_iter().map(|server| server.name).collect::<Vec<_>>();
        assert_eq!(names("postgres://s@127.0.0.1:1,localhost:2/d"), ["127.0.0.1:1", "localhost:2"]);
        assert_eq!(names("postgres://s@127.0.0.1/d"), ["127.0.0.1:5432"]);
    }

    #[test]
    fn no_other_machine_is_reached_in_clear() {
        for mode in ["", "?sslmode=disable", "?sslmode=prefer"] {
            let refused = named(&format!("postgres://s:secret@127.0.0.1,db.example.org/d{mode}"));
            assert!(
                matches!(&refused, Err(PostgresFault::Unprotected { host }) if host == "db.example.org"),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_fault_of_the_url_does_not_repeat_it() {
        for url in
            ["postgres://s:hunter2@h:port/d", "hunter2", "postgres://s:hunter2@/d", "host=/run user=hunter2 dbname=d"]
        {
            let said = named(url).unwrap_err().to_string();
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
