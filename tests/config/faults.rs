//! Error reports.

use std::collections::BTreeSet;
use std::fs;

use sealgate_config::Config;

use super::{APP, REQUIRED, base, fault, faults, lines, starts};

#[test]
fn each_missing_key_is_a_separate_error() {
    for key in ["issuer", "server.listen", "hsm.module", "hsm.token_label", "hsm.pin_file", "store.path"] {
        let text: Vec<_> = REQUIRED.lines().filter(|line| !line.trim().starts_with(key)).collect();
        starts(&fault(&text.join("\n")), &format!("{key}: is missing; write "));
    }
}

#[test]
fn an_empty_file_reports_every_missing_key() {
    let paths: Vec<_> = Config::parse("", &base()).unwrap_err().iter().map(|fault| fault.path().to_owned()).collect();
    let required = ["issuer", "hsm.module", "hsm.token_label", "hsm.pin_file", "server.listen", "store.path"];
    assert_eq!(paths, required);
}

#[test]
fn all_faults_are_reported_at_once_in_the_order_of_the_file() {
    let text = r#"issuer = "http://id.example.com"
        [server]
        listen = ["0.0.0.0:443", "localhost:80"]
        theads = 4
        [hsm]
        module = "module.so"
        token_label = ""
        pin_file = 7
        [store]
        engine = "redis"
        path = "store"
        [tokens]
        access_token_seconds = 0
        [[app]]
        name = "wiki"
        host = "wiki.example.com"
        upstreams = ["http://127.0.0.1:8081/wiki"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        [[app.route]]
        path = "/a//b"
        access = "publik"
        scopes = ["profile", "admin"]"#;
    let faults = faults(text);
    let starts_in_order = [
        "issuer: \"http://id.example.com\": http is only allowed on localhost",
        "server.listen[1]: \"localhost:80\" is not an address; write IP:PORT",
        "server.theads: unknown key; did you mean threads? The keys here are ",
        "hsm.token_label: \"\" is not a name; ",
        "hsm.pin_file: is an integer; write the path of the file with the PIN (line 8)",
        "store.engine: \"redis\" is not known; write \"sled\" or \"postgres\" (line 10)",
        "tokens.access_token_seconds: 0 is out of range; write a whole number of seconds from 1 to 86400 (line 13)",
        "app[0].upstreams[0]: \"http://127.0.0.1:8081/wiki\" has other parts; ",
        "app[0].route[1].path: \"/a//b\" has an empty segment; write single slashes (line 22)",
        "app[0].route[1].access: \"publik\" is not known; write \"public\", \"bearer\" or \"signed_in\" (line 23)",
        "app[0].route[1].scopes[1]: \"admin\" is not a scope; ",
    ];
    assert_eq!(faults.len(), starts_in_order.len(), "{faults:#?}");
    for (fault, start) in faults.iter().zip(starts_in_order) {
        starts(fault, start);
    }
}

#[test]
fn every_unknown_key_is_named_with_its_path() {
    let text = format!(
        "colour = \"red\"\n{REQUIRED}{APP}\nacces = \"public\"\n[tokens]\naccess_token = 900\n[servr]\nlisten = []\n\
         \"a b\" = 1\n[hsm.slot]\nid = 4"
    );
    let faults = faults(&text);
    let unknown: BTreeSet<_> = faults.iter().filter_map(|fault| fault.split_once(": unknown key;")).collect();
    let paths: Vec<_> = unknown.iter().map(|(path, _)| *path).collect();
    assert_eq!(paths, ["app[0].route[0].acces", "colour", "hsm.slot", "servr", "tokens.access_token"]);
    assert_eq!(faults.len(), paths.len(), "{faults:#?}");
    assert!(faults.iter().any(|fault| fault.contains("refresh_token_seconds")), "{faults:#?}");
}

#[test]
fn value_of_an_unknown_key_is_not_repeated() {
    let fault = fault(&format!("{REQUIRED}\nhsm.pin = \"123456\""));
    assert!(fault.starts_with("hsm.pin: unknown key") && !fault.contains("123456"), "{fault}");
}

#[test]
fn invalid_toml_is_reported_with_line_and_column() {
    let fault = fault("issuer = \"https://id.example.com\"\nstore = = 1\n");
    starts(&fault, "line 2, column 9: not TOML: ");
    assert!(!fault.contains('\n'), "{fault}");
}

#[test]
fn every_syntax_error_and_duplicate_key_is_reported() {
    let faults = faults("a = = 1\nb = 2\nb = 3\nc = \"open\nd = 4\n");
    for start in ["line 1, column 5: ", "line 3, column 1: ", "line 4, "] {
        assert!(faults.iter().any(|fault| fault.starts_with(start)), "no {start}: {faults:#?}");
    }
}

#[test]
fn tables_of_the_wrong_shape_are_one_fault_each() {
    starts(&fault(&format!("{REQUIRED}\ntokens = 5")), "tokens: is an integer; write it as a table, [tokens]");
    starts(
        &fault(&format!("{REQUIRED}\napp = \"wiki\"")),
        "app: is a string; write each as a table of its own, [[app]]",
    );
    starts(
        &fault(&format!("{REQUIRED}\napp = [1]")),
        "app[0]: is an integer; write each as a table of its own, [[app]]",
    );
    let text = REQUIRED.replace("store.path", "store") + "\n";
    starts(&fault(&text), "store: is a string; write it as a table, [store]");
}

#[test]
fn values_of_the_wrong_type_are_faults() {
    let text = format!(
        "{REQUIRED}\nserver.header_bytes = \"8k\"\nserver.threads = 1.5\nserver.trusted_proxies = \"10.0.0.0/8\"\n\
         sessions.idle_seconds = 99999999999999999999999\n{}",
        APP.replace("access =", "scopes = [1]\naccess =")
            .replace("[[app.route]]", "preserve_host = \"no\"\n[[app.route]]")
    );
    let faults = faults(&text);
    let starts_in_order = [
        "server.header_bytes: is a string; write a whole number from 4096 to 262144",
        "server.threads: is a float; write a whole number from 1 to 1024",
        "server.trusted_proxies: is a string; write a list such as",
        "sessions.idle_seconds: 99999999999999999999999 is out of range; write a whole number of seconds",
        "app[0].preserve_host: is a string; write true or false",
        "app[0].route[0].scopes[0]: is an integer; write a list of openid, profile",
    ];
    assert_eq!(faults.len(), starts_in_order.len(), "{faults:#?}");
    for (fault, start) in faults.iter().zip(starts_in_order) {
        starts(fault, start);
    }
}

#[test]
fn a_missing_or_non_text_file_is_reported_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealgate.toml");
    let faults = Config::load(&path).unwrap_err();
    starts(&lines(&faults)[0], &format!("{}: cannot be read (", path.display()));
    fs::write(&path, [0xff, 0xfe]).unwrap();
    let faults = Config::load(&path).unwrap_err();
    assert_eq!(lines(&faults), [format!("{}: is not UTF-8 text", path.display())]);
}
