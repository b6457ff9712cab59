//! Checks of `[[directory]]`.

use std::time::Duration;

use url::{Host, Url};

use super::address;
use crate::check::address::{DAY, HOUR};
use crate::disk::Files;
use crate::file::Section;
use crate::{
    DirectoryAccount, DirectoryGroups, DirectoryKind, DirectorySecurity, DirectoryServer, DirectorySettings,
    DirectoryUsers, GroupSource,
};
use sealgate_domain::search_filter::{AttributeName, SearchFilter};
use sealgate_domain::source::SourceName;

/// Maximum number of directories, of servers of a directory, and of attributes with names.
const MAX_DIRECTORIES: usize = 16;
const MAX_SERVERS: usize = 8;
const MAX_NAMES: usize = 8;

/// Maximum lengths in bytes.
const MAX_DN_LENGTH: usize = 1024;
const MAX_PREFIX_LENGTH: usize = 64;

/// Parses all directories.
pub(super) fn directories(
    sections: Vec<Section<'_, '_>>,
    files: &Files,
    taken: &mut Taken,
) -> Option<Vec<DirectorySettings>> {
    // Parse all directories before dropping any with errors, so that all errors are reported.
    let found: Vec<_> = sections.into_iter().map(|section| directory(section, files, taken)).collect();
    found.into_iter().collect()
}

/// Names and domains of the directories and upstreams that were read.
#[derive(Default)]
pub(super) struct Taken {
    names: Vec<SourceName>,
    domains: Vec<String>,
    directories: usize,
    default: bool,
}

impl Taken {
    /// Parses the name of a source, which no other source may have.
    pub(super) fn name(&mut self, text: &str) -> Result<SourceName, String> {
        let problem = || format!("{text:?} is not a valid name; write 1 to 32 of a-z, 0-9 and -, first a letter");
        let name = SourceName::parse(text).ok_or_else(problem)?;
        if self.names.contains(&name) {
            return Err(format!("{text:?} is another directory's or upstream's name; use a different name"));
        }
        self.names.push(name.clone());
        Ok(name)
    }

    /// Parses a domain of e-mail addresses, which no other source may have.
    pub(super) fn domain(&mut self, text: &str) -> Result<String, String> {
        let domain = address::mail_domain(text)?;
        if self.domains.contains(&domain) {
            return Err(format!("{text:?} is listed twice; each domain belongs to one directory or upstream"));
        }
        self.domains.push(domain.clone());
        Ok(domain)
    }
}

fn directory(mut section: Section<'_, '_>, files: &Files, taken: &mut Taken) -> Option<DirectorySettings> {
    let name = section.required_text("name", "write a short name of a-z, 0-9 and -", |text| {
        let name = taken.name(text)?;
        taken.directories += 1;
        if taken.directories > MAX_DIRECTORIES {
            return Err(format!("there are more than {MAX_DIRECTORIES} directories; remove some"));
        }
        Ok(name)
    });
    let kinds = [("active_directory", DirectoryKind::ActiveDirectory), ("ldap", DirectoryKind::Ldap)];
    let kind = section.required_choice("kind", &kinds);
    // An unknown kind was reported. Its defaults are not used.
    let default_kind = kind.unwrap_or(DirectoryKind::Ldap);
    let servers = servers(&mut section);
    let ca_file = section.text("ca_file", "write the path of a PEM certificate", |text| files.authorities(text));
    if section.has("ca_file") && servers.iter().all(|server| server.security == DirectorySecurity::None) {
        section.fault("ca_file", "has no effect without TLS; leave it out");
    }
    let account = section.section("bind");
    let bind = account_for_searches(account, files);
    let users = users(section.section("users"), default_kind);
    let groups = section.optional_section("groups", "write it as a table, [directory.groups]");
    let groups_are_wanted = groups.is_some();
    let groups = groups.and_then(|section| groups_of(section, default_kind, name.as_ref()));
    let id = section.text("id", "write the attribute with the id that never changes", attribute);
    let id = id.or_else(|| {
        AttributeName::parse(match default_kind {
            DirectoryKind::ActiveDirectory => "objectGUID",
            DirectoryKind::Ldap => "entryUUID",
        })
    });
    let allowed = "write domains of e-mail addresses, such as [\"example.com\"]";
    let domains = section.texts("domains", allowed, |text| taken.domain(text));
    let domains = domains.unwrap_or_default();
    let is_default = section.flag("default", false);
    if is_default && std::mem::replace(&mut taken.default, true) {
        section.fault("default", "another directory is the default; set it for at most one directory");
    }
    if !is_default && domains.is_empty() && !section.has("domains") {
        section.fault("domains", "is missing, so nobody could sign in; write domains, or default = true");
    }
    let linking = section.flag("linking", true);
    let refresh = section.seconds("refresh_seconds", 60, 1..=HOUR);
    let stale = section.seconds("stale_seconds", HOUR, 1..=7 * DAY);
    if stale < refresh {
        let problem = format!("is shorter than refresh_seconds; set at least {}", refresh.as_secs());
        section.fault("stale_seconds", &problem);
    }
    let timeout: Duration = section.seconds("timeout_seconds", 3, 1..=30);
    Some(DirectorySettings {
        name: name?,
        kind: kind?,
        servers,
        ca_file,
        bind: bind?,
        users: users?,
        groups: if groups_are_wanted { Some(groups?) } else { None },
        id: id?,
        domains,
        is_default,
        linking,
        refresh,
        stale,
        timeout,
    })
}

fn servers(section: &mut Section<'_, '_>) -> Vec<DirectoryServer> {
    let starttls = section.flag("starttls", false);
    let allowed = "write a list such as [\"ldaps://ldap.example.com\"]";
    let mut count = 0;
    let servers = section.required_texts("servers", allowed, |text| {
        count += 1;
        if count > MAX_SERVERS {
            return Err(format!("there are more than {MAX_SERVERS} servers; remove some"));
        }
        server(text, starttls)
    });
    if starttls && !servers.is_empty() && servers.iter().all(|server| server.security == DirectorySecurity::Ldaps) {
        section.fault("starttls", "has no effect on ldaps://; write ldap:// in servers, or leave it out");
    }
    servers
}

/// Parses the URL of a server. It has no path, because the base has its own key.
fn server(text: &str, starttls: bool) -> Result<DirectoryServer, String> {
    let allowed = "write scheme and host, such as \"ldaps://ldap.example.com\"";
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL ({error}); {allowed}"))?;
    let bare = url.username().is_empty() && url.password().is_none() && matches!(url.path(), "" | "/");
    if !bare || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("{text:?} has other parts; {allowed} (the base has its own key, users.base)"));
    }
    // The URL parser does not interpret the host of a scheme that it does not know.
    let host = url.host_str().unwrap_or_default();
    let bare_host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = address::certificate_name(bare_host).map_err(|_| format!("{text:?} has no valid host; {allowed}"))?;
    let security = match url.scheme() {
        "ldaps" => DirectorySecurity::Ldaps,
        "ldap" if starttls => DirectorySecurity::StartTls,
        "ldap" if is_this_machine(&host) => DirectorySecurity::None,
        "ldap" => {
            return Err(format!(
                "{text:?} would send passwords without encryption; write ldaps://, or set starttls = true (without \
                 TLS, only localhost, 127.0.0.1 and ::1 are allowed)"
            ));
        }
        _ => return Err(format!("{text:?} is not ldaps:// or ldap://; {allowed}")),
    };
    let default_port = if security == DirectorySecurity::Ldaps { 636 } else { 389 };
    let port = url.port().unwrap_or(default_port);
    Ok(DirectoryServer { host, port, security })
}

/// Returns whether the host is always this machine.
fn is_this_machine(host: &str) -> bool {
    match Host::parse(host) {
        Ok(Host::Domain(name)) => name == "localhost",
        Ok(Host::Ipv4(address)) => address.is_loopback(),
        _ => host == "::1",
    }
}

fn account_for_searches(mut section: Section<'_, '_>, files: &Files) -> Option<DirectoryAccount> {
    let name = section.required_text("dn", "write the DN of an account that may search", |text| {
        let parsed = dn(text)?;
        // With an empty name, the searches would be anonymous.
        if parsed.is_empty() {
            Err("is empty; write the DN of an account that may search".to_owned())
        } else {
            Ok(parsed)
        }
    });
    let password = "write the path of the file with the password";
    let file = section.required_text("password_file", password, |text| {
        files.secret_file(text, "the password of the account that searches the directory")
    });
    Some(DirectoryAccount { dn: name?, password_file: file? })
}

fn users(mut section: Section<'_, '_>, kind: DirectoryKind) -> Option<DirectoryUsers> {
    let base = section.required_text("base", "write the DN of the subtree with the users", dn);
    let filter = section.text("filter", "write a filter such as \"(objectClass=person)\"", |text| {
        SearchFilter::parse(text).map_err(|problem| {
            format!("{text:?} is not a filter: {problem}; write, for example, \"(objectClass=person)\"")
        })
    });
    let (default_filter, default_names): (_, &[&str]) = match kind {
        DirectoryKind::ActiveDirectory => {
            ("(&(objectCategory=person)(objectClass=user))", &["userPrincipalName", "sAMAccountName", "mail"])
        }
        DirectoryKind::Ldap => ("(objectClass=person)", &["uid", "mail"]),
    };
    let mut count = 0;
    let names = section.some_texts("names", "write attributes, such as [\"uid\", \"mail\"]", |text| {
        count += 1;
        if count > MAX_NAMES {
            return Err(format!("there are more than {MAX_NAMES} attributes; remove some"));
        }
        attribute(text)
    });
    let names = names.unwrap_or_else(|| default_names.iter().filter_map(|name| AttributeName::parse(name)).collect());
    let filter = if section.has("filter") { filter } else { SearchFilter::parse(default_filter).ok() };
    Some(DirectoryUsers { base: base?, filter: filter?, names })
}

fn groups_of(mut section: Section<'_, '_>, kind: DirectoryKind, name: Option<&SourceName>) -> Option<DirectoryGroups> {
    let base = section.required_text("base", "write the DN of the subtree with the groups", dn);
    let sources = [
        ("token_groups", GroupSource::TokenGroups),
        ("members", GroupSource::Members),
        ("member_of", GroupSource::MemberOf),
    ];
    let default_source = match kind {
        DirectoryKind::ActiveDirectory => GroupSource::TokenGroups,
        DirectoryKind::Ldap => GroupSource::Members,
    };
    let from = section.choice("from", &sources).unwrap_or(default_source);
    if from == GroupSource::TokenGroups && kind != DirectoryKind::ActiveDirectory {
        section
            .fault("from", "is \"token_groups\", which only Active Directory has; write \"members\" or \"member_of\"");
    }
    let prefix = section.text("prefix", "write the prefix of its groups, or \"\"", group_prefix);
    let prefix = prefix.or_else(|| name.map(|name| format!("{name}:")));
    Some(DirectoryGroups { base: base?, from, prefix: prefix? })
}

/// Parses the text before the names of a source's groups.
pub(super) fn group_prefix(text: &str) -> Result<String, String> {
    if text.len() > MAX_PREFIX_LENGTH || text.contains(',') || text.chars().any(char::is_control) {
        let allowed = format!("use at most {MAX_PREFIX_LENGTH} bytes without commas and control characters");
        return Err(format!("{text:?} is not a valid prefix; {allowed}"));
    }
    Ok(text.to_owned())
}

fn attribute(text: &str) -> Result<AttributeName, String> {
    AttributeName::parse(text).ok_or_else(|| format!("{text:?} is not the name of an attribute, such as \"uid\""))
}

/// Checks the text of a distinguished name. Its syntax is the directory's business, but a text
/// without an equals sign is certainly something else.
fn dn(text: &str) -> Result<String, String> {
    let is_valid = text.len() <= MAX_DN_LENGTH
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && (text.is_empty() || text.contains('='));
    let problem = || format!("{text:?} is not a distinguished name; write, for example, \"dc=example,dc=com\"");
    is_valid.then(|| text.to_owned()).ok_or_else(problem)
}
