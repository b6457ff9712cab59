//! Applications as resources: `scopes` and `issuer_audience`.

use sealgate_config::Language;

use super::{APP, REQUIRED, fault, parse, starts};

#[test]
fn scopes_of_an_application_have_texts_in_both_languages() {
    let text = |scopes: &str| {
        let app = APP.replace("[[app.route]]", &format!("scopes = {scopes}\n[[app.route]]"));
        format!("{REQUIRED}{app}")
    };
    let config = parse(&text("{ \"b\" = \"Both\", \"a:b/c\" = { en = \"Read\", tr = \"Okuma\" } }"));
    let scopes = &config.apps[0].scopes;
    let [first, second] = scopes.as_slice() else { panic!("{scopes:?}") };
    assert_eq!(
        (first.name.as_str(), first.text(Language::English), first.text(Language::Turkish)),
        ("a:b/c", "Read", "Okuma")
    );
    assert_eq!((second.text(Language::English), second.text(Language::Turkish)), ("Both", "Both"));
    let long = "x".repeat(65);
    for (scopes, problem) in [
        ("{}".to_owned(), "app[0].scopes: is empty; write a table such as"),
        ("[\"a\"]".to_owned(), "app[0].scopes: is an array; write a table such as"),
        ("{ a = 1 }".to_owned(), "app[0].scopes.\"a\": is an integer; write a table such as"),
        (
            "{ a = { en = \"\", tr = \"A\" } }".to_owned(),
            "app[0].scopes.\"a\".en: \"\" is not one line of 1 to 120 visible characters",
        ),
        ("{ a = { en = \"A\" } }".to_owned(), "app[0].scopes.\"a\".tr: is missing; write a description of the scope"),
        ("{ a = { en = \"A\", tr = \"A\", de = \"A\" } }".to_owned(), "app[0].scopes.\"a\".de: unknown key"),
        ("{ email = \"A\" }".to_owned(), "app[0].scopes.\"email\": is a scope of Sealgate itself"),
        ("{ \"a b\" = \"A\" }".to_owned(), "app[0].scopes.\"a b\": is not a scope"),
        (format!("{{ {long} = \"A\" }}"), &*format!("app[0].scopes.\"{long}\": is not a scope")),
    ] {
        starts(&fault(&text(&scopes)), problem);
    }
    let many: Vec<_> = (0..51).map(|number| format!("s{number} = \"A\"")).collect();
    starts(&fault(&text(&format!("{{ {} }}", many.join(", ")))), "app[0].scopes: has 51 scopes; declare at most 50");
    // Rules may require the scopes of their own application.
    let rule = |scope: &str| {
        text("{ read = \"Read\" }").replace("[[app.route]]", &format!("[[app.route]]\nscopes = [\"{scope}\"]"))
    };
    assert_eq!(parse(&rule("read")).apps[0].routes[0].scopes, ["read"]);
    assert!(
        fault(&rule("write")).contains("\"write\" is not a scope; write a list of openid,"),
        "{}",
        fault(&rule("write"))
    );
}

#[test]
fn an_application_that_refuses_tokens_for_the_issuer_has_another_audience() {
    let text = |more: &str| {
        format!(
            "{REQUIRED}{}",
            APP.replace("[[app.route]]", &format!("issuer_audience = false\n{more}\n[[app.route]]"))
        )
    };
    let config = parse(&text(""));
    assert!(config.apps[0].is_resource() && !config.apps[0].issuer_audience);
    assert!(!parse(&format!("{REQUIRED}{APP}")).apps[0].is_resource());
    let contradiction = "app[0].issuer_audience: is false, but an audience of the application is the issuer";
    starts(&fault(&text("audience = \"https://id.example.com\"")), contradiction);
    let route = text("").replace("[[app.route]]", "[[app.route]]\naudience = \"https://id.example.com\"");
    starts(&fault(&route), contradiction);
    // The origin of the application is the issuer.
    starts(&fault(&text("").replace("\"wiki.example.com\"", "\"id.example.com\"")), "app[0].host: is the issuer's own");
    let other_port =
        text("url = \"https://id.example.com:8443\"").replace("\"wiki.example.com\"", "\"id.example.com:8443\"");
    assert!(parse(&other_port).apps[0].is_resource());
}

#[test]
fn an_application_for_agents_accepts_only_its_own_tokens() {
    let text = |app: &str, route: &str| {
        let more = format!("agents = true\n{app}\n[[app.route]]\npath = \"/mcp\"\naccess = \"bearer\"\n{route}\n");
        format!("{REQUIRED}{}", APP.replacen("[[app.route]]", &format!("{more}[[app.route]]"), 1))
    };
    let config = parse(&text("", "resource = true"));
    let app = &config.apps[0];
    assert!(app.agents && app.is_resource() && !app.issuer_audience);
    let paths: Vec<_> = app.routes.iter().map(|route| (route.path.as_str(), route.resource_path())).collect();
    assert_eq!(paths, [("/mcp", Some("/mcp")), ("/", None)]);
    assert!(!parse(&format!("{REQUIRED}{APP}")).apps[0].agents);
    for (app, route, problem) in [
        ("issuer_audience = true", "", "app[0].issuer_audience: is true, but agents = true accepts only tokens"),
        ("", "resource = true\naudience = \"x\"", "app[0].route[0].resource: is the audience of the route's tokens"),
        ("", "resource = 1", "app[0].route[0].resource: is an integer; write true or false"),
        (
            "",
            "resource = true\n[[app.route]]\npath = \"/mcp/\"\naccess = \"bearer\"",
            "app[0].route[1].resource: another rule of \"/mcp/\" has a different value",
        ),
        (
            "",
            "[[app.route]]\npath = \"/.well-known/oauth-protected-resource/x\"\naccess = \"public\"",
            "app[0].route[1].path: \"/.well-known/oauth-protected-resource/x\" is reserved for Sealgate",
        ),
    ] {
        starts(&fault(&text(app, route)), problem);
    }
    let with = text("", "resource = true");
    let public = with.replace("access = \"bearer\"", "access = \"public\"");
    starts(&fault(&public), "app[0].route[0].resource: on a public route no token is checked");
    let (start, odd) = (with.replace("\"/mcp\"", "\"/other/\""), with.replace("\"/mcp\"", "\"/a(b)\""));
    assert_eq!(parse(&start).apps[0].routes[0].resource_path(), Some("/other"));
    starts(&fault(&odd), "app[0].route[0].resource: requires a path of ASCII letters");
    starts(&fault(&with.replace("agents = true", "")), "app[0].route[0].resource: has an effect only with agents");
    let root = with.replace("path = \"/mcp\"", "path = \"/\"").replacen(
        "[[app.route]]\n    path = \"/\"",
        "[[app.route]]\n    path = \"/a\"",
        1,
    );
    starts(&fault(&root), "app[0].route[0].resource: is the application itself");
    let own = with.replace("\"wiki.example.com\"", "\"id.example.com\"");
    starts(&fault(&own), "app[0].host: is the issuer's own");
}
