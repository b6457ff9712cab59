//! Checks of `[factors]`: required levels and the enrolment deadline.

use std::net::IpAddr;

use chrono::{NaiveDate, NaiveTime};

use super::super::file::Section;
use super::super::{App, ConfigFault, EnrolmentChoice, FactorsConfig, IssuerUrl, app};
use super::address;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;
use sealgate_domain::webauthn::RelyingParty;

pub(super) const LEVELS: &str = "write \"1\", \"2\" or \"3\"";
const DATE: &str = "write a date such as \"2027-01-31\"";

pub(super) fn factors(mut section: Section<'_, '_>, issuer: Option<&IssuerUrl>) -> FactorsConfig {
    let lowest = section.text("level", LEVELS, level).unwrap_or(AssuranceLevel::One);
    let groups = section.named_texts("groups", "write, for example, { admins = \"3\" }", |group, text| {
        let level = level(text)?;
        if level < lowest {
            return Err(format!(
                "{text:?} is lower than \"{lowest}\", the level for all users; write a higher level, or leave it out"
            ));
        }
        Ok((address::group(group)?, level))
    });
    let choices = [("self", EnrolmentChoice::InSignIn), ("administrator", EnrolmentChoice::ByLink)];
    let factors = FactorsConfig {
        level: lowest,
        groups: groups.unwrap_or_default().into_iter().collect(),
        enrol_by: section.text("enrol_by", DATE, end_of_day),
        enrolment: section.choice("enrolment", &choices).unwrap_or(EnrolmentChoice::InSignIn),
        rp_id: section.text("rp_id", "write the earlier host name of the issuer", |host| rp_id(host, issuer)),
        abandon_keys_of: section.text("abandon_keys_of", "write a host name", |host| Ok(host.to_owned())),
    };
    let is_unused = lowest == AssuranceLevel::One && factors.groups.values().all(|level| *level == lowest);
    if is_unused && factors.enrol_by.is_some() {
        section.warn(
            "enrol_by",
            "has no effect, because no user needs a second factor; write level or groups too, or leave it out",
        );
    }
    let highest = AssuranceLevel::PhishingResistant;
    if issuer.is_some_and(|issuer| RelyingParty::new(issuer.url(), None).is_none()) {
        let key = if lowest == highest { "level" } else { "groups" };
        if lowest == highest || factors.groups.values().any(|level| *level == highest) {
            section.warn(
                key,
                "no user can reach level \"3\": browsers only support security keys if the issuer is https \
                 and has a host name",
            );
        }
    }
    factors
}

/// Parses the RP ID. Browsers fetch its list of related origins over https, so the issuer must use
/// https.
fn rp_id(text: &str, issuer: Option<&IssuerUrl>) -> Result<String, String> {
    address::host_name(text)?;
    if text.parse::<IpAddr>().is_ok() || text.starts_with('[') {
        return Err(format!("{text:?} is an address; browsers bind credentials to host names only"));
    }
    if issuer.is_some_and(|issuer| !issuer.is_https() || RelyingParty::new(issuer.url(), None).is_none()) {
        return Err("requires an issuer with https and a host name; leave it out".to_owned());
    }
    Ok(text.to_owned())
}

/// Warns if the RP ID is the host of an application, where the server cannot serve the list of
/// related origins.
pub(super) fn rp_id_of_an_application(factors: &FactorsConfig, apps: &[App]) -> Option<ConfigFault> {
    let rp_id = factors.rp_id.as_deref()?;
    let app = apps.iter().find(|app| app::host_name(&app.host) == rp_id)?;
    let problem = format!(
        "is the host of the application {}, which has to serve /.well-known/webauthn with the issuer's origin itself",
        app.name
    );
    Some(ConfigFault::new("factors.rp_id".to_owned(), None, problem))
}

pub(super) fn level(text: &str) -> Result<AssuranceLevel, String> {
    AssuranceLevel::parse(text).ok_or_else(|| format!("{text:?} is not a level; {LEVELS}"))
}

/// Parses a date. Returns the end of that day in UTC.
fn end_of_day(text: &str) -> Result<UnixTime, String> {
    let day = text.parse::<NaiveDate>().ok().filter(|day| day.to_string() == text);
    let next = day.and_then(|day| day.succ_opt()).map(|next| next.and_time(NaiveTime::MIN).and_utc().timestamp());
    let end = next.and_then(|seconds| u64::try_from(seconds).ok());
    end.map(UnixTime::from_seconds).ok_or_else(|| format!("{text:?} is not a date since 1970; {DATE}"))
}
