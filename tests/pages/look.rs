//! Stylesheet: it loads nothing, and its colours have sufficient contrast.

use sealgate_config::Language;
use sealgate_pages::STYLESHEET;

use crate::sample::pages;

#[test]
fn the_stylesheet_fetches_nothing_and_changes_no_letters() {
    let css = STYLESHEET;
    assert!(css.len() < 30_000 && !css.contains("url(") && !css.contains("@import"));
    // Upper case depends on the language: it would corrupt codes, IDs and Turkish words.
    assert!(!css.contains("text-transform"));
    let pages = pages("Acme", Language::English);
    for asset in [pages.stylesheet(), pages.script()] {
        assert_eq!(asset.version.len(), 16);
        assert!(asset.version.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn colours_have_the_contrast_of_wcag_aa_in_light_and_dark() {
    let css = STYLESHEET;
    let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
    for (scheme, part) in [("light", light), ("dark", dark)] {
        let luminance = |name: &str| {
            let hex = part.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("{scheme} lacks {name}")).1;
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        let check = |front: &str, ground: &str, least: f64| {
            let (one, other) = (luminance(front), luminance(ground));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast >= least, "{scheme}: {front} on {ground} has {contrast:.2}");
        };
        for ground in ["card", "page"] {
            for front in ["text", "quiet", "accent", "accent-strong"] {
                check(front, ground, 4.5);
            }
        }
        check("accent-strong", "wash", 4.5);
        check("quiet", "wash", 4.5);
        check("on-accent", "accent", 4.5);
        check("on-accent", "accent-strong", 4.5);
        check("bad", "bad-wash", 4.5);
        for tint in ["tint-1", "tint-2", "tint-3", "tint-4", "tint-5"] {
            check("on-accent", tint, 4.5);
            check(tint, "card", 3.0);
        }
        for edge in ["edge", "accent", "bad"] {
            check(edge, "card", 3.0);
        }
    }
}
