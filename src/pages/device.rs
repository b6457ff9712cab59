//! Names of browsers and systems, guessed from `User-Agent`. For display only, because no decision
//! may depend on them.

/// Returns the name of a well-known browser.
pub fn browser(user_agent: &str) -> Option<&'static str> {
    // Ordered, because the `User-Agent` of a browser also contains the marks of browsers further
    // down in this list.
    const MARKS: [(&str, &str); 9] = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("SamsungBrowser/", "Samsung Internet"),
        ("Vivaldi/", "Vivaldi"),
        ("FxiOS/", "Firefox"),
        ("Firefox/", "Firefox"),
        ("CriOS/", "Chrome"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    known(user_agent, &MARKS)
}

/// Returns the name of a well-known system.
pub fn system(user_agent: &str) -> Option<&'static str> {
    const MARKS: [(&str, &str); 7] = [
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    known(user_agent, &MARKS)
}

fn known(user_agent: &str, marks: &[(&str, &'static str)]) -> Option<&'static str> {
    marks.iter().find(|(mark, _)| user_agent.contains(mark)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_and_systems_are_recognised() {
        for (text, name, on) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 \
                 Safari/537.36 Edg/126.0",
                Some("Edge"),
                Some("Windows"),
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/17.5 Mobile/15E148 Safari/604.1",
                Some("Safari"),
                Some("iPhone"),
            ),
            (
                "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 \
                 Chrome/121.0.0.0 Mobile Safari/537.36",
                Some("Samsung Internet"),
                Some("Android"),
            ),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", Some("Firefox"), Some("Linux")),
            ("curl/8.5.0", None, None),
            ("", None, None),
        ] {
            assert_eq!((browser(text), system(text)), (name, on), "{text}");
        }
    }
}
