//! Checks of `[[upstream]]`.

use std::collections::BTreeMap;

use url::Url;
use uuid::Uuid;

use super::address;
use super::directories::{Taken, group_prefix};
use super::trusted_issuers::document;
use crate::check::address::{DAY, HOUR, MINUTE};
use crate::disk::Files;
use crate::file::Section;
use crate::{
    CertificateKey, Hsm, IssuerUrl, ListenerCertificate, UpstreamArrival, UpstreamCredential, UpstreamKind,
    UpstreamLogout, UpstreamSettings, tls_key_label,
};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::oauth::upstream_claims::{EmailProof, GroupNames, RequiredClaim, UpstreamClaims};
use sealgate_domain::profile::is_line;
use sealgate_domain::source::SourceName;

/// Maximum number of upstreams. Each has up to eight threads of its own while it is called.
const MAX_UPSTREAMS: usize = 16;

/// Maximum number of scopes, required claims, mapped groups and context classes.
const MAX_SCOPES: usize = 32;
const MAX_REQUIRED: usize = 16;
const MAX_MAPPED: usize = 256;

/// Maximum length of a label in characters, and of a client id in bytes.
const MAX_LABEL_LENGTH: usize = 64;
const MAX_CLIENT_ID_LENGTH: usize = 256;

/// Private keys that are in use, and the token that contains client keys.
pub(super) struct KeyUses<'a> {
    pub(super) hsm: Option<&'a Hsm>,
    pub(super) certificates: &'a [ListenerCertificate],
}

/// Parses all upstreams. `own` is this server's issuer, which must not be one of them. `taken` has
/// the names and domains of the directories.
pub(super) fn upstreams(
    sections: Vec<Section<'_, '_>>,
    own: Option<&IssuerUrl>,
    keys: &KeyUses<'_>,
    files: &Files,
    taken: &mut Taken,
) -> Option<Vec<UpstreamSettings>> {
    // Parse all upstreams before dropping any with errors, so that all errors are reported.
    let parse = |(number, section): (usize, Section<'_, '_>)| {
        if number == MAX_UPSTREAMS {
            section.fault("name", &format!("there are more than {MAX_UPSTREAMS} upstreams; remove some"));
        }
        upstream(section, own, keys, files, taken)
    };
    let found: Vec<_> = sections.into_iter().enumerate().map(parse).collect();
    found.into_iter().collect()
}

fn upstream(
    mut section: Section<'_, '_>,
    own: Option<&IssuerUrl>,
    keys: &KeyUses<'_>,
    files: &Files,
    taken: &mut Taken,
) -> Option<UpstreamSettings> {
    let name = section.required_text("name", "write a short name of a-z, 0-9 and -", |text| taken.name(text));
    let kinds = [
        ("openid", UpstreamKind::OpenId),
        ("entra", UpstreamKind::Entra),
        ("google", UpstreamKind::Google),
        ("okta", UpstreamKind::Okta),
        ("keycloak", UpstreamKind::Keycloak),
        ("github", UpstreamKind::GitHub),
    ];
    let kind = section.choice("kind", &kinds);
    let kind_is_valid = kind.is_some() || !section.has("kind");
    // An unknown kind was reported. Its defaults are not used.
    let kind = kind.unwrap_or(UpstreamKind::OpenId);
    let label = section.text("label", "write the name of the provider on the sign-in page", |text| {
        let problem = || format!("{text:?} is not a label; write 1 to {MAX_LABEL_LENGTH} visible characters");
        is_line(text, MAX_LABEL_LENGTH).then(|| text.to_owned()).ok_or_else(problem)
    });
    let label =
        label.or_else(|| default_label(kind).map(str::to_owned).or_else(|| name.as_ref().map(ToString::to_string)));
    let issuer = issuer(&mut section, kind, kind_is_valid, own);
    let client_id = section.required_text("client_id", "write the id of this server at the provider", |text| {
        if text.len() > MAX_CLIENT_ID_LENGTH {
            return Err(format!("{text:?} has more than {MAX_CLIENT_ID_LENGTH} bytes; write the client id"));
        }
        address::name(text)
    });
    let credential = credential(&mut section, kind, keys, files);
    let scopes = scopes(&mut section, kind);
    let claims = claims(&mut section, kind, issuer.as_deref(), name.as_ref().map(SourceName::as_str), taken);
    let arrivals = [("create", UpstreamArrival::Create), ("linked_only", UpstreamArrival::LinkedOnly)];
    let arrival = section.choice("arrival", &arrivals).unwrap_or(UpstreamArrival::Create);
    let example = match kind {
        UpstreamKind::Google => Some("{ hd = \"example.com\" }"),
        UpstreamKind::GitHub => Some("{ org_ids = \"12345\" }"),
        _ => None,
    };
    if let Some(example) = example.filter(|_| arrival == UpstreamArrival::Create && !section.has("required")) {
        let problem = format!(
            "is missing, so everyone with an account there could sign in; write required = {example}, or arrival = \
             \"linked_only\""
        );
        section.fault("required", &problem);
    }
    let linking = section.flag("linking", true);
    let logouts = [("upstream", UpstreamLogout::Upstream), ("local", UpstreamLogout::Local)];
    let logout = section.choice("logout", &logouts);
    if logout == Some(UpstreamLogout::Upstream) && matches!(kind, UpstreamKind::Google | UpstreamKind::GitHub) {
        section.fault("logout", "is \"upstream\", but this provider cannot end sessions; write \"local\"");
    }
    let refresh = section.seconds("refresh_seconds", 5 * MINUTE, 1..=HOUR);
    let stale = section.seconds("stale_seconds", HOUR, 1..=7 * DAY);
    if stale < refresh {
        let problem = format!("is shorter than refresh_seconds; set at least {}", refresh.as_secs());
        section.fault("stale_seconds", &problem);
    }
    let session = section.seconds("session_seconds", 8 * HOUR, MINUTE..=30 * DAY);
    let timeout = section.seconds("timeout_seconds", 10, 1..=30);
    let ca_file = section.text("ca_file", "write the path of a PEM certificate", |text| files.authorities(text));
    if section.has("ca_file") && issuer.as_ref().is_some_and(|issuer| issuer.starts_with("http://")) {
        section.fault("ca_file", "has no effect without TLS; leave it out");
    }
    let ca_is_valid = ca_file.is_some() || !section.has("ca_file");
    let default_logout = match kind {
        UpstreamKind::Google | UpstreamKind::GitHub => UpstreamLogout::Local,
        _ => UpstreamLogout::Upstream,
    };
    (kind_is_valid && ca_is_valid).then_some(())?;
    Some(UpstreamSettings {
        name: name?,
        label: label?,
        kind,
        issuer: issuer?,
        client_id: client_id?,
        credential: credential?,
        scopes,
        claims: claims?,
        arrival,
        linking,
        logout: logout.unwrap_or(default_logout),
        refresh,
        stale,
        session,
        timeout,
        ca_file,
    })
}

fn default_label(kind: UpstreamKind) -> Option<&'static str> {
    match kind {
        UpstreamKind::Entra => Some("Microsoft"),
        UpstreamKind::Google => Some("Google"),
        UpstreamKind::Okta => Some("Okta"),
        UpstreamKind::GitHub => Some("GitHub"),
        UpstreamKind::OpenId | UpstreamKind::Keycloak => None,
    }
}

fn issuer(
    section: &mut Section<'_, '_>,
    kind: UpstreamKind,
    kind_is_valid: bool,
    own: Option<&IssuerUrl>,
) -> Option<String> {
    let default = match kind {
        UpstreamKind::Google => Some("https://accounts.google.com"),
        UpstreamKind::GitHub => Some("https://github.com"),
        _ => None,
    };
    let read = |text: &str| {
        let url = document(text, false)?;
        if own.is_some_and(|own| own.as_str() == text) {
            return Err(format!("{text:?} is this provider; write the issuer of another provider"));
        }
        if let Some(placeholder) = placeholder(text, &url) {
            return Err(format!(
                "{text:?} is for several tenants ({placeholder}), so its tokens have other issuers; write the issuer \
                 of one tenant, exactly as in its metadata"
            ));
        }
        match kind {
            UpstreamKind::Entra if entra_tenant(text).is_none() => Err(format!(
                "{text:?} is not the issuer of an Entra tenant; write \
                 \"https://login.microsoftonline.com/TENANT_ID/v2.0\" with the tenant's id, a UUID"
            )),
            UpstreamKind::Google if text != "https://accounts.google.com" => {
                Err(format!("{text:?} is not Google's issuer; leave it out"))
            }
            UpstreamKind::Keycloak if !url.path().contains("/realms/") => {
                Err(format!("{text:?} is not the issuer of a Keycloak realm; write \"https://HOST/realms/REALM\""))
            }
            UpstreamKind::GitHub if url.path() != "/" || text.ends_with('/') => {
                Err(format!("{text:?} has a path; write only scheme and host, such as \"https://github.com\""))
            }
            _ => Ok(text.to_owned()),
        }
    };
    let allowed = "write the URL in the claim iss of its ID tokens";
    let issuer = section.text_if(default.is_none() && kind_is_valid, "issuer", allowed, read);
    if section.has("issuer") { issuer } else { default.map(str::to_owned) }
}

/// Returns the placeholder for a tenant in an issuer.
fn placeholder(text: &str, url: &Url) -> Option<String> {
    if let Some(start) = text.find(['{', '}']) {
        return text.get(start..).map(str::to_owned);
    }
    let host = url.host_str().unwrap_or_default();
    let is_microsoft = host.starts_with("login.") && host.contains("microsoft");
    let mut segments = url.path().split('/').filter(|_| is_microsoft);
    segments.find(|segment| matches!(*segment, "common" | "organizations" | "consumers")).map(str::to_owned)
}

/// Returns the tenant in an issuer of Microsoft Entra ID.
fn entra_tenant(issuer: &str) -> Option<String> {
    let (_, tenant) = issuer.strip_suffix("/v2.0")?.rsplit_once('/')?;
    let is_uuid = tenant.len() == 36 && Uuid::try_parse(tenant).is_ok();
    is_uuid.then(|| tenant.to_owned())
}

fn credential(
    section: &mut Section<'_, '_>,
    kind: UpstreamKind,
    keys: &KeyUses<'_>,
    files: &Files,
) -> Option<UpstreamCredential> {
    let secret = section.text("client_secret_file", "write the path of the file with the client secret", |text| {
        files.secret_file(text, "the client secret")
    });
    let key = section.text("client_key", "write the label of an EC P-256 key in the token", |text| {
        let label = tls_key_label(text).map_err(|_| {
            format!("{text:?} is not the label of a key; write 1 to 64 letters, digits, '-', '.', '_' or '~'")
        })?;
        keys.hsm.map_or(Ok(()), |hsm| hsm.allow_tls_key_label(&label))?;
        let is_of_certificate =
            |certificate: &ListenerCertificate| matches!(&certificate.key, CertificateKey::Token(own) if *own == label);
        if keys.certificates.iter().any(is_of_certificate) {
            return Err(format!("{text:?} is the key of a certificate in server.tls; use a key of its own"));
        }
        let product = match kind {
            // It finds keys by the thumbprints of registered certificates.
            UpstreamKind::Entra => Some("Entra accepts keys only with RSA certificates"),
            UpstreamKind::Google => Some("Google accepts only a client secret"),
            UpstreamKind::GitHub => Some("GitHub accepts only a client secret"),
            UpstreamKind::OpenId | UpstreamKind::Okta | UpstreamKind::Keycloak => None,
        };
        if let Some(product) = product {
            return Err(format!("{product}; write client_secret_file"));
        }
        Ok(label)
    });
    match (section.has("client_secret_file"), section.has("client_key")) {
        (true, true) => {
            section.fault("client_key", "cannot be used together with client_secret_file; leave one out");
            None
        }
        (true, false) => secret.map(UpstreamCredential::SecretFile),
        (false, true) => key.map(UpstreamCredential::Key),
        (false, false) => {
            let allowed = "write client_key with the label of a key in the token, or client_secret_file";
            section.missing("client_key", allowed);
            None
        }
    }
}

fn scopes(section: &mut Section<'_, '_>, kind: UpstreamKind) -> Vec<String> {
    let allowed = "write a list such as [\"openid\", \"profile\", \"email\"]";
    let is_openid = kind != UpstreamKind::GitHub;
    let mut count = 0;
    let scopes = section.some_texts("scopes", allowed, |text| {
        count += 1;
        if count > MAX_SCOPES {
            return Err(format!("there are more than {MAX_SCOPES} scopes; remove some"));
        }
        // RFC 6749 §3.3.
        let is_scope_char = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if text.is_empty() || text.len() > 256 || !text.bytes().all(is_scope_char) {
            return Err(format!("{text:?} is not a scope; {allowed}"));
        }
        Ok(text.to_owned())
    });
    if is_openid && scopes.as_ref().is_some_and(|scopes| !scopes.iter().any(|scope| scope == "openid")) {
        section.fault("scopes", "has no \"openid\", so the provider would send no ID token; add it");
    }
    let defaults: &[&str] = match kind {
        UpstreamKind::OpenId | UpstreamKind::Google | UpstreamKind::Keycloak => &["openid", "profile", "email"],
        UpstreamKind::Entra | UpstreamKind::Okta => &["openid", "profile", "email", "offline_access"],
        UpstreamKind::GitHub => &["read:user", "user:email"],
    };
    scopes.unwrap_or_else(|| defaults.iter().map(|scope| (*scope).to_owned()).collect())
}

fn claims(
    section: &mut Section<'_, '_>,
    kind: UpstreamKind,
    issuer: Option<&str>,
    name: Option<&str>,
    taken: &mut Taken,
) -> Option<UpstreamClaims> {
    let claim = "write a claim's name, or a JSON pointer such as \"/realm_access/roles\"";
    let subject = section.text("subject_claim", "write the claim with the id that never changes", |text| {
        if kind == UpstreamKind::GitHub && text != "id" {
            return Err(format!("{text:?} may change at GitHub; leave it out"));
        }
        // A JSON pointer to the same claim.
        if matches!(
            text.strip_prefix('/').unwrap_or(text),
            "email" | "preferred_username" | "upn" | "unique_name" | "name" | "nickname"
        ) {
            return Err(format!(
                "{text:?} may change and may belong to another user later; write a claim that never changes, such as \
                 \"sub\""
            ));
        }
        address::name(text)
    });
    let default_subject = match kind {
        UpstreamKind::Entra => "oid",
        UpstreamKind::GitHub => "id",
        _ => "sub",
    };
    let required = required(section, kind, issuer);
    let allowed = "write domains of e-mail addresses, such as [\"example.com\"]";
    let domains = section.texts("domains", allowed, |text| taken.domain(text)).unwrap_or_default();
    let emails_are_verified = section.flag("emails_are_verified", false);
    if emails_are_verified && domains.is_empty() {
        section.fault("emails_are_verified", "requires domains, the domains that the provider owns; set both");
    }
    let email_proof = match kind {
        _ if emails_are_verified => EmailProof::Always,
        UpstreamKind::Entra => EmailProof::ClaimOrDomainOwner,
        _ => EmailProof::Claim,
    };
    let username = section.text("username_claim", claim, address::name);
    let groups = section.text("groups_claim", claim, |text| {
        if kind == UpstreamKind::GitHub && text != "teams" {
            return Err(format!("{text:?} is not a claim of GitHub; write \"teams\""));
        }
        address::name(text)
    });
    let prefix = section.text("group_prefix", "write the prefix of its groups, or \"\"", group_prefix);
    let mapped = group_map(section);
    if !section.has("groups_claim") {
        for key in ["group_prefix", "group_map"] {
            if section.has(key) {
                section.fault(key, "requires groups_claim, the claim with the groups; set both");
            }
        }
    }
    if section.has("group_prefix") && section.has("group_map") {
        section.fault("group_prefix", "has no effect with group_map, whose names are complete; leave one out");
    }
    let levels = section.named_texts("acr", "write { \"ACR\" = \"2\" }", |acr, level| {
        let level = AssuranceLevel::parse(level)
            .ok_or_else(|| format!("{level:?} is not a level; write \"1\", \"2\" or \"3\""))?;
        Ok((acr.to_owned(), level))
    });
    let group_names = match mapped {
        Some(names) => GroupNames::Only(names),
        None => GroupNames::Prefixed(prefix.unwrap_or_else(|| format!("{}:", name.unwrap_or_default()))),
    };
    if section.has("subject_claim") && subject.is_none() {
        return None;
    }
    Some(UpstreamClaims {
        subject: subject.unwrap_or_else(|| default_subject.to_owned()),
        required,
        domains,
        email_proof,
        username,
        groups,
        group_names,
        levels: levels.unwrap_or_default().into_iter().collect(),
    })
}

fn required(section: &mut Section<'_, '_>, kind: UpstreamKind, issuer: Option<&str>) -> Vec<RequiredClaim> {
    let mut count = 0;
    let required = section.named_texts("required", "write { CLAIM = \"VALUE\" }", |claim, value| {
        count += 1;
        if count > MAX_REQUIRED {
            return Err(format!("there are more than {MAX_REQUIRED} required claims; remove some"));
        }
        if value.is_empty() {
            return Err("is empty; write the value that the claim must have".to_owned());
        }
        Ok(RequiredClaim { claim: address::name(claim)?, value: value.to_owned() })
    });
    let mut required = required.unwrap_or_default();
    let tenant = issuer.filter(|_| kind == UpstreamKind::Entra).and_then(entra_tenant);
    // `oid` is unique only within a tenant.
    if let Some(tenant) = tenant
        && !required.iter().any(|required| required.claim == "tid")
    {
        required.push(RequiredClaim { claim: "tid".to_owned(), value: tenant });
    }
    required
}

fn group_map(section: &mut Section<'_, '_>) -> Option<BTreeMap<String, String>> {
    let mut count = 0;
    let names =
        section.named_texts("group_map", "write { \"GROUP AT THE PROVIDER\" = \"local group\" }", |theirs, ours| {
            count += 1;
            if count > MAX_MAPPED {
                return Err(format!("there are more than {MAX_MAPPED} groups; remove some"));
            }
            Ok((theirs.to_owned(), address::group(ours)?))
        });
    names.map(|names| names.into_iter().collect())
}
