//! An application's rules, and which of them a path falls under. Pure.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::config::{Access, App, Route};
use crate::gateway::path::{Ambiguous, CanonicalPath};

/// The rule for a path, or for a path and all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// As configured, in canonical form.
    pub path: String,
    /// Who is let through.
    pub access: Access,
    /// Scopes that a bearer token must have, all of them.
    pub scopes: Vec<String>,
    /// Groups of which a person must be in at least one; everybody when empty.
    pub groups: Vec<String>,
}

impl Rule {
    fn new(route: &Route) -> Self {
        let Route { path, access, scopes, groups } = route.clone();
        Self { path, access, scopes, groups }
    }

    fn asks_the_same_as(&self, other: &Self) -> bool {
        (self.access, &self.scopes, &self.groups) == (other.access, &other.scopes, &other.groups)
    }

    /// Whether the rule is for exactly this path.
    fn names(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        same(path, self.path.as_bytes())
    }

    /// Whether the rule is for this path because it is for all below another one. That one's own name without its slash
    /// belongs to it: most applications serve `/admin` and `/admin/` alike.
    fn covers(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let prefix = self.path.as_bytes();
        let Some(bare) = prefix.strip_suffix(b"/") else { return false };
        path.split_at_checked(prefix.len()).is_some_and(|(start, _)| same(start, prefix)) || same(path, bare)
    }
}

/// All rules of one application.
#[derive(Debug)]
pub(super) struct Routes {
    /// The longest path first.
    rules: Vec<Rule>,
}

impl Routes {
    /// The rules of this application. A path that could never match would leave what it was to protect to a wider rule,
    /// so one such path closes the whole application; the configuration's check lets none through.
    pub(super) fn of(app: &App) -> Self {
        let mut rules: Vec<Rule> = app.routes.iter().map(Rule::new).collect();
        let sound =
            |rule: &Rule| CanonicalPath::parse(&rule.path).is_ok_and(|path| path.as_bytes() == rule.path.as_bytes());
        if let Some(rule) = rules.iter().find(|rule| !sound(rule)) {
            tracing::error!(
                app = app.name,
                path = rule.path,
                "a route's path can never match; the application is closed"
            );
            rules.clear();
        }
        rules.sort_by_key(|rule| Reverse(rule.path.len()));
        Self { rules }
    }

    /// The rule for this path: the one that names it, or else the one with the longest path above it. None when no rule
    /// is for it: then nobody may.
    ///
    /// # Errors
    /// [`Ambiguous::Spelling`] when a server that is blind to case, or takes names as Windows does, would serve what another
    /// rule asks more or less for.
    pub(super) fn find(&self, path: &CanonicalPath<'_>) -> Result<Option<&Rule>, Ambiguous> {
        let path = path.as_bytes();
        let Some(found) = self.longest(path, |one, other| one == other) else { return Ok(None) };
        match self.longest(&as_windows_reads(path), <[u8]>::eq_ignore_ascii_case) {
            Some(blind) if !blind.asks_the_same_as(found) && !blind.path.eq_ignore_ascii_case(&found.path) => {
                Err(Ambiguous::Spelling)
            }
            _ => Ok(Some(found)),
        }
    }

    fn longest(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool + Copy) -> Option<&Rule> {
        let named = self.rules.iter().find(|rule| rule.names(path, same));
        named.or_else(|| self.rules.iter().find(|rule| rule.covers(path, same)))
    }
}

/// The path as a server on Windows may open it: dots and spaces at the end of a name count for nothing, and what follows a
/// colon names a stream of the same file. So `/admin./` is `/admin/` there.
fn as_windows_reads(path: &[u8]) -> Cow<'_, [u8]> {
    let ends_oddly = |name: &[u8]| matches!(name.last(), Some(b'.' | b' ')) || name.contains(&b':');
    if !path.split(|byte| *byte == b'/').any(ends_oddly) {
        return Cow::Borrowed(path);
    }
    let mut read = Vec::with_capacity(path.len());
    for (index, name) in path.split(|byte| *byte == b'/').enumerate() {
        if index > 0 {
            read.push(b'/');
        }
        let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
        let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
        read.extend_from_slice(name.get(..end).unwrap_or_default());
    }
    Cow::Owned(read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn routes(paths: &[(&str, Access)]) -> Routes {
        let rule = |(path, access): &(&str, Access)| Rule {
            path: (*path).to_owned(),
            access: *access,
            scopes: vec![],
            groups: vec![],
        };
        let mut rules: Vec<Rule> = paths.iter().map(rule).collect();
        rules.sort_by_key(|rule| Reverse(rule.path.len()));
        Routes { rules }
    }

    fn found<'r>(routes: &'r Routes, raw: &str) -> Result<Option<&'r str>, Ambiguous> {
        let path = CanonicalPath::parse(raw)?;
        Ok(routes.find(&path)?.map(|rule| rule.path.as_str()))
    }

    fn wiki() -> Routes {
        routes(&[
            ("/", Access::SignedIn),
            ("/public/", Access::Public),
            ("/public/private/", Access::SignedIn),
            ("/health", Access::Public),
            ("/api/", Access::Bearer),
        ])
    }

    #[test]
    fn the_longest_path_wins() {
        for (raw, rule) in [
            ("/", "/"),
            ("/x", "/"),
            ("/public/", "/public/"),
            ("/public/a/b", "/public/"),
            ("/public/private/x", "/public/private/"),
            ("/publicity", "/"),
            ("/api/x", "/api/"),
            ("/apix", "/"),
        ] {
            assert_eq!(found(&wiki(), raw), Ok(Some(rule)), "{raw}");
        }
    }

    #[test]
    fn a_path_without_a_slash_at_its_end_is_that_path_alone() {
        assert_eq!(found(&wiki(), "/health"), Ok(Some("/health")));
        for raw in ["/health/", "/health/x", "/healthy", "/health%3fx"] {
            assert_eq!(found(&wiki(), raw), Ok(Some("/")), "{raw}");
        }
    }

    #[test]
    fn a_rule_covers_its_own_name_without_the_slash() {
        assert_eq!(found(&wiki(), "/api"), Ok(Some("/api/")));
        let both = routes(&[("/", Access::SignedIn), ("/api", Access::Public), ("/api/", Access::Bearer)]);
        assert_eq!(found(&both, "/api"), Ok(Some("/api")));
        assert_eq!(found(&both, "/api/"), Ok(Some("/api/")));
    }

    #[test]
    fn an_escape_does_not_lead_around_a_rule() {
        for raw in ["/%61pi/x", "/ap%69/x", "/%61%70%69/"] {
            assert_eq!(found(&wiki(), raw), Ok(Some("/api/")), "{raw}");
        }
    }

    #[test]
    fn what_no_rule_is_for_is_closed() {
        let narrow = routes(&[("/public/", Access::Public)]);
        for raw in ["/", "/x", "/publi", "/publicx", "/PUBLIC/x"] {
            assert_eq!(found(&narrow, raw), Ok(None), "{raw}");
        }
    }

    #[test]
    fn letter_case_does_not_lead_around_a_rule() {
        for raw in ["/API/x", "/Api", "/Public/x", "/HEALTH", "/public/Private/x", "/%41pi/x"] {
            assert_eq!(found(&wiki(), raw), Err(Ambiguous::Spelling), "{raw}");
        }
        assert_eq!(found(&wiki(), "/Wiki/Main_Page"), Ok(Some("/")));
        let same = routes(&[("/", Access::SignedIn), ("/docs/", Access::SignedIn)]);
        assert_eq!(found(&same, "/DOCS/x"), Ok(Some("/")));
        let spelled = routes(&[("/", Access::SignedIn), ("/a/", Access::Public), ("/A/", Access::Bearer)]);
        assert_eq!(found(&spelled, "/a/x"), Ok(Some("/a/")));
        assert_eq!(found(&spelled, "/A/x"), Ok(Some("/A/")));
    }

    #[test]
    fn what_windows_leaves_out_of_a_name_does_not_lead_around_a_rule() {
        for raw in [
            "/api./x",
            "/api.",
            "/api.../x",
            "/api%20/x",
            "/api.%20.",
            "/API./",
            "/api:$DATA",
            "/api::$INDEX_ALLOCATION/x",
        ] {
            assert_eq!(found(&wiki(), raw), Err(Ambiguous::Spelling), "{raw}");
        }
        for raw in ["/a.b", "/wiki./x", "/Talk:Main_Page", "/mailto:anna", "/.api/"] {
            assert_eq!(found(&wiki(), raw), Ok(Some("/")), "{raw}");
        }
        assert_eq!(found(&wiki(), "/api/x."), Ok(Some("/api/")));
    }

    proptest! {
        #[test]
        fn nothing_below_a_rule_escapes_it(tail in "[!-~]{0,30}") {
            let routes = routes(&[("/", Access::Public), ("/admin/", Access::SignedIn)]);
            let raw = format!("/admin/{tail}");
            if let Ok(path) = CanonicalPath::parse(&raw) {
                prop_assert_eq!(routes.find(&path).map(|rule| rule.map(|rule| rule.access)), Ok(Some(Access::SignedIn)));
            }
        }

        #[test]
        fn the_found_rule_is_the_longest_that_covers(raw in "/[ab/]{0,8}") {
            let rules = [("/", Access::SignedIn), ("/a/", Access::Public), ("/a/b/", Access::Bearer), ("/a/b", Access::Public)];
            if let Ok(path) = CanonicalPath::parse(&raw) {
                let routes = routes(&rules);
                let ours = routes.find(&path).unwrap().map(|rule| rule.path.clone());
                let below = |rule: &str| rule.ends_with('/') && format!("{raw}/").starts_with(rule);
                let naive = rules.iter().map(|(rule, _)| *rule).find(|rule| *rule == raw).or_else(|| {
                    rules.iter().map(|(rule, _)| *rule).filter(|rule| below(rule)).max_by_key(|rule| rule.len())
                });
                prop_assert_eq!(ours.as_deref(), naive);
            }
        }
    }
}
