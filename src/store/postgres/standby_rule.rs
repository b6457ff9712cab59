//! `synchronous_standby_names`: how many standbys a commit waits for, and out of which.

/// The parsed setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StandbyRule {
    /// Number of standbys that must have a commit before it is acknowledged.
    pub(super) needed: usize,
    /// Number of listed names; `None` for `*`, any standby.
    named: Option<usize>,
}

impl StandbyRule {
    /// Parses `[FIRST] N (a, b)`, `ANY N (a, b)` or `a, b`, as accepted by the server.
    ///
    /// Returns `None` if it waits for no standby.
    pub(super) fn parse(setting: &str) -> Option<Self> {
        let setting = setting.trim();
        if setting.is_empty() {
            return None;
        }
        let counted = setting.strip_suffix(')').and_then(|setting| setting.split_once('('));
        // A parenthesis in a name is quoted, and a number never is.
        let counted = counted.filter(|(before, _)| !before.contains('"')).and_then(|(before, names)| {
            let number = before.trim_start_matches(|char: char| char.is_ascii_alphabetic() || char.is_whitespace());
            Some((number.trim().parse().ok()?, names))
        });
        let (needed, names) = counted.unwrap_or((1, setting));
        Some(Self { needed, named: count(names) })
    }

    /// Returns whether the loss of one standby stops all commits.
    ///
    /// `there`: number of the listed standbys that follow now, if known.
    pub(super) fn has_no_spare(&self, there: Option<usize>) -> bool {
        self.named.is_some_and(|named| named <= self.needed) || there.is_some_and(|there| there <= self.needed)
    }
}

fn count(names: &str) -> Option<usize> {
    let (mut is_quoted, mut names_seen) = (false, 1);
    let mut name = String::new();
    for char in names.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                if name.trim() == "*" {
                    return None;
                }
                names_seen += 1;
                name.clear();
            }
            char => name.push(char),
        }
    }
    (name.trim() != "*").then_some(names_seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(setting: &str) -> (usize, Option<usize>) {
        let rule = StandbyRule::parse(setting).unwrap();
        (rule.needed, rule.named)
    }

    #[test]
    fn the_setting_is_read_as_the_server_reads_it() {
        assert_eq!(StandbyRule::parse(" "), None);
        assert_eq!(rule("a"), (1, Some(1)));
        assert_eq!(rule("a, b"), (1, Some(2)));
        assert_eq!(rule("*"), (1, None));
        assert_eq!(rule("2 (a, b, c)"), (2, Some(3)));
        assert_eq!(rule("FIRST 2 (a,b)"), (2, Some(2)));
        assert_eq!(rule("any 1(a, \"b, c\")"), (1, Some(2)));
        assert_eq!(rule("ANY 2 (*)"), (2, None));
        assert_eq!(rule("\"a (b)\""), (1, Some(1)));
    }

    #[test]
    fn a_standby_is_to_spare_only_where_another_can_acknowledge() {
        let spare = |setting, there| !StandbyRule::parse(setting).unwrap().has_no_spare(there);
        assert!(!spare("a", None));
        assert!(!spare("a", Some(1)));
        assert!(spare("ANY 1 (a, b)", None));
        assert!(spare("ANY 1 (a, b)", Some(2)));
        assert!(!spare("ANY 1 (a, b)", Some(1)));
        assert!(!spare("FIRST 2 (a, b)", Some(2)));
        assert!(spare("*", Some(2)));
        assert!(!spare("*", Some(1)));
    }
}
