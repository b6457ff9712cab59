//! Console page with the state of the installation.

use std::fmt::Write as _;

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::machine_warning::MachineWarning;
use sealgate_domain::time::UnixTime;

/// First page of the console, for administrators.
#[derive(Template)]
#[template(path = "console/overview.html")]
pub struct OverviewPage<'a> {
    pub inside: Inside<'a>,
    /// Conditions that need attention.
    pub warnings: &'a [OverviewWarning],
    /// Counted figures. `None` while they are counted for the first time.
    pub figures: Option<&'a CountedFigures>,
    /// Numbers of servers that pass their health checks, and of all checked servers.
    pub servers: (u64, u64),
    pub apps: u64,
    /// Key that signs. `None` if no key signs.
    pub active_key: Option<&'a str>,
    /// Whether the token signs.
    pub is_token_ready: bool,
    /// Next change of the schedule of keys.
    pub next_change: Option<UnixTime>,
    /// Certificates in use, each with its file and expiry.
    pub certificates: &'a [(String, UnixTime)],
    /// Host of the mail server, if mail is sent.
    pub mail_server: Option<&'a str>,
    pub is_database: bool,
    pub version: &'a str,
    pub loaded_at: UnixTime,
}

/// Figures of the overview that are counted once a minute.
#[derive(Debug, Clone)]
pub struct CountedFigures {
    pub at: UnixTime,
    pub users: u64,
    pub sessions: u64,
    pub clients: u64,
    pub mails_waiting: u64,
    pub mails_undeliverable: u64,
    /// Size of the store's directory, in mebibytes.
    pub store_mebibytes: Option<u64>,
    pub hours: SignInChart,
    pub days: SignInChart,
}

/// Condition that needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverviewWarning {
    TokenNotReady,
    NoActiveKey,
    /// A due rotation fails. The value is the error.
    RotationFails(String),
    /// Keys of other nodes are not trusted. The value is the warning.
    UntrustedKeys(String),
    ServersDown(u64),
    Unapproved(u64),
    MailsUndeliverable(u64),
    /// The certificate in this file has expired.
    CertificateExpired(String),
    /// The certificate in this file expires in this number of days.
    CertificateExpires(String, u64),
    /// The last reload was refused.
    ReloadRefused,
    Machine(MachineWarning),
    /// Warning of `sealgate check` about the configuration.
    Configuration(String),
}

impl OverviewPage<'_> {
    /// Returns the charts with their titles.
    fn charts<'f>(&self, figures: &'f CountedFigures) -> Vec<(&'f SignInChart, Markup)> {
        let t = self.inside.frame.t;
        vec![(&figures.hours, t.overview_hours()), (&figures.days, t.overview_days())]
    }

    fn words(&self, warning: &OverviewWarning) -> Markup {
        let t = self.inside.frame.t;
        match warning {
            OverviewWarning::TokenNotReady => t.overview_token_down(),
            OverviewWarning::NoActiveKey => t.overview_no_key(),
            OverviewWarning::RotationFails(_) => t.overview_rotation_fails(),
            OverviewWarning::UntrustedKeys(_) => t.overview_untrusted(),
            OverviewWarning::ServersDown(count) => t.overview_servers_down(count),
            OverviewWarning::Unapproved(count) => t.overview_unapproved(count),
            OverviewWarning::MailsUndeliverable(count) => t.overview_undeliverable(count),
            OverviewWarning::CertificateExpired(file) => t.overview_certificate_expired(file),
            OverviewWarning::CertificateExpires(file, days) => t.overview_certificate_expires(days, file),
            OverviewWarning::ReloadRefused => t.overview_reload_refused(),
            OverviewWarning::Machine(MachineWarning::ClockNotSynchronized) => t.overview_clock(),
            OverviewWarning::Machine(MachineWarning::DiskReadOnly) => t.overview_read_only(),
            OverviewWarning::Machine(MachineWarning::DiskFull) => t.overview_disk_full(),
            OverviewWarning::Machine(MachineWarning::DiskLow(size)) => t.overview_disk_low(size),
            OverviewWarning::Machine(MachineWarning::FewInodes) => t.overview_few_inodes(),
            OverviewWarning::Machine(MachineWarning::NeverBackedUp) => t.overview_never_backed_up(),
            OverviewWarning::Machine(MachineWarning::OldBackup(days)) => t.overview_old_backup(days),
            OverviewWarning::Machine(MachineWarning::ClockDiffers(difference)) => t.overview_clock_differs(difference),
            OverviewWarning::Machine(MachineWarning::TokenSlow(mean)) => t.overview_token_slow(mean),
            OverviewWarning::Machine(MachineWarning::FileExposed(file)) => t.overview_file_exposed(file),
            OverviewWarning::Machine(MachineWarning::FewDescriptors { open, most }) => {
                t.overview_few_descriptors(most, open)
            }
            OverviewWarning::Machine(MachineWarning::MailServerUnreachable(server)) => t.overview_mail_server(server),
            OverviewWarning::Configuration(_) => t.overview_configuration(),
        }
    }
}

impl OverviewWarning {
    /// Returns the text of the program about the condition. It is in English, as in the log.
    fn program_text(&self) -> Option<&str> {
        match self {
            Self::RotationFails(text) | Self::UntrustedKeys(text) | Self::Configuration(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the page that shows more about the condition.
    fn page(&self) -> Option<MenuEntry> {
        match self {
            Self::TokenNotReady | Self::NoActiveKey | Self::RotationFails(_) | Self::UntrustedKeys(_) => {
                Some(MenuEntry::Keys)
            }
            Self::ServersDown(_) => Some(MenuEntry::Apps),
            Self::Unapproved(_) => Some(MenuEntry::Clients),
            Self::MailsUndeliverable(_) => Some(MenuEntry::Mail),
            Self::ReloadRefused => Some(MenuEntry::Settings),
            Self::Machine(MachineWarning::MailServerUnreachable(_)) => Some(MenuEntry::Mail),
            Self::CertificateExpired(_) | Self::CertificateExpires(..) | Self::Configuration(_) | Self::Machine(_) => {
                None
            }
        }
    }
}

/// Chart of sign-ins, with a bar for each period.
#[derive(Debug, Clone, Default)]
pub struct SignInChart {
    /// Start of each period, successful sign-ins, and failed ones.
    pub periods: Vec<(UnixTime, u64, u64)>,
}

/// Width of a period in the chart, and of its bar.
const PERIOD_WIDTH: u64 = 10;
const BAR_WIDTH: u64 = 7;
/// Height of the chart. A bar with at least one event has at least [`MIN_HEIGHT`].
const HEIGHT: u64 = 100;
const MIN_HEIGHT: u64 = 3;

impl SignInChart {
    pub(crate) fn signed_in(&self) -> u64 {
        self.periods.iter().map(|(_, signed_in, _)| *signed_in).sum()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.periods.iter().map(|(.., failed)| *failed).sum()
    }

    /// Returns the number of events in the period with the most.
    pub(crate) fn most(&self) -> u64 {
        self.periods.iter().map(|(_, signed_in, failed)| signed_in + failed).max().unwrap_or_default()
    }

    pub(crate) fn first(&self) -> UnixTime {
        self.periods.first().map_or(UnixTime::from_seconds(0), |(at, ..)| *at)
    }

    pub(crate) fn width(&self) -> u64 {
        PERIOD_WIDTH * self.periods.len() as u64
    }

    fn height(&self, count: u64) -> u64 {
        if count == 0 { 0 } else { (count * HEIGHT / self.most().max(1)).max(MIN_HEIGHT) }
    }

    /// Returns the bars of successful sign-ins as the data of an SVG path.
    pub(crate) fn signed_in_bars(&self) -> String {
        self.bars(|chart, signed_in, _| (0, chart.height(signed_in)))
    }

    /// Returns the bars of failed sign-ins, above the others.
    pub(crate) fn failed_bars(&self) -> String {
        self.bars(|chart, signed_in, failed| (chart.height(signed_in), chart.height(failed)))
    }

    /// Returns bars as the data of an SVG path. `of` returns the bottom and the height of a bar.
    fn bars(&self, of: impl Fn(&Self, u64, u64) -> (u64, u64)) -> String {
        let mut path = String::new();
        for (number, (_, signed_in, failed)) in self.periods.iter().enumerate() {
            let (bottom, height) = of(self, *signed_in, *failed);
            if height > 0 {
                let (x, y) = (PERIOD_WIDTH * number as u64, HEIGHT - bottom.min(HEIGHT));
                let height = height.min(y);
                let _ = write!(path, "M{x} {y}h{BAR_WIDTH}v-{height}h-{BAR_WIDTH}z");
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_in_the_chart() {
        let at = UnixTime::from_seconds(0);
        let chart = SignInChart { periods: vec![(at, 0, 0), (at, 1000, 1), (at, 1, 0)] };
        assert_eq!((chart.signed_in(), chart.failed(), chart.most(), chart.width()), (1001, 1, 1001, 30));
        assert_eq!(chart.signed_in_bars(), "M10 100h7v-99h-7zM20 100h7v-3h-7z");
        assert_eq!(chart.failed_bars(), "M10 1h7v-1h-7z");
        assert_eq!(SignInChart::default().signed_in_bars(), "");
    }
}
