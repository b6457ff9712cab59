//! Rules of an application, and the lookup of the rules that apply to a path. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use http::Method;

use crate::characters::Characters;
use crate::path::CanonicalPath;
use crate::place_index;
use crate::place_index::PlaceIndex;
use crate::reading;
use crate::reading::Ambiguous;
use crate::work;
use sealgate_config::{Access, App, PathCharacters};

pub(super) use sealgate_config::Route as Rule;

/// Registered methods (RFC 9110 §16.1.1), and `PURGE`, which caches accept.
const METHODS: &[&str] = &[
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Returns whether a rule without methods applies to this method.
///
/// It applies to the registered methods except `CONNECT` and `TRACE`, which no rule can allow.
/// `PURGE` is not registered.
fn is_ordinary(method: &str) -> bool {
    METHODS.contains(&method) && !matches!(method, "CONNECT" | "TRACE" | "PURGE")
}

/// Path that has its own rules. A path that ends in `/` includes everything below it.
#[derive(Debug, Clone)]
pub(super) struct RoutePlace {
    pub path: String,
    /// One rule per set of methods; a rule without methods comes last. Never empty.
    rules: Vec<Rule>,
}

impl RoutePlace {
    /// Returns the rule for this method, or `None` if no rule of this path applies to it.
    ///
    /// A rule of a wider path does not apply then: it would open a method that this path excludes.
    pub(super) fn rule(&self, method: &str) -> Option<&Rule> {
        let named = |method: &str| self.rules.iter().find(|rule| rule.methods.iter().any(|known| known == method));
        // HEAD is allowed wherever GET is (RFC 9110 §9.3.2).
        let head = || (method == "HEAD").then(|| named("GET")).flatten();
        // An unknown method must be listed in a rule: its effect on the application is unknown.
        let left = || is_ordinary(method).then(|| self.rules.iter().find(|rule| rule.methods.is_empty())).flatten();
        named(method).or_else(head).or_else(left)
    }

    /// Returns the methods that at least one rule of this path applies to, sorted.
    pub(super) fn methods(&self) -> Vec<&str> {
        let mut methods: Vec<&str> = self.rules.iter().flat_map(|rule| &rule.methods).map(String::as_str).collect();
        if self.rules.iter().any(|rule| rule.methods.is_empty()) {
            methods.extend(METHODS.iter().filter(|method| is_ordinary(method)));
        }
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    fn asks_the_same_as(&self, other: &Self) -> bool {
        self.rules.len() == other.rules.len()
            && self.rules.iter().zip(&other.rules).all(|(one, other)| one.asks_the_same_as(other))
    }

    /// Returns the characters that the application reads as data at this path, for every method.
    fn characters(&self) -> Characters {
        let of = |rule: &Rule| {
            let PathCharacters { semicolon, slash, backslash, double_slash } = rule.path_characters;
            Characters { semicolon, slash, backslash, double_slash }
        };
        let characters = self.rules.iter().map(of).reduce(|one, other| Characters {
            semicolon: one.semicolon && other.semicolon,
            slash: one.slash && other.slash,
            backslash: one.backslash && other.backslash,
            double_slash: one.double_slash && other.double_slash,
        });
        characters.unwrap_or_default()
    }

    /// Returns the path with its short names expanded to segments of this place's path, where they
    /// can match.
    fn written_out(&self, path: &[u8]) -> Option<Vec<u8>> {
        work::count(path.len());
        reading::written_out(path, self.path.as_bytes())
    }

    /// Returns whether every request to this path is allowed without credentials.
    fn is_open(&self) -> bool {
        self.rules.iter().all(|rule| rule.access == Access::Public)
            && self.rules.iter().any(|rule| rule.methods.is_empty())
    }

    /// Returns whether the rules name exactly this path.
    fn names(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        same(path, self.path.as_bytes())
    }

    /// Returns whether the rules apply to this path because it is below theirs.
    ///
    /// `/admin` without its slash belongs to `/admin/`: most applications serve both alike.
    fn covers(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let prefix = self.path.as_bytes();
        let Some(bare) = prefix.strip_suffix(b"/") else { return false };
        path.split_at_checked(prefix.len()).is_some_and(|(start, _)| same(start, prefix)) || same(path, bare)
    }
}

/// Rules of one application.
#[derive(Debug)]
pub(super) struct Routes {
    /// Sorted by length of the path, longest first.
    places: Vec<RoutePlace>,
    index: PlaceIndex,
    /// Number of segments of the deepest rule, including the empty ones at its start and end.
    max_segments: usize,
    /// Upper bound of the length of a rule's segment, and of the part of a short name that is
    /// compared.
    max_segment_bytes: usize,
    characters: Characters,
    /// Methods that rules name, in upper case.
    ruled_methods: BTreeSet<String>,
}

impl Routes {
    /// Builds the rules of an application.
    ///
    /// A rule whose path can never match would leave its target to a wider rule. One such rule
    /// closes the whole application. The validation of the configuration rejects these rules
    /// before.
    pub(super) fn of(app: &App) -> Self {
        let sound =
            |rule: &Rule| CanonicalPath::parse(&rule.path).is_ok_and(|path| path.as_bytes() == rule.path.as_bytes());
        if let Some(rule) = app.routes.iter().find(|rule| !sound(rule)) {
            tracing::error!(
                app = app.name,
                path = rule.path,
                "a route's path can never match; the application is closed"
            );
            return Self::new(&[]);
        }
        Self::new(&app.routes)
    }

    fn new(rules: &[Rule]) -> Self {
        let mut places: Vec<RoutePlace> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for rule in rules {
            let number = *known.entry(&rule.path).or_insert(places.len());
            match places.get_mut(number) {
                Some(place) => place.rules.push(rule.clone()),
                None => places.push(RoutePlace { path: rule.path.clone(), rules: vec![rule.clone()] }),
            }
        }
        for place in &mut places {
            place.rules.sort_by(|one, other| {
                one.methods.is_empty().cmp(&other.methods.is_empty()).then_with(|| one.methods.cmp(&other.methods))
            });
        }
        places.sort_by_key(|place| Reverse(place.path.len()));
        let characters = places.iter().map(RoutePlace::characters).fold(Characters::default(), Characters::with);
        let ruled_methods = rules.iter().flat_map(|rule| &rule.methods).map(|method| method.to_ascii_uppercase());
        let segments = |place: &RoutePlace| place.path.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count() + 1;
        let max_segments = places.iter().map(segments).max().unwrap_or_default();
        let longest = places.first().map_or(0, |place| place.path.len());
        let max_segment_bytes = longest.max(reading::SHORT_NAME_BYTES);
        let index = PlaceIndex::of(places.iter().map(|place| place.path.as_bytes()));
        let ruled_methods = ruled_methods.collect();
        Self { places, index, max_segments, max_segment_bytes, characters, ruled_methods }
    }

    /// Returns the characters that the application reads as data in at least one place.
    pub(super) const fn characters(&self) -> Characters {
        self.characters
    }

    /// Returns whether any rule names methods.
    pub(super) fn look_at_methods(&self) -> bool {
        !self.ruled_methods.is_empty()
    }

    /// Returns whether the method differs only in letter case from a registered method or from a
    /// method in a rule.
    pub(super) fn respells(&self, method: &Method) -> bool {
        let method = method.as_str();
        // Lower-case letters are rare in methods, and no rule names a method that has one.
        if !method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return false;
        }
        METHODS.iter().any(|known| known.eq_ignore_ascii_case(method))
            || self.ruled_methods.contains(&method.to_ascii_uppercase())
    }

    /// Returns the rules for this path: those of exactly this path, otherwise those of the longest
    /// path above it. `None` if there are none; the request must then be refused.
    ///
    /// # Errors
    /// [`Ambiguous::Spelling`] if a server that reads the path in another way, for example ignoring
    /// letter case, would serve a path whose rules have other requirements. [`Ambiguous::Hidden`]
    /// if the path has a character that its rules do not list as data.
    pub(super) fn find(&self, path: &CanonicalPath<'_>) -> Result<Option<&RoutePlace>, Ambiguous> {
        let near = self.near(path.as_bytes());
        let Some(found) = longest(&near, path.as_bytes(), |one, other| one == other) else { return Ok(None) };
        if !found.characters().cover(path.characters()) {
            return Err(Ambiguous::Hidden);
        }
        for (read, others) in path.interpretations()? {
            let near = self.near(read);
            let place = longest(&near, read, |one, other| one == other);
            if !place.is_some_and(|place| place.asks_the_same_as(found)) {
                return Err(Ambiguous::Spelling);
            }
            self.check(read, others, &near, found)?;
        }
        Ok(Some(found))
    }

    /// Returns the other places with the path's name and those below it, for every reading of the
    /// path. `found` are the rules for the path.
    ///
    /// # Errors
    /// If the path can be read in more than one way, which [`Routes::find`] refuses too.
    pub(super) fn below(&self, path: &CanonicalPath<'_>, found: &RoutePlace) -> Result<Vec<&RoutePlace>, Ambiguous> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut below = Vec::new();
        for (text, others) in path.interpretations()? {
            names.push(text);
            names.extend(others.iter().map(Vec::as_slice));
            // The short names are expanded to segments of this place. If any place is below the
            // path, this one is.
            let is_below = |number: usize, read: &[u8]| {
                let place = self.places.get(number).map(|place| reading::as_windows_reads(place.path.as_bytes()));
                place.is_some_and(|place| place_index::is_below(&place, &reading::as_windows_reads(read)))
            };
            below.extend(
                self.written_out(text).filter(|(number, read)| is_below(*number, read)).map(|(number, _)| number),
            );
        }
        self.index.add_below(names.into_iter(), &mut below);
        below.sort_unstable();
        below.dedup();
        let places = below.into_iter().filter_map(|number| self.places.get(number));
        Ok(places.filter(|place| !place.path.eq_ignore_ascii_case(&found.path)).collect())
    }

    /// Returns the places that the path can match in any reading, longest path first.
    fn near(&self, path: &[u8]) -> Vec<&RoutePlace> {
        self.index.near(path).into_iter().filter_map(|number| self.places.get(number)).collect()
    }

    /// Checks that every other reading of the path leads to the same rules.
    /// `others` are its readings by servers that fold letters or open Windows names.
    fn check(
        &self,
        path: &[u8],
        others: &[Vec<u8>],
        near: &[&RoutePlace],
        found: &RoutePlace,
    ) -> Result<(), Ambiguous> {
        let spelled = |blind: &RoutePlace| blind.path.eq_ignore_ascii_case(&found.path);
        match longest(near, path, <[u8]>::eq_ignore_ascii_case) {
            Some(blind) if !blind.asks_the_same_as(found) && !spelled(blind) => return Err(Ambiguous::Spelling),
            _ => {}
        }
        if is_below_a_name(near, path, found) || self.is_read_otherwise(path, others, found) {
            return Err(Ambiguous::Spelling);
        }
        Ok(())
    }

    /// Returns whether another reading of the path leads to other rules.
    fn is_read_otherwise(&self, path: &[u8], others: &[Vec<u8>], found: &RoutePlace) -> bool {
        let cut = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
        others.iter().any(|read| self.has_other_rules(read, found, cut))
            || self.written_out(path).any(|(_, read)| self.has_other_rules(&read, found, None))
    }

    /// Returns the readings of a path in which its short names are expanded to segments of a place,
    /// each with the number of that place.
    ///
    /// Compares only the part of the path that rules can match. Returns nothing if that part has no
    /// short name.
    fn written_out(&self, path: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
        let start = Some(path).filter(|path| path.contains(&b'~')).map(|path| self.matchable_start(path));
        let start = start.filter(|start| reading::has_short_name(start)).into_iter();
        start.flat_map(|start| {
            let places = self.places.iter().enumerate();
            places.filter_map(move |(number, place)| Some((number, place.written_out(&start)?)))
        })
    }

    /// Returns whether a reading of the path matches rules that differ from `found`. `cut` is the
    /// offset of the first `?` or `#`.
    fn has_other_rules(&self, read: &[u8], found: &RoutePlace, cut: Option<usize>) -> bool {
        // Compare with the rule's own path as Windows reads it.
        let same = |read: &[u8], rule: &[u8]| read.eq_ignore_ascii_case(&reading::as_windows_reads(rule));
        work::count(read.len());
        let near = self.near(read);
        let agrees = match longest(&near, read, same) {
            // A server that cuts the path at `?` or `#` may serve an open path. It was open to the
            // client anyway.
            Some(place) if cut.is_some_and(|cut| read.len() <= cut) && place.is_open() => true,
            Some(place) => place.asks_the_same_as(found) || place.path.eq_ignore_ascii_case(&found.path),
            None => false,
        };
        !agrees || is_below_a_name(&near, read, found)
    }

    /// Returns the start of the path that decides which rules match the path.
    ///
    /// It has one segment more than the deepest rule, and each segment at most one byte more than
    /// the longest rule. This bounds the work per rule for paths of any length.
    fn matchable_start(&self, path: &[u8]) -> Vec<u8> {
        let mut start = Vec::new();
        for (index, name) in path.split(|byte| *byte == b'/').take(self.max_segments + 1).enumerate() {
            if index > 0 {
                start.push(b'/');
            }
            start.extend_from_slice(name.get(..=self.max_segment_bytes).unwrap_or(name));
        }
        start
    }
}

/// Returns whether the path is below the exact path of rules with other requirements.
///
/// Many servers run the script at that path and pass it the rest (`/admin.php/x`). Ignores paths
/// that are open anyway, and those no longer than the path of `found`.
fn is_below_a_name(near: &[&RoutePlace], path: &[u8], found: &RoutePlace) -> bool {
    near.iter().take_while(|place| place.path.len() > found.path.len()).any(|place| {
        let name = place.path.as_bytes();
        let below = path
            .split_at_checked(name.len())
            .is_some_and(|(start, rest)| rest.first() == Some(&b'/') && start.eq_ignore_ascii_case(name));
        below && !name.ends_with(b"/") && !place.is_open() && !place.asks_the_same_as(found)
    })
}

fn longest<'p>(
    near: &[&'p RoutePlace],
    path: &[u8],
    same: impl Fn(&[u8], &[u8]) -> bool + Copy,
) -> Option<&'p RoutePlace> {
    let named = near.iter().find(|place| place.names(path, same));
    named.or_else(|| near.iter().find(|place| place.covers(path, same))).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn routes(paths: &[(&str, Access)]) -> Routes {
        let rules: Vec<Rule> = paths.iter().map(|(path, access)| Rule::plain(path, *access)).collect();
        Routes::new(&rules)
    }

    fn found<'r>(routes: &'r Routes, raw: &str) -> Result<Option<&'r str>, Ambiguous> {
        let path = CanonicalPath::parse(raw)?;
        Ok(routes.find(&path)?.map(|place| place.path.as_str()))
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
    fn a_method_that_no_rule_of_the_longest_path_lists_has_none() {
        let for_methods = |path: &str, methods: &[&str]| Rule {
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            ..Rule::plain(path, Access::SignedIn)
        };
        let routes = Routes::new(&[
            Rule::plain("/", Access::Public),
            for_methods("/api/", &["GET", "POST"]),
            for_methods("/api/", &["DELETE"]),
            Rule { access: Access::Bearer, ..for_methods("/files/", &["PUT"]) },
            Rule::plain("/files/", Access::Public),
        ]);
        let rule = |path: &str, method: &str| {
            let place = routes.find(&CanonicalPath::parse(path).unwrap()).unwrap().unwrap();
            place.rule(method).map(|rule| (rule.methods.clone(), rule.access))
        };
        assert_eq!(rule("/api/x", "GET").unwrap().0, ["GET", "POST"]);
        assert_eq!(rule("/api/x", "HEAD").unwrap().0, ["GET", "POST"]);
        assert_eq!(rule("/api/x", "DELETE").unwrap().0, ["DELETE"]);
        for method in ["PUT", "get", "OPTIONS", "PATCH", ""] {
            assert_eq!(rule("/api/x", method), None, "{method}");
        }
        assert_eq!(rule("/files/x", "PUT").unwrap().1, Access::Bearer);
        assert_eq!(rule("/files/x", "GET").unwrap().1, Access::Public);
        let place = routes.find(&CanonicalPath::parse("/api").unwrap()).unwrap().unwrap();
        assert_eq!(place.methods(), ["DELETE", "GET", "HEAD", "POST"]);
        // A rule without methods applies to registered methods only.
        assert_eq!(rule("/", "PROPFIND").unwrap().1, Access::Public);
        for method in ["FOO", "TRACE", "CONNECT", "PURGE", "X"] {
            assert_eq!((rule("/", method), rule("/files/x", method)), (None, None), "{method}");
        }
        assert!(routes.look_at_methods());
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

    #[test]
    fn a_script_with_more_behind_its_name_is_still_that_script() {
        let scripts = routes(&[
            ("/", Access::Public),
            ("/admin.php", Access::SignedIn),
            ("/both", Access::SignedIn),
            ("/both/", Access::Public),
            ("/open", Access::Public),
            ("/inner/", Access::SignedIn),
        ]);
        for raw in [
            "/admin.php/",
            "/admin.php/x",
            "/ADMIN.php/x/y",
            "/admin.php%3Fx",
            "/admin.php%23",
            "/admin.php%3F/x",
            "/admin.php./x",
            "/admin.php::$DATA/x",
            "/Admin.PHP%20%3fx",
            "/adm%C4%B1n.php/x",
            "/inner%3Fx",
            "/ad%C2%ADmin.php",
        ] {
            assert_eq!(found(&scripts, raw), Err(Ambiguous::Spelling), "{raw}");
        }
        for (raw, rule) in [
            ("/admin.php", "/admin.php"),
            ("/admin.phpx/x", "/"),
            ("/both/x", "/both/"),
            ("/open/x", "/"),
            ("/what%3Fnow", "/"),
            ("/inner/x/open%3Fx", "/inner/"),
        ] {
            assert_eq!(found(&scripts, raw), Ok(Some(rule)), "{raw}");
        }
        // Both rules have the same requirements, so that neither bypasses the other.
        let same = routes(&[("/", Access::SignedIn), ("/admin.php", Access::SignedIn)]);
        assert_eq!(found(&same, "/admin.php/x"), Ok(Some("/")));
    }

    #[test]
    fn letters_that_fold_to_a_rules_own_do_not_lead_around_it() {
        let open = routes(&[
            ("/", Access::Public),
            ("/admin/", Access::SignedIn),
            ("/task", Access::SignedIn),
            ("/accounting/", Access::SignedIn),
        ]);
        for raw in [
            "/adm%C4%B1n/x",
            "/ADM%C4%B0N/x",
            "/tas%E2%84%AA",
            "/ta%C5%BFk",
            "/%EF%BD%81dmin/x",
            "/admin%EF%BC%8Fx",
            "/adm%FDn/",
            "/adm%DDn/",
            "/%C3%A1dmin/x",
            "/x%EF%BC%8F/ADM%C4%B1N%EF%BC%8Fy",
            "/ACCOUN~1/x",
            "/admin%EF%BC%9Fx",
        ] {
            let wanted = if raw.contains("x%EF%BC%8F/") { Ok(Some("/")) } else { Err(Ambiguous::Spelling) };
            assert_eq!(found(&open, raw), wanted, "{raw}");
        }
        for raw in
            ["/x/%EF%BC%8E%EF%BC%8E%EF%BC%8Fadmin/", "/x/..%20/admin/", "/x/..::$DATA/admin/", "/x/%E2%80%A5/admin/"]
        {
            assert_eq!(found(&open, raw), Err(Ambiguous::DotSegment), "{raw}");
        }
        for raw in [
            "/sayfa/Ay%C5%9Fe%20%C4%B1",
            "/sayfa/%DDstanbul",
            "/~anna/x~1",
            "/tarif/%C2%BD",
            "/%E6%97%A5%E6%9C%AC",
            "/a/%FF",
        ] {
            assert_eq!(found(&open, raw), Ok(Some("/")), "{raw}");
        }
        assert_eq!(found(&open, "/admin/Ay%C5%9Fe%20%C4%B1"), Ok(Some("/admin/")));
    }

    #[test]
    fn a_method_in_another_case_is_no_other_method() {
        let ruled = Routes::new(&[Rule { methods: vec!["MAKE-TEA".into()], ..Rule::plain("/", Access::Public) }]);
        for (method, respelled) in
            [("post", true), ("Get", true), ("make-Tea", true), ("POST", false), ("MAKE-TEA", false), ("brew", false)]
        {
            assert_eq!(ruled.respells(&Method::from_bytes(method.as_bytes()).unwrap()), respelled, "{method}");
        }
    }

    #[test]
    fn the_work_per_rule_does_not_grow_with_the_path() {
        let paths: Vec<String> = (0..10_000).map(|number| format!("/area{number}/sub/")).collect();
        let mut rules: Vec<Rule> = paths.iter().map(|path| Rule::plain(path, Access::SignedIn)).collect();
        // Every reading agrees with this rule, so that each rule is compared.
        rules.push(Rule::plain("/", Access::SignedIn));
        let routes = Routes::new(&rules);
        let found = routes.places.last().unwrap();
        for path in
            ["/a~1".repeat(7_000), format!("/a~1/{}", "x".repeat(28_000)), format!("/a~1{}", "/b".repeat(14_000))]
        {
            work::take();
            assert!(!routes.is_read_otherwise(path.as_bytes(), &[], found));
            let per_rule = work::take() / rules.len();
            assert!((1..200).contains(&per_rule), "{per_rule} for each rule");
        }
    }

    proptest! {
        #[test]
        fn nothing_below_a_rule_escapes_it(tail in "[!-~]{0,30}") {
            let routes = routes(&[("/", Access::Public), ("/admin/", Access::SignedIn)]);
            let raw = format!("/admin/{tail}");
            if let Ok(path) = CanonicalPath::parse(&raw) {
                prop_assert_eq!(routes.find(&path).map(|found| found.map(|place| place.path.as_str())), Ok(Some("/admin/")));
            }
        }

        /// The places that the index omits match the path in no reading.
        #[test]
        fn the_index_finds_all_that_a_look_at_every_rule_finds(
            paths in prop::collection::btree_set("(/[aAb.:]{1,3}){0,3}/?", 1..8),
            raw in "(/[aAbB.ış: ]{0,3}){1,3}/?",
        ) {
            let sound = |path: &&String| CanonicalPath::parse(path).is_ok_and(|read| read.as_bytes() == path.as_bytes());
            let rules: Vec<Rule> =
                paths.iter().filter(sound).map(|path| Rule::plain(path, Access::SignedIn)).collect();
            let routes = Routes::new(&rules);
            let all: Vec<&RoutePlace> = routes.places.iter().collect();
            let found = |place: Option<&RoutePlace>| place.map(|place| place.path.clone());
            for read in reading::readings(raw.as_bytes(), &mut reading::Effort::for_path()).unwrap_or_default().into_iter().chain([raw.clone().into_bytes()]) {
                let near = routes.near(&read);
                let exact = |one: &[u8], other: &[u8]| one == other;
                let windows = |read: &[u8], rule: &[u8]| read.eq_ignore_ascii_case(&reading::as_windows_reads(rule));
                prop_assert_eq!(found(longest(&near, &read, exact)), found(longest(&all, &read, exact)));
                let blind = <[u8]>::eq_ignore_ascii_case;
                prop_assert_eq!(found(longest(&near, &read, blind)), found(longest(&all, &read, blind)));
                prop_assert_eq!(found(longest(&near, &read, windows)), found(longest(&all, &read, windows)));
                let other = RoutePlace { path: "/".into(), rules: vec![Rule::plain("/", Access::Public)] };
                for place in all.iter().copied().chain([&other]) {
                    prop_assert_eq!(is_below_a_name(&near, &read, place), is_below_a_name(&all, &read, place));
                }
            }
        }

        /// Matching the start of a path gives the same result as matching the whole path.
        #[test]
        fn a_cut_path_matches_the_same_rules_as_the_whole_one(
            paths in prop::collection::btree_set("(/(a|ab|abcdefgh|abcd[.]x|b)){0,3}/?", 1..8),
            raw in "(/(a|ab|AB|b|a~1|ab~1|abcdef~1|ab~1abcdefghijklmnopqrstuvwxyzabcd|abcdefghijklmnopqrstuvwxyzabcdef)){1,7}/?",
        ) {
            let kinds = [Access::SignedIn, Access::Public, Access::Bearer];
            let rules: Vec<Rule> = paths.iter().filter(|path| path.starts_with('/')).zip(kinds.iter().cycle())
                .map(|(path, access)| Rule::plain(path, *access)).collect();
            let routes = Routes::new(&rules);
            let start = routes.matchable_start(raw.as_bytes());
            let others: Vec<RoutePlace> = kinds.iter()
                .map(|access| RoutePlace { path: "/x".into(), rules: vec![Rule::plain("/x", *access)] }).collect();
            for found in routes.places.iter().chain(&others) {
                let refused = |path: &[u8]| {
                    let mut read = routes.places.iter().filter_map(|place| reading::written_out(path, place.path.as_bytes()));
                    read.any(|read| routes.has_other_rules(&read, found, None))
                };
                prop_assert_eq!(refused(&start), refused(raw.as_bytes()));
            }
        }

        #[test]
        fn the_found_rule_is_the_longest_that_covers(raw in "/[ab/]{0,8}") {
            let rules = [("/", Access::SignedIn), ("/a/", Access::Public), ("/a/b/", Access::Bearer), ("/a/b", Access::Public)];
            if let Ok(path) = CanonicalPath::parse(&raw) {
                let routes = routes(&rules);
                let ours = routes.find(&path).unwrap().map(|place| place.path.clone());
                let below = |rule: &str| rule.ends_with('/') && format!("{raw}/").starts_with(rule);
                let naive = rules.iter().map(|(rule, _)| *rule).find(|rule| *rule == raw).or_else(|| {
                    rules.iter().map(|(rule, _)| *rule).filter(|rule| below(rule)).max_by_key(|rule| rule.len())
                });
                prop_assert_eq!(ours.as_deref(), naive);
            }
        }
    }
}
