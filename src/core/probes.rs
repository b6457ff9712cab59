//! Conditions that only input and output can find, for the console's overview: the mail server, modes of
//! files, open files, the token and the database's clock.
//!
//! No request waits for them. A request of an administrator starts a task if the last result is older
//! than [`MAX_AGE`], and shows the last result. At most one task runs, for at most [`MAX_DURATION`].

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::health::{SLOW_SIGNATURE, descriptor_warning, exposed_files};
use crate::state::Sealgate;
use sealgate_config::Config;
use sealgate_domain::machine_warning::MachineWarning;
use sealgate_domain::time::UnixTime;

/// Age at which the conditions are read again.
const MAX_AGE: Duration = Duration::from_mins(1);

/// Maximum duration of a task.
const MAX_DURATION: Duration = Duration::from_secs(10);

/// Maximum time until the mail server accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Difference of the clocks from which it is shown. From two seconds on, the node refuses requests.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(500);

/// Conditions, as last read. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MachineProbes(Arc<Mutex<ProbeState>>);

#[derive(Debug, Default)]
struct ProbeState {
    /// Start of the last task.
    started_at: Option<UnixTime>,
    is_running: bool,
    last: Vec<MachineWarning>,
}

impl MachineProbes {
    /// Returns the last conditions, and starts reading them again if they are old. Only for requests of
    /// administrators.
    pub fn current(&self, sealgate: &Sealgate) -> Vec<MachineWarning> {
        let now = sealgate.clock.now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = state.started_at.is_none_or(|at| at.plus(MAX_AGE) <= now);
        if is_old && !state.is_running {
            (state.started_at, state.is_running) = (Some(now), true);
            tokio::spawn(self.clone().renew(sealgate.clone()));
        }
        state.last.clone()
    }

    async fn renew(self, sealgate: Sealgate) {
        let found = timeout(MAX_DURATION, probe(&sealgate)).await;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_running = false;
        match found {
            Ok(found) => state.last = found,
            Err(_) => tracing::warn!("reading the conditions of the machine for the console took too long"),
        }
    }
}

async fn probe(sealgate: &Sealgate) -> Vec<MachineWarning> {
    let config = sealgate.in_effect.load_full();
    let of_files = Arc::clone(&config);
    let files = tokio::task::spawn_blocking(move || {
        let file = of_files.file.clone().unwrap_or_default();
        exposed(&of_files, &file).chain(descriptor_warning()).collect::<Vec<_>>()
    });
    let (mail, files) = tokio::join!(mail_server(&config), files);
    let signature = sealgate.metrics.measurements().mean_signature;
    let token = (signature > SLOW_SIGNATURE).then(|| MachineWarning::TokenSlow(milliseconds(signature)));
    clock(sealgate.metrics.clock_offset())
        .into_iter()
        .chain(token)
        .chain(files.unwrap_or_default())
        .chain(mail)
        .collect()
}

/// `offset` is in seconds.
fn clock(offset: f64) -> Option<MachineWarning> {
    let offset = Duration::try_from_secs_f64(offset.abs()).unwrap_or_default();
    (offset >= CLOCK_TOLERANCE).then(|| MachineWarning::ClockDiffers(milliseconds(offset)))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn exposed(config: &Config, file: &Path) -> impl Iterator<Item = MachineWarning> {
    exposed_files(config, file).into_iter().map(|path| MachineWarning::FileExposed(path.display().to_string()))
}

async fn mail_server(config: &Config) -> Option<MachineWarning> {
    let mail = config.mail.as_ref()?;
    let host = mail.host.trim_matches(['[', ']']);
    let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect((host, mail.port))).await;
    let is_reached = matches!(connected, Ok(Ok(_)));
    (!is_reached).then(|| MachineWarning::MailServerUnreachable(format!("{}:{}", mail.host, mail.port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_a_little() {
        assert_eq!((clock(0.4), clock(-0.4), clock(f64::NAN)), (None, None, None));
        assert_eq!(clock(-1.25), Some(MachineWarning::ClockDiffers(1250)));
    }
}
