//! Target of a request at an upstream whose paths differ from the paths that clients see. Pure.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http::uri::PathAndQuery;

use crate::characters::Characters;
use crate::destination;
use crate::path::CanonicalPath;
use crate::reading::Ambiguous;
use crate::route::Rule;
use sealgate_config::PathPrefix;

const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Target of a request at its upstream, and the prefix that was replaced in the target.
#[derive(Debug, Clone)]
pub(super) struct UpstreamTarget {
    pub prefix: Arc<PathPrefix>,
    pub path_and_query: PathAndQuery,
    /// `Destination` with the path at the upstream.
    destination: Option<HeaderValue>,
    /// URL with a slash after the prefix. `None` if the request already has that slash.
    pub with_slash: Option<String>,
}

impl UpstreamTarget {
    /// Returns the target at the upstream of the rule. `None` if the upstream receives the path of
    /// the request unchanged.
    ///
    /// # Errors
    /// If the upstream could read the new path in more than one way.
    pub(super) fn new(
        rule: &Rule,
        target: &PathAndQuery,
        headers: &HeaderMap,
        characters: Characters,
    ) -> Result<Option<Self>, Ambiguous> {
        let Some(prefix) = &rule.upstream.prefix else { return Ok(None) };
        let at_upstream = |target: &str| {
            let changed = prefix.to_upstream(target);
            // The new path is checked too: without its prefix, a path may begin with an escaped
            // slash.
            let path = CanonicalPath::parse_with(changed.split('?').next().unwrap_or_default(), characters)?;
            path.interpretations().map(drop)?;
            Ok(changed)
        };
        let path_and_query = PathAndQuery::try_from(at_upstream(target.as_str())?).map_err(|_| Ambiguous::Readings)?;
        let destination = match headers.get(destination::DESTINATION) {
            None => None,
            Some(field) => {
                let text = field.to_str().map_err(|_| Ambiguous::Character)?;
                let path = destination::path(text).ok_or(Ambiguous::NotAbsolute)?;
                let before = text.strip_suffix(path).unwrap_or_default();
                let changed = format!("{before}{}", at_upstream(path)?);
                Some(HeaderValue::try_from(changed).map_err(|_| Ambiguous::Character)?)
            }
        };
        Ok(Some(Self {
            prefix: Arc::clone(prefix),
            path_and_query,
            destination,
            with_slash: with_slash(prefix, target),
        }))
    }

    /// Returns the header fields that differ for the upstream.
    pub(super) fn fields(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let forwarded = self.prefix.forwarded_prefix().and_then(|prefix| HeaderValue::from_str(prefix).ok());
        let destination = self.destination.clone().map(|value| (destination::DESTINATION, value));
        forwarded.map(|value| (FORWARDED_PREFIX, value)).into_iter().chain(destination)
    }
}

/// Returns the target with a slash after its path, if the path is the prefix without its slash.
///
/// Relative links of the upstream's page would otherwise lead out of the prefix.
fn with_slash(prefix: &PathPrefix, target: &PathAndQuery) -> Option<String> {
    let slashes = |text: &str| text.bytes().filter(|byte| *byte == b'/').count();
    if slashes(target.path()) >= slashes(&prefix.public) {
        return None;
    }
    let query = target.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{}{query}", prefix.public))
}
