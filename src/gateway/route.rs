//! Rules of an application, and the search for the rules of a path. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use http::Method;

use crate::characters::Characters;
use crate::path::CanonicalPath;
use crate::place_index::PlaceIndex;
use crate::place_tree::{Conditions, PlaceTree};
use crate::reading;
use crate::reading::{Ambiguous, ReadingBudget};
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
/// Such a rule applies to all registered methods except `CONNECT` and `TRACE`, which no rule can
/// allow.
fn is_ordinary(method: &str) -> bool {
    METHODS.contains(&method) && !matches!(method, "CONNECT" | "TRACE" | "PURGE")
}

/// Path of the configuration with its rules. A path that ends in `/` includes everything below it.
#[derive(Debug, Clone)]
pub(super) struct RoutePlace {
    pub path: String,
    /// Rules, one for each set of methods and networks. Rules without methods come last. Never empty.
    rules: Vec<Rule>,
}

/// Reason why no rule of a path applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRule {
    Method,
    /// The rules of the method are for other networks.
    Network,
}

impl RoutePlace {
    /// Returns the rule for this method and this address of a client. An unknown address is in no
    /// network, and no rule applies to it if any rule of the method has networks.
    ///
    /// The method selects first: rules without methods do not apply to a method that another rule
    /// names. Among the rules of the method, the one with the smallest network that contains the
    /// address applies, or else the one without networks.
    ///
    /// # Errors
    /// If no rule of this path applies. The rules of shorter paths do not apply either, because they
    /// would allow what this path excludes.
    pub(super) fn rule(&self, method: &str, address: Option<IpAddr>) -> Result<&Rule, NoRule> {
        let names = |rule: &Rule, method: &str| rule.methods.iter().any(|known| known == method);
        let has_rule_for = |method: &str| self.rules.iter().any(|rule| names(rule, method));
        let method = match method {
            _ if has_rule_for(method) => Some(method),
            // HEAD is allowed wherever GET is (RFC 9110 §9.3.2).
            "HEAD" if has_rule_for("GET") => Some("GET"),
            // A rule must list an unknown method explicitly, because its effect on the application is
            // unknown.
            _ if is_ordinary(method) && self.rules.iter().any(|rule| rule.methods.is_empty()) => None,
            _ => return Err(NoRule::Method),
        };
        let applies = |rule: &&Rule| method.map_or_else(|| rule.methods.is_empty(), |method| names(rule, method));
        if address.is_none() && self.rules.iter().filter(applies).any(|rule| !rule.networks.is_empty()) {
            return Err(NoRule::Network);
        }
        let address = address.map(|address| address.to_canonical());
        let smallest = self.rules.iter().filter(applies).filter_map(|rule| Some((prefix_length(rule, address)?, rule)));
        smallest.max_by_key(|(length, _)| *length).map(|(_, rule)| rule).ok_or(NoRule::Network)
    }

    /// Returns whether any rule of this path is for some networks.
    pub(super) fn has_networks(&self) -> bool {
        self.rules.iter().any(|rule| !rule.networks.is_empty())
    }

    /// Returns the methods for which a rule of this path applies to the address, sorted.
    pub(super) fn methods(&self, address: Option<IpAddr>) -> Vec<&str> {
        let rules = || self.rules.iter().filter(|rule| prefix_length(rule, address).is_some());
        let mut methods: Vec<&str> = rules().flat_map(|rule| &rule.methods).map(String::as_str).collect();
        if rules().any(|rule| rule.methods.is_empty()) {
            methods.extend(METHODS.iter().filter(|method| is_ordinary(method)));
        }
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    fn has_same_conditions_as(&self, other: &Self) -> bool {
        self.rules.len() == other.rules.len()
            && self.rules.iter().zip(&other.rules).all(|(one, other)| one.has_same_conditions_as(other))
    }

    /// Returns the characters that all rules of this path treat as data.
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

    /// Returns whether every request to this path is allowed without credentials.
    fn is_open(&self) -> bool {
        self.rules.iter().all(|rule| rule.access == Access::Public && rule.networks.is_empty())
            && self.rules.iter().any(|rule| rule.methods.is_empty())
    }

    /// Returns whether these rules must also hold for a longer path, because a server might pass
    /// the longer path to this one.
    ///
    /// A server may pass `/admin.php/x` to the script `/admin.php`. The gateway would then check
    /// only `found`, the rules of the longer path, and not these rules.
    fn protects_paths_below(&self, found: &Self) -> bool {
        let is_longer = self.path.len() > found.path.len();
        is_longer && !self.path.ends_with('/') && !self.is_open() && !self.has_same_conditions_as(found)
    }

    /// Returns whether this place has exactly this path.
    fn is_exactly(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        same(path, self.path.as_bytes())
    }

    /// Returns whether this place includes the path because its own path ends in `/`.
    ///
    /// `/admin` belongs to `/admin/`, because most applications serve both alike.
    fn covers(&self, path: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let prefix = self.path.as_bytes();
        let Some(bare) = prefix.strip_suffix(b"/") else { return false };
        path.split_at_checked(prefix.len()).is_some_and(|(start, _)| same(start, prefix)) || same(path, bare)
    }
}

/// Returns the length of the rule's longest network prefix that contains the address, plus one; 0 for
/// a rule without networks, and `None` for a rule of other networks.
fn prefix_length(rule: &Rule, address: Option<IpAddr>) -> Option<u8> {
    if rule.networks.is_empty() {
        return Some(0);
    }
    let address = address?;
    let containing = rule.networks.iter().filter(|network| network.contains(&address));
    containing.map(|network| network.prefix_len() + 1).max()
}

/// Rules of one application.
#[derive(Debug)]
pub(super) struct Routes {
    /// Places, sorted by the length of the path, longest first.
    places: Vec<RoutePlace>,
    index: PlaceIndex,
    tree: PlaceTree,
    characters: Characters,
    /// Methods that rules list, in upper case.
    ruled_methods: BTreeSet<String>,
    /// Whether tokens may only read where a rule lists no methods.
    is_for_agents: bool,
}

impl Routes {
    /// Builds the rules of an application.
    ///
    /// If the path of a rule can never match, requests to that path would get the rules of a
    /// shorter path. One such rule therefore closes the whole application. The validation of the
    /// configuration already rejects such rules.
    pub(super) fn from_app(app: &App) -> Self {
        let sound =
            |rule: &Rule| CanonicalPath::parse(&rule.path).is_ok_and(|path| path.as_bytes() == rule.path.as_bytes());
        if let Some(rule) = app.routes.iter().find(|rule| !sound(rule)) {
            tracing::error!(
                app = app.name,
                path = rule.path,
                "a route's path can never match; all requests to the application are refused"
            );
            return Self::new(&[]);
        }
        Self { is_for_agents: app.agents, ..Self::new(&app.routes) }
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
                let sorted_by = |rule: &Rule| (rule.methods.is_empty(), rule.methods.clone(), rule.networks.clone());
                sorted_by(one).cmp(&sorted_by(other))
            });
        }
        places.sort_by_key(|place| Reverse(place.path.len()));
        let characters = places.iter().map(RoutePlace::characters).fold(Characters::default(), Characters::union);
        let ruled_methods = rules.iter().flat_map(|rule| &rule.methods).map(|method| method.to_ascii_uppercase());
        let index = PlaceIndex::from_paths(places.iter().map(|place| place.path.as_bytes()));
        let paths = places.iter().map(|place| place.path.as_bytes());
        let is_open = |number: usize| places.get(number).is_some_and(RoutePlace::is_open);
        let tree = PlaceTree::from_paths(paths, &number_conditions(&places), &is_open);
        let ruled_methods = ruled_methods.collect();
        Self { places, index, tree, characters, ruled_methods, is_for_agents: false }
    }

    /// Returns the characters that the application reads as data under at least one path.
    pub(super) const fn characters(&self) -> Characters {
        self.characters
    }

    /// Returns whether the method of a request decides about its access.
    pub(super) fn have_method_rules(&self) -> bool {
        self.is_for_agents || !self.ruled_methods.is_empty()
    }

    /// Returns whether the method differs only in letter case from a registered method or from a
    /// method in a rule.
    pub(super) fn is_respelled(&self, method: &Method) -> bool {
        let method = method.as_str();
        // Common case. No rule lists a method with lower-case letters.
        if !method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return false;
        }
        METHODS.iter().any(|known| known.eq_ignore_ascii_case(method))
            || self.ruled_methods.contains(&method.to_ascii_uppercase())
    }

    /// Returns the rules of this path: the rules of exactly this path, or else the rules of the
    /// longest path that includes it. `None` if there are no rules. The request must then be
    /// refused.
    ///
    /// # Errors
    /// - [`Ambiguous::Spelling`] if a server that reads the path differently, for example without
    ///   letter case, would serve a path whose rules have other requirements.
    /// - [`Ambiguous::Hidden`] if the path has a character that its rules do not list as data.
    pub(super) fn find(&self, path: &CanonicalPath<'_>) -> Result<Option<&RoutePlace>, Ambiguous> {
        let candidates = self.candidates(path.as_bytes());
        let Some(found) = longest_match(&candidates, path.as_bytes(), |one, other| one == other) else {
            return Ok(None);
        };
        if !found.characters().contains_all(path.characters()) {
            return Err(Ambiguous::Hidden);
        }
        let mut interpretations = path.interpretations()?;
        // The first element is the path itself, for which `found` is already known.
        if let Some((read, name_readings)) = interpretations.next() {
            self.check(read, name_readings, &candidates, found)?;
        }
        for (read, name_readings) in interpretations {
            let candidates = self.candidates(read);
            let place = longest_match(&candidates, read, |one, other| one == other);
            if !place.is_some_and(|place| place.has_same_conditions_as(found)) {
                return Err(Ambiguous::Spelling);
            }
            self.check(read, name_readings, &candidates, found)?;
        }
        self.expand_short_names(path, found)?;
        Ok(Some(found))
    }

    /// Returns the places below every reading of the path, for each reading one for each distinct set
    /// of conditions, and other places with the name of the path. `found` is the place of the path.
    ///
    /// # Errors
    /// If the path can be read in more than one way. [`Routes::find`] refuses such a path too.
    pub(super) fn below(&self, path: &CanonicalPath<'_>, found: &RoutePlace) -> Result<PlacesBelow<'_>, Ambiguous> {
        let mut below = PlacesBelow { routes: self, here: Vec::new(), sets: self.expand_short_names(path, found)? };
        let is_other = |number: &usize| {
            self.places.get(*number).is_some_and(|place| !place.path.eq_ignore_ascii_case(&found.path))
        };
        for (text, name_readings) in path.interpretations()? {
            for read in std::iter::once(text).chain(name_readings.iter().map(Vec::as_slice)) {
                let (here, set) = self.tree.at_and_below(read);
                below.here.extend(here.filter(is_other));
                below.sets.push(set);
            }
        }
        below.here.sort_unstable();
        below.here.dedup();
        // Many readings of a path lead to the same set.
        below.sets.sort_unstable_by_key(|set| (set.as_ptr(), set.len()));
        below.sets.dedup_by_key(|set| (set.as_ptr(), set.len()));
        work::count(below.here.len() + below.sets.len());
        Ok(below)
    }

    /// Returns the places that any reading of the path can match, longest path first.
    fn candidates(&self, path: &[u8]) -> Vec<&RoutePlace> {
        self.index.find(path).into_iter().filter_map(|number| self.places.get(number)).collect()
    }

    /// Checks that a path and its other readings lead to the same rules as `found`.
    ///
    /// `name_readings` are its readings by servers that fold letters or open Windows names.
    fn check(
        &self,
        path: &[u8],
        name_readings: &[Vec<u8>],
        candidates: &[&RoutePlace],
        found: &RoutePlace,
    ) -> Result<(), Ambiguous> {
        let spelled = |blind: &RoutePlace| blind.path.eq_ignore_ascii_case(&found.path);
        match longest_match(candidates, path, <[u8]>::eq_ignore_ascii_case) {
            Some(blind) if !blind.has_same_conditions_as(found) && !spelled(blind) => return Err(Ambiguous::Spelling),
            _ => {}
        }
        if is_below_exact_path(candidates, path, found) || self.has_reading_with_other_rules(path, name_readings, found)
        {
            return Err(Ambiguous::Spelling);
        }
        Ok(())
    }

    /// Returns whether another reading of the path leads to other rules than `found`.
    fn has_reading_with_other_rules(&self, path: &[u8], name_readings: &[Vec<u8>], found: &RoutePlace) -> bool {
        let cut = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
        name_readings.iter().any(|read| self.leads_to_other_rules(read, found, cut))
    }

    /// Returns the numbers of the places below each path that this path with short names may mean.
    ///
    /// # Errors
    /// If the path may mean a path with other rules than `found`, or too many paths.
    fn expand_short_names(&self, path: &CanonicalPath<'_>, found: &RoutePlace) -> Result<Vec<&[usize]>, Ambiguous> {
        let is_same = |number: usize| self.places.get(number).is_some_and(|place| place.has_same_conditions_as(found));
        let hides = |number: usize| self.places.get(number).is_some_and(|place| place.protects_paths_below(found));
        let conditions = Conditions { is_same: &is_same, hides: &hides };
        let mut budget = ReadingBudget::for_path();
        let mut below = Vec::new();
        for (_, name_readings) in path.interpretations()? {
            // The `name_readings` of a path with a short name contain the path itself.
            for read in name_readings.iter().filter(|read| reading::has_short_name(read)) {
                below.extend(self.tree.expand(read, &conditions, &mut budget)?);
            }
        }
        Ok(below)
    }

    /// Returns whether a reading of the path matches other rules than `found`. `cut` is the offset
    /// of the first `?` or `#` in the path.
    fn leads_to_other_rules(&self, read: &[u8], found: &RoutePlace, cut: Option<usize>) -> bool {
        // The path of the rule is compared as Windows reads it.
        let same = |read: &[u8], rule: &[u8]| read.eq_ignore_ascii_case(&reading::as_windows_reads(rule));
        work::count(read.len());
        let candidates = self.candidates(read);
        let agrees = match longest_match(&candidates, read, same) {
            // A server that ends the path at `?` or `#` would serve a path without access rules,
            // which the client may request directly.
            Some(place) if cut.is_some_and(|cut| read.len() <= cut) && place.is_open() => true,
            Some(place) => place.has_same_conditions_as(found) || place.path.eq_ignore_ascii_case(&found.path),
            None => false,
        };
        !agrees || is_below_exact_path(&candidates, read, found)
    }
}

/// Places below the readings of a path.
///
/// There may be a place for each rule of the application, and clients without credentials may request
/// a path with all of them below it. So they are not copied, and a search in them ends at the first
/// place that decides.
#[derive(Debug, Clone)]
pub(super) struct PlacesBelow<'a> {
    routes: &'a Routes,
    /// Numbers of other places with the name of the path.
    here: Vec<usize>,
    /// Numbers of the places below each reading. Those that are open come last.
    sets: Vec<&'a [usize]>,
}

impl<'a> PlacesBelow<'a> {
    /// Returns the places. Some may occur in several sets.
    ///
    /// Omits the rest of a set that is open to every request with this method.
    pub(super) fn places(&self, method: &str) -> impl Iterator<Item = &'a RoutePlace> {
        let omits_open = is_ordinary(method);
        let place = |number: &usize| self.routes.places.get(*number);
        let of_set = move |set: &&'a [usize]| {
            let places = set.iter().filter_map(place);
            places.take_while(move |place| !(omits_open && place.is_open())).inspect(|_| work::count(1))
        };
        self.here.iter().filter_map(place).chain(self.sets.iter().flat_map(of_set))
    }
}

/// Returns a number for each place, which is the same for places with the same conditions.
fn number_conditions(places: &[RoutePlace]) -> Vec<usize> {
    // Fast path: different rules usually differ in these fields. Only places that agree in them are
    // compared completely.
    let fields = |rule: &'_ Rule| (rule.methods.clone(), rule.groups.clone(), rule.scopes.clone());
    let mut alike: HashMap<Vec<_>, Vec<usize>> = HashMap::new();
    let number = |(number, place): (usize, &RoutePlace)| {
        let known = alike.entry(place.rules.iter().map(fields).collect()).or_default();
        let is_same = |other: &&usize| places.get(**other).is_some_and(|other| other.has_same_conditions_as(place));
        known.iter().find(is_same).copied().unwrap_or_else(|| {
            known.push(number);
            number
        })
    };
    places.iter().enumerate().map(number).collect()
}

/// Returns whether the path is below the exact path of a place with other requirements.
///
/// Many servers run the script at the exact path and pass it the rest of the path (`/admin.php/x`).
/// Open places are ignored, and so are places whose path is not longer than that of `found`.
fn is_below_exact_path(candidates: &[&RoutePlace], path: &[u8], found: &RoutePlace) -> bool {
    candidates.iter().take_while(|place| place.path.len() > found.path.len()).any(|place| {
        let name = place.path.as_bytes();
        let below = path
            .split_at_checked(name.len())
            .is_some_and(|(start, rest)| rest.first() == Some(&b'/') && start.eq_ignore_ascii_case(name));
        below && place.protects_paths_below(found)
    })
}

fn longest_match<'p>(
    candidates: &[&'p RoutePlace],
    path: &[u8],
    same: impl Fn(&[u8], &[u8]) -> bool + Copy,
) -> Option<&'p RoutePlace> {
    let named = candidates.iter().find(|place| place.is_exactly(path, same));
    named.or_else(|| candidates.iter().find(|place| place.covers(path, same))).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCAL: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

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
    fn a_path_without_final_slash_matches_only_itself() {
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
    fn escapes_do_not_bypass_a_rule() {
        for raw in ["/%61pi/x", "/ap%69/x", "/%61%70%69/"] {
            assert_eq!(found(&wiki(), raw), Ok(Some("/api/")), "{raw}");
        }
    }

    #[test]
    fn paths_without_a_rule_for_the_method_are_refused() {
        let narrow = routes(&[("/public/", Access::Public)]);
        for raw in ["/", "/x", "/publi", "/publicx", "/PUBLIC/x"] {
            assert_eq!(found(&narrow, raw), Ok(None), "{raw}");
        }
    }

    #[test]
    fn letter_case_does_not_bypass_a_rule() {
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
    fn methods_that_the_longest_path_omits_have_no_rule() {
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
            place.rule(method, LOCAL).ok().map(|rule| (rule.methods.clone(), rule.access))
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
        assert_eq!(place.methods(LOCAL), ["DELETE", "GET", "HEAD", "POST"]);
        // Rules without methods apply to registered methods only.
        assert_eq!(rule("/", "PROPFIND").unwrap().1, Access::Public);
        for method in ["FOO", "TRACE", "CONNECT", "PURGE", "X"] {
            assert_eq!((rule("/", method), rule("/files/x", method)), (None, None), "{method}");
        }
        assert!(routes.have_method_rules());
    }

    #[test]
    fn names_that_windows_shortens_do_not_bypass_a_rule() {
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
    fn paths_below_a_script_do_not_bypass_its_rule() {
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
        // Both rules have the same requirements, so there is nothing to bypass.
        let same = routes(&[("/", Access::SignedIn), ("/admin.php", Access::SignedIn)]);
        assert_eq!(found(&same, "/admin.php/x"), Ok(Some("/")));
    }

    #[test]
    fn folded_letters_do_not_bypass_a_rule() {
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
    fn respelled_methods_are_detected() {
        let ruled = Routes::new(&[Rule { methods: vec!["MAKE-TEA".into()], ..Rule::plain("/", Access::Public) }]);
        for (method, respelled) in
            [("post", true), ("Get", true), ("make-Tea", true), ("POST", false), ("MAKE-TEA", false), ("brew", false)]
        {
            assert_eq!(ruled.is_respelled(&Method::from_bytes(method.as_bytes()).unwrap()), respelled, "{method}");
        }
    }

    #[test]
    fn a_short_name_is_compared_with_every_name_it_may_mean() {
        let some = routes(&[
            ("/", Access::Public),
            ("/accounting/", Access::SignedIn),
            ("/files/accounts/", Access::SignedIn),
            ("/files/accounts/open/", Access::Public),
            ("/administration", Access::SignedIn),
            ("/reports/annual.html", Access::Public),
        ]);
        for raw in [
            "/ACCOUN~1/x",
            "/AC3F2A~1/",
            "/accoun~1",
            "/files/accoun~1/x",
            "/FILES/accoun~1/x",
            "/FI~1/AC~1/x",
            "/fi~1/accounts/",
            "/files/ac~1/other",
            "/ADMINI~1/x",
            // Windows ignores the dot, the space and the stream.
            "/files./accoun~1/",
            "/files%20/accoun~1/x",
            "/files::$INDEX_ALLOCATION/accoun~1/x",
            // `ı` and the full-width tilde are folded.
            "/f%C4%B1les/accoun~1/",
            "/accoun%EF%BD%9E1/",
            "/accoun~1%3Fx",
        ] {
            assert_eq!(found(&some, raw), Err(Ambiguous::Spelling), "{raw}");
        }
        for raw in [
            "/x~1",
            "/~anna/x~1",
            "/re~1/annual.html",
            "/reports/an~1.htm",
            "/files/x~1/accounts/",
            "/a~x/",
            "/longer~1/",
        ] {
            assert_eq!(found(&some, raw), Ok(Some("/")), "{raw}");
        }
        assert_eq!(found(&some, "/files/accounts/op~1/x"), Err(Ambiguous::Spelling));
        assert_eq!(found(&some, "/files/accounts/x~1"), Ok(Some("/files/accounts/")));
    }

    #[test]
    fn a_path_that_may_mean_too_many_places_is_refused() {
        let kinds = [Access::SignedIn, Access::Bearer];
        let paths = |kinds: &[Access]| {
            let rule = |number: usize| Rule::plain(&format!("/a{number}/deep/"), kinds[number % kinds.len()]);
            let root = Rule::plain("/", Access::SignedIn);
            Routes::new(&(0..10_000).map(rule).chain([root]).collect::<Vec<_>>())
        };
        for (kinds, answer) in [(&kinds[..1], Ok(Some("/"))), (&kinds, Err(Ambiguous::Readings))] {
            let routes = paths(kinds);
            work::take();
            assert_eq!(found(&routes, "/a~1/x~1"), answer);
            let work = work::take();
            assert!(!cfg!(debug_assertions) || (1..70_000).contains(&work), "{work}");
        }
    }

    fn is_at_or_below(place: &str, path: &str) -> bool {
        let name = |path: &str| format!("{}/", path.trim_end_matches('/').to_ascii_lowercase());
        name(place).starts_with(&name(path))
    }

    /// Returns every path that a path with short names may mean, if these are all names.
    fn long_names(raw: &str, is_exactly: &[&str]) -> Vec<String> {
        let mut paths = vec![String::new()];
        for segment in raw.split('/').skip(1) {
            let stem = segment.split_once("~1").map(|(stem, _)| stem.to_ascii_lowercase());
            let fits = |stem: &str, name: &str| {
                name.len() > stem.len() && (name.starts_with(stem) || (stem.len() > 2 && name.starts_with(&stem[..2])))
            };
            let mut written = vec![segment];
            written.extend(stem.iter().flat_map(|stem| is_exactly.iter().filter(|name| fits(stem, name))));
            paths = paths.iter().flat_map(|path| written.iter().map(move |name| format!("{path}/{name}"))).collect();
        }
        paths
    }

    proptest! {
        #[test]
        fn every_path_below_a_rule_gets_that_rule(tail in "[!-~]{0,30}") {
            let routes = routes(&[("/", Access::Public), ("/admin/", Access::SignedIn)]);
            let raw = format!("/admin/{tail}");
            if let Ok(path) = CanonicalPath::parse(&raw) {
                prop_assert_eq!(routes.find(&path).map(|found| found.map(|place| place.path.as_str())), Ok(Some("/admin/")));
            }
        }

        /// The places that the index leaves out match no reading of the path.
        #[test]
        fn the_index_agrees_with_a_linear_search(
            paths in prop::collection::btree_set("(/[aAb.:]{1,3}){0,3}/?", 1..8),
            raw in "(/[aAbB.ış: ]{0,3}){1,3}/?",
        ) {
            let sound = |path: &&String| CanonicalPath::parse(path).is_ok_and(|read| read.as_bytes() == path.as_bytes());
            let rules: Vec<Rule> =
                paths.iter().filter(sound).map(|path| Rule::plain(path, Access::SignedIn)).collect();
            let routes = Routes::new(&rules);
            let all: Vec<&RoutePlace> = routes.places.iter().collect();
            let found = |place: Option<&RoutePlace>| place.map(|place| place.path.clone());
            for read in reading::readings(raw.as_bytes(), &mut ReadingBudget::for_path()).unwrap_or_default().into_iter().chain([raw.clone().into_bytes()]) {
                let candidates = routes.candidates(&read);
                let exact = |one: &[u8], other: &[u8]| one == other;
                let windows = |read: &[u8], rule: &[u8]| read.eq_ignore_ascii_case(&reading::as_windows_reads(rule));
                prop_assert_eq!(found(longest_match(&candidates, &read, exact)), found(longest_match(&all, &read, exact)));
                let blind = <[u8]>::eq_ignore_ascii_case;
                prop_assert_eq!(found(longest_match(&candidates, &read, blind)), found(longest_match(&all, &read, blind)));
                prop_assert_eq!(found(longest_match(&candidates, &read, windows)), found(longest_match(&all, &read, windows)));
                let other = RoutePlace { path: "/".into(), rules: vec![Rule::plain("/", Access::Public)] };
                for place in all.iter().copied().chain([&other]) {
                    prop_assert_eq!(is_below_exact_path(&candidates, &read, place), is_below_exact_path(&all, &read, place));
                }
            }
        }

        /// If a path with short names is accepted, all paths that it may mean have rules with the
        /// same conditions, and so do the places below them.
        #[test]
        fn short_names_do_not_bypass_a_rule(
            paths in prop::collection::btree_set("(/(ab|abc|abd|xyz|a|abcdefgh)){0,3}/?", 1..8),
            raw in "(/(ab|abc|Abc|xyz|a~1|ab~1|AB~1|abcdef~1|abxxxx~1|xy~1|ab~1abcdefghij)){1,4}/?",
            is_open in any::<bool>(),
        ) {
            let kinds = [Access::SignedIn, Access::Public, Access::Bearer];
            let mut rules: Vec<Rule> = paths.iter().filter(|path| path.starts_with('/')).zip(kinds.iter().cycle())
                .map(|(path, access)| Rule::plain(path, *access)).collect();
            if !paths.contains("/") {
                rules.push(Rule::plain("/", if is_open { Access::Public } else { Access::SignedIn }));
            }
            let routes = Routes::new(&rules);
            let path = CanonicalPath::parse(&raw).unwrap();
            let Ok(Some(place)) = routes.find(&path) else { return Ok(()) };
            // No place is open to every request with this method, so none is omitted.
            let below = routes.below(&path, place).unwrap();
            let below: Vec<&RoutePlace> = below.places("PURGE").collect();
            for long in long_names(&raw, &["ab", "abc", "abd", "xyz", "a", "abcdefgh", "abz"]) {
                let long_path = CanonicalPath::parse(&long).unwrap();
                let candidates = routes.candidates(long_path.as_bytes());
                let other = longest_match(&candidates, long_path.as_bytes(), <[u8]>::eq_ignore_ascii_case);
                prop_assert!(other.is_some_and(|other| other.has_same_conditions_as(place)), "{raw} {long}");
                prop_assert!(!is_below_exact_path(&candidates, long_path.as_bytes(), place), "{raw} {long}");
                for under in routes.places.iter().filter(|place| is_at_or_below(&place.path, &long)) {
                    let is_known = below.iter().chain([&place]).any(|known| known.has_same_conditions_as(under));
                    prop_assert!(is_known, "{raw} {long} {}", under.path);
                }
            }
        }

        /// The tree returns the same conditions as a comparison with every place.
        #[test]
        fn the_places_below_a_path_have_the_conditions_of_all(
            paths in prop::collection::btree_set("(/(ab|AB|Ab|c|x)){0,3}/?", 1..10),
            raw in "(/(ab|Ab|c)){0,3}/?",
            kinds in prop::collection::vec(prop::sample::select(&[Access::SignedIn, Access::Public, Access::Bearer][..]), 1..6),
        ) {
            let paths = paths.iter().map(String::as_str).filter(|path| path.starts_with('/')).chain(["/"]);
            let routes = routes(&paths.zip(kinds.iter().copied().cycle()).collect::<Vec<_>>());
            let Ok(path) = CanonicalPath::parse(&raw) else { return Ok(()) };
            let candidates = routes.candidates(path.as_bytes());
            let place = longest_match(&candidates, path.as_bytes(), |one, other| one == other).unwrap();
            let all: Vec<&RoutePlace> = routes.places.iter()
                .filter(|other| is_at_or_below(&other.path, &raw) && !other.path.eq_ignore_ascii_case(&place.path)).collect();
            // No place is open to every request with this method, so none is omitted.
            let below = routes.below(&path, place).unwrap();
            let below: Vec<&RoutePlace> = below.places("PURGE").collect();
            for other in &all {
                prop_assert!(below.iter().any(|known| known.has_same_conditions_as(other)), "{raw} {}", other.path);
            }
            for known in &below {
                prop_assert!(all.iter().any(|other| other.path == known.path), "{raw} {}", known.path);
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
