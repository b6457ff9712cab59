//! `synchronous_standby_names`: how many standbys a commit waits for, and out of which.

/// What the setting says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StandbyRule {
    /// How many must have a commit before it is acknowledged.
    pub(super) needed: usize,
    /// Out of how many names; none for `*`, any standby.
    named: Option<usize>,
}

impl StandbyRule {
    /// `[FIRST] N (a, b)`, `ANY N (a, b)` or `a, b`, as the server has accepted it; none where it waits for no standby.
    pub(super) fn parse(setting: &str) -> Option<Self> {
        let setting = setting.trim();
        if setting.is_empty() {
            return None;
        }
        let counted = setting.strip_suffix(')').and_then(|setting| setting.split_once('('));
        // A parenthesis in a name stands in quotes, which a number never does.
        let counted = counted.filter(|(before, _)| !before.contains('"')).and_then(|(before, names)| {
            let number = before.trim_start_matches(|char: char| char.is_ascii_alphabetic() || char.is_whitespace());
            Some((number.trim().parse().ok()?, names))
        });
        let (needed, names) = counted.unwrap_or((1, setting));
        Some(Self { needed, named: count(names) })
    }

    /// Whether one standby that goes away stops all commits. `there` is how many of those named follow now, where it is known.
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
