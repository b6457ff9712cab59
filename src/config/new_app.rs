//! A new application of the configuration file, as `sealgate app add` and the console write it.

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

/// Application whose paths all require a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApp {
    pub name: String,
    pub title: Option<String>,
    pub host: String,
    pub upstream: String,
    /// Groups that have access. If empty, all users have access.
    pub groups: Vec<String>,
}

impl NewApp {
    /// Returns the table of the application. `position` is the position of the table in the
    /// document. Tables without positions could be written before a table of another application.
    pub fn table(&self, position: isize) -> Table {
        let mut rule = Table::new();
        rule.set_position(Some(position + 1));
        rule.insert("path", value("/"));
        rule.insert("access", value("signed_in"));
        if !self.groups.is_empty() {
            rule.insert("groups", value(self.groups.iter().collect::<Array>()));
        }
        let mut rules = ArrayOfTables::new();
        rules.push(rule);
        let mut table = Table::new();
        table.set_position(Some(position));
        table.insert("name", value(&self.name));
        if let Some(title) = &self.title {
            table.insert("title", value(title));
        }
        table.insert("host", value(&self.host));
        table.insert("upstreams", value([&self.upstream].into_iter().collect::<Array>()));
        table.insert("route", Item::ArrayOfTables(rules));
        table
    }

    /// Returns the `[[app]]` section with its rule, to add at the end of a file.
    pub fn section(&self) -> String {
        let mut apps = ArrayOfTables::new();
        apps.push(self.table(1));
        let mut document = DocumentMut::new();
        document.insert("app", Item::ArrayOfTables(apps));
        document.to_string()
    }
}

/// Public host of an application, and its upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    pub host: String,
    pub upstream: String,
}

impl Protected {
    /// Creates the pair. Host and upstream are validated later, with the whole configuration.
    pub fn new(host: &str, upstream: &str) -> Self {
        Self { host: host.to_ascii_lowercase(), upstream: upstream.trim_end_matches('/').to_owned() }
    }

    /// Parses `HOST=URL`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((host, upstream)) if !host.is_empty() && !upstream.is_empty() => Ok(Self::new(host, upstream)),
            _ => Err("write HOST=URL, such as wiki.example.com=http://127.0.0.1:8081".to_owned()),
        }
    }

    /// Returns a name for the application that is not in `used_names`: the first label of its host
    /// after a wildcard, or else all labels.
    pub fn name(&self, used_names: &[&str]) -> String {
        let word = |text: &str| text.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let host = self.host.trim_start_matches("*.");
        let first = word(host.split('.').next().unwrap_or_default());
        if used_names.contains(&first.as_str()) { word(host) } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_first_label_unless_it_is_taken() {
        let wiki = Protected::parse("Wiki.example.com:8443=http://127.0.0.1:8081/").unwrap();
        assert_eq!((wiki.host.as_str(), wiki.upstream.as_str()), ("wiki.example.com:8443", "http://127.0.0.1:8081"));
        assert_eq!(wiki.name(&[]), "wiki");
        assert_eq!(wiki.name(&["wiki"]), "wiki-example-com-8443");
        for text in ["wiki.example.com", "=http://127.0.0.1", "wiki.example.com="] {
            assert!(Protected::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_section_quotes_values() {
        let app = NewApp {
            name: "chat".to_owned(),
            title: Some("Our \"chat\"".to_owned()),
            host: "chat.example.com".to_owned(),
            upstream: "http://127.0.0.1:8082".to_owned(),
            groups: vec!["a\\b".to_owned()],
        };
        let section = app.section();
        let table: toml::Table = section.parse().unwrap();
        let known = &table["app"][0];
        assert_eq!(known["title"].as_str(), Some("Our \"chat\""));
        assert_eq!(known["route"][0]["groups"][0].as_str(), Some("a\\b"));
        assert!(section.starts_with("[[app]]\nname = \"chat\"\n"), "{section}");
    }
}
