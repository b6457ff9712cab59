//! Parser for the markup of the pages.

use std::collections::BTreeMap;

/// An element's name and attributes.
///
/// The templates write attributes as `name="value"` or bare, so this is sufficient. A value that
/// broke out of its attribute would show as an additional attribute or element.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Tag {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

pub(crate) fn tags(html: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        found.push(tag(&rest[start + 1..end]));
        rest = &rest[end + 1..];
    }
    found
}

fn tag(text: &str) -> Tag {
    let (name, mut rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut attributes = BTreeMap::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Tag { name: name.to_owned(), attributes };
        }
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let key = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let close = quoted.find('"').expect("an attribute ends");
            quoted[..close].clone_into(&mut value);
            rest = &quoted[close + 1..];
        }
        assert!(attributes.insert(key, value).is_none(), "an attribute stands twice in <{text}>");
    }
}

/// Returns the visible text: without tags, with collapsed white space, and with the templates'
/// escaping undone.
pub(crate) fn text(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    let out = out.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#39;", "'");
    out.replace("&#38;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}
