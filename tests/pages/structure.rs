//! Structure of every page: small, nothing inline, closed elements, and a label or name where one
//! is required.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sealgate_pages::{CONTENT_SECURITY_POLICY, KEYS_SCRIPT, RETURN_SCRIPT, SCRIPT, STYLESHEET};

use crate::markup::{tags, text};
use crate::sample::{LANGUAGES, Sample, all_pages, every_page};

#[test]
fn every_page_is_small_and_loads_only_stylesheet_and_script() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pages");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("sealgate.css"), STYLESHEET).unwrap();
    fs::write(folder.join("sealgate.js"), SCRIPT).unwrap();
    fs::write(folder.join("keys.js"), KEYS_SCRIPT).unwrap();
    fs::write(folder.join("return.js"), RETURN_SCRIPT).unwrap();
    for (name, html) in all_pages() {
        fs::write(folder.join(format!("{name}.html")), &html).unwrap();
        assert!(html.len() < 30_000, "{name} has {} bytes", html.len());
        for tag in tags(&html) {
            // The only pictures are a user's profile picture, on the user's own page, and logos of clients.
            let address = tag.attribute("src").unwrap_or_default();
            let picture = tag.attribute("class") == Some("portrait") && name.starts_with("account-")
                || address.contains("/oauth/client-logos/");
            assert!(
                (tag.name == "img" && picture)
                    || !["style", "img", "iframe", "object", "base"].contains(&tag.name.as_str()),
                "{name}"
            );
            if tag.name == "script" {
                let known: &[&str] =
                    if name.starts_with("return-form") { &["return.js"] } else { &["sealgate.js", "keys.js"] };
                assert!(known.contains(&tag.attribute("src").unwrap()), "{name}: {tag:?}");
                assert_eq!(tag.attribute("defer"), Some(""), "{name}");
            }
            for (attribute, value) in &tag.attributes {
                assert!(attribute != "style" && !attribute.starts_with("on"), "{name}: inline code in {tag:?}");
                if ["href", "src", "action"].contains(&attribute.as_str()) {
                    // Terms and policy of a client open in a new window.
                    let id = tag.attribute("id");
                    if matches!(id, Some("consent-terms" | "consent-policy")) {
                        assert!(value.starts_with("https://"), "{name}: {value}");
                        let opens = (tag.attribute("target"), tag.attribute("rel"));
                        assert_eq!(opens, (Some("_blank"), Some("noopener noreferrer")), "{name}");
                        continue;
                    }
                    let known =
                        ["/", "sealgate.css", "sealgate.js", "keys.js", "return.js", "/oauth/login", "/oauth/logout"];
                    assert!(
                        [
                            "/account",
                            "/console",
                            "/oauth/login?with=",
                            "/oauth/client-logos/",
                            "#",
                            "otpauth://totp/",
                            "data:image/svg+xml,"
                        ]
                        .iter()
                        .any(|own| value.starts_with(own))
                            || known.contains(&value.as_str()),
                        "{name}: {value}"
                    );
                }
            }
        }
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
}

/// The last result or error has the focus without JavaScript too, so that a screen reader announces
/// it.
#[test]
fn at_most_one_element_has_initial_focus_and_messages_come_first() {
    for (name, html) in all_pages() {
        let tags = tags(&html);
        let focused: Vec<_> = tags.iter().filter(|tag| tag.attribute("autofocus").is_some()).collect();
        assert!(focused.len() <= 1, "{name}: {focused:?}");
        let done = tags.iter().find(|tag| tag.attribute("class") == Some("done"));
        let wrong =
            tags.iter().any(|tag| tag.attribute("aria-invalid").is_some() || tag.attribute("role") == Some("alert"));
        assert!(focused.len() == 1 || (done.is_none() && !wrong), "{name}: nothing is focused");
    }
}

#[test]
fn the_script_sends_no_requests_and_creates_no_markup() {
    assert!(SCRIPT.len() < 3_400 && KEYS_SCRIPT.len() < 8_600);
    for word in ["fetch(", "XMLHttpRequest", "innerHTML", "insertAdjacent", "document.write", "eval(", "import("] {
        assert!(!SCRIPT.contains(word) && !KEYS_SCRIPT.contains(word), "{word}");
    }
}

/// `HtmlUnit` and browsers embedded in old programs support ES5 only. The browser suite parses the
/// served script.
#[test]
fn the_form_post_script_uses_only_es5() {
    let code: Vec<&str> = RETURN_SCRIPT.lines().filter(|line| !line.starts_with("//")).collect();
    let code = code.join("\n");
    for newer in ["const ", "let ", "=>", "`", "?.", "??", "async", "...", " of ", "class ", "import", "{"] {
        assert!(!code.contains(newer), "{newer}");
    }
    assert!(code.contains(".submit();") && !SCRIPT.contains("data-sends-itself"));
}

/// Safari, 1Password and others generate passwords by these rules. They are the rules of the
/// password check.
#[test]
fn every_new_password_field_has_passwordrules() {
    let rules = "minlength: 15; maxlength: 1024;";
    let mut fields = 0;
    for (name, html) in all_pages() {
        for tag in tags(&html).iter().filter(|tag| tag.attribute("type") == Some("password")) {
            // A password at an application follows the rules of that application.
            let is_new =
                tag.attribute("autocomplete") == Some("new-password") && tag.attribute("id") != Some("app_password");
            assert_eq!(tag.attribute("passwordrules"), is_new.then_some(rules), "{name}: {tag:?}");
            fields += usize::from(is_new);
        }
    }
    assert!(fields > 3, "{fields}");
}

#[test]
fn elements_are_nested_correctly() {
    for (name, html) in all_pages() {
        let mut open: Vec<String> = Vec::new();
        for tag in tags(&html) {
            match tag.name.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop().as_deref(), Some(closed), "{name}"),
                None if ["!doctype", "meta", "link", "input", "img"].contains(&tag.name.as_str()) => {}
                // Self-closing elements of an SVG picture.
                None if tag.attribute("/").is_some() => {}
                None => open.push(tag.name),
            }
        }
        assert_eq!(open, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_page_has_a_language_title_heading_and_main_content() {
    for (name, html) in all_pages() {
        let tags = tags(&html);
        let language = name.rsplit('.').next().unwrap();
        let count = |wanted: &str| tags.iter().filter(|tag| tag.name == wanted).count();
        let root = tags.iter().find(|tag| tag.name == "html").unwrap();
        assert_eq!(root.attribute("lang"), Some(language), "{name}");
        assert_eq!((count("title"), count("h1"), count("main")), (1, 1, 1), "{name}");
        // A page that is shown only once cannot be shown in the other language.
        if ["kept-form", "send-again", "return-form", "leave", "recovery-codes", "recovery-used"]
            .iter()
            .any(|once| name.starts_with(once))
        {
            continue;
        }
        let links: Vec<_> = tags.iter().filter_map(|tag| tag.attribute("hreflang")).collect();
        assert_eq!(links, ["tr", "en"], "{name}");
        let current: Vec<_> = tags.iter().filter(|tag| tag.attribute("aria-current") == Some("true")).collect();
        assert_eq!(current.len(), 1, "{name}");
        assert_eq!(current[0].attribute("hreflang"), Some(language), "{name}");
    }
}

#[test]
fn every_field_has_a_label_and_every_reference_a_target() {
    for (name, html) in all_pages() {
        let tags = tags(&html);
        let ids: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("id")).collect();
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{name}: an id stands twice");
        let labelled: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("for")).collect();
        for tag in &tags {
            let shown = tag.attribute("type") != Some("hidden") && tag.attribute("hidden").is_none();
            if ["input", "textarea", "select"].contains(&tag.name.as_str()) && shown {
                // Radio buttons share their name, and so do the check boxes of a list.
                let is_choice = tag.attribute("type") == Some("radio")
                    || tag.attribute("type") == Some("checkbox") && tag.attribute("value").is_some();
                let id = tag.attribute("id");
                if !is_choice {
                    assert!(id.is_some() && tag.attribute("name") == id, "{name}: {tag:?}");
                }
                let has_label = id.is_some_and(|id| labelled.contains(&id)) || tag.attribute("aria-label").is_some();
                assert!(has_label, "{name}: {tag:?} has no label");
            }
            for reference in ["for", "aria-describedby", "aria-labelledby"] {
                for target in tag.attribute(reference).into_iter().flat_map(str::split_whitespace) {
                    assert!(ids.contains(&target), "{name}: {reference}={target} leads nowhere");
                }
            }
        }
    }
}

#[test]
fn markup_in_every_value_is_escaped() {
    let hostile = r#"'"><script>alert(1)</script><b onclick="x">&{{ t }}"#;
    let shape = |html: &str| -> Vec<(String, Vec<String>)> {
        tags(html).into_iter().map(|tag| (tag.name, tag.attributes.into_keys().collect())).collect()
    };
    for language in LANGUAGES {
        let plain = every_page(&Sample::plain(), language);
        for ((name, html), (_, plain)) in every_page(&Sample::filled_with(hostile), language).into_iter().zip(plain) {
            assert!(!html.contains("<script>") && !html.contains("<b ") && !html.contains("'\">"), "{name}:\n{html}");
            assert_eq!(shape(&html), shape(&plain), "{name}: a value changed the structure of the page");
            // Escaped once, not twice: the user sees exactly the given value.
            assert!(text(&html).contains(hostile), "{name}:\n{html}");
        }
    }
}
