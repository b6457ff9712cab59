//! Presets of identity headers for well-known applications.
//!
//! docs/reference/identity-headers.md lists the tested presets. It also lists the settings that
//! each application needs.

use http::HeaderName;

use super::{AuthorizationHeader, GroupsDelimiter, IdentityHeaders, IdentityValue, Names};
use IdentityValue::{Email, Groups, Name, Username};

/// Identity settings of one application.
pub(super) struct Preset {
    pub(super) name: &'static str,
    headers: &'static [(&'static str, IdentityValue)],
    names: Names,
    groups_delimiter: GroupsDelimiter,
    authorization: AuthorizationHeader,
}

/// Creates a preset that encodes values as ASCII and forwards the client's `Authorization` header.
const fn plain(name: &'static str, headers: &'static [(&'static str, IdentityValue)]) -> Preset {
    Preset {
        name,
        headers,
        names: Names::AsciiPercent,
        groups_delimiter: GroupsDelimiter::Comma,
        authorization: AuthorizationHeader::Pass,
    }
}

const REMOTE: &[(&str, IdentityValue)] =
    &[("remote-user", Username), ("remote-email", Email), ("remote-name", Name), ("remote-groups", Groups)];

pub(super) const PRESETS: &[Preset] = &[
    plain("dokuwiki", REMOTE),
    Preset {
        names: Names::Utf8,
        ..plain("gitea", &[("x-webauth-user", Username), ("x-webauth-email", Email), ("x-webauth-fullname", Name)])
    },
    Preset {
        names: Names::Utf8,
        ..plain(
            "grafana",
            &[
                ("x-webauth-user", Username),
                ("x-webauth-email", Email),
                ("x-webauth-name", Name),
                ("x-webauth-groups", Groups),
            ],
        )
    },
    Preset {
        names: Names::Utf8,
        groups_delimiter: GroupsDelimiter::Bar,
        ..plain(
            "jenkins",
            &[
                ("x-forwarded-user", Username),
                ("x-forwarded-mail", Email),
                ("x-forwarded-displayname", Name),
                ("x-forwarded-groups", Groups),
            ],
        )
    },
    plain("jupyterhub", &[("remote-user", Username)]),
    plain("jupyterlab", REMOTE),
    plain("mediawiki", REMOTE),
    plain("nextcloud", REMOTE),
    Preset { authorization: AuthorizationHeader::Strip, ..plain("radicale", &[("x-remote-user", Username)]) },
];

/// Returns the preset with this name.
pub(super) fn by_name(name: &str) -> Option<IdentityHeaders> {
    let preset = PRESETS.iter().find(|preset| preset.name == name)?;
    Some(IdentityHeaders {
        headers: preset.headers.iter().map(|(name, value)| (HeaderName::from_static(name), *value)).collect(),
        names: preset.names,
        groups_delimiter: preset.groups_delimiter,
        authorization: preset.authorization,
        ..IdentityHeaders::default()
    })
}
