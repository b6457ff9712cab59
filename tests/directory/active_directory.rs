//! Active Directory, with a Samba domain controller that `tests/directory/samba.sh` starts.

use std::path::Path;
use std::sync::Arc;

use sealgate_config::Config;
use sealgate_domain::source::SourceState;
use sealgate_domain::source_check::CheckStepOutcome;
use sealgate_ldap::{LdapDirectory, LdapRefusal, LdapSignIn};
use sealgate_system::clock::SystemClock;
use secrecy::SecretString;

use crate::directory::harness::{Keys, config, set};
use crate::slapd::{BASE, SERVICE_DN, write_secret};

fn directory() -> (LdapDirectory, Config) {
    let place = std::env::var_os("SEALGATE_SAMBA").expect("tests/directory/samba.sh sets the variable");
    let place = Path::new(&place);
    write_secret(&place.join("password"), "password of sealgate");
    let more = format!("ca_file = \"{}\"", place.join("ca.pem").display());
    let keys = Keys { servers: &["ldaps://localhost".to_owned()], more: &more, ..Keys::default() };
    let text = config(&keys).replace("\"ldap\"", "\"active_directory\"");
    let text = text.replace(SERVICE_DN, "CN=sealgate,CN=Users,DC=corp,DC=test");
    let text = text.replace(&format!("ou=people,{BASE}"), "DC=corp,DC=test");
    let text = text.replace(&format!("ou=groups,{BASE}"), "DC=corp,DC=test").replace("example.test", "corp.test");
    let config = Config::parse(&text, place).unwrap_or_else(|faults| panic!("{faults:#?}"));
    (LdapDirectory::open(&config.directories[0], Arc::new(SystemClock)).unwrap(), config)
}

async fn sign_in(directory: &LdapDirectory, name: &str, password: &str) -> LdapSignIn {
    directory.sign_in(name, &SecretString::from(password)).await.unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

#[tokio::test]
#[ignore = "needs a domain controller: make test-directory"]
async fn users_of_active_directory_sign_in_with_all_their_groups() {
    let (directory, _) = directory();
    let LdapSignIn::User(anna) = sign_in(&directory, "anna", "password of anna").await else { panic!("not found") };
    // Nested groups that contain each other, and the primary group.
    assert!(set(&["corp:prime", "corp:staff", "corp:writers"]).is_subset(&anna.groups), "{:?}", anna.groups);
    assert_eq!(anna.username.as_ref().map(ToString::to_string).as_deref(), Some("anna"));
    assert!(anna.email_verified && anna.id.as_bytes().len() == 16);
    for name in ["ANNA", "anna@corp.test", "Anna@CORP.TEST"] {
        assert_eq!(sign_in(&directory, name, "password of anna").await, LdapSignIn::User(anna.clone()), "{name}");
    }
    for (name, password) in [("anna", "wrong"), ("nobody", "wrong"), ("anna", ""), ("*", "password of anna")] {
        assert_eq!(sign_in(&directory, name, password).await, LdapSignIn::Wrong, "{name}");
    }
    let read = directory.read(std::slice::from_ref(&anna.id)).await.unwrap();
    assert_eq!(read, [(anna.id.clone(), Some(anna))]);
}

#[tokio::test]
#[ignore = "needs a domain controller: make test-directory"]
async fn accounts_that_may_not_sign_in_are_refused_only_with_their_password() {
    let (directory, _) = directory();
    for (user, refusal) in
        [("off", LdapRefusal::Disabled), ("ended", LdapRefusal::Expired), ("must", LdapRefusal::PasswordMustChange)]
    {
        let right = sign_in(&directory, user, &format!("password of {user}")).await;
        assert_eq!(right, LdapSignIn::Refused(refusal), "{user}");
        assert_eq!(sign_in(&directory, user, "wrong").await, LdapSignIn::Wrong, "{user}");
    }
}

#[tokio::test]
#[ignore = "needs a domain controller: make test-directory"]
async fn a_lock_after_wrong_passwords_refuses_sign_ins_and_is_no_state() {
    let (directory, config) = directory();
    let LdapSignIn::User(user) = sign_in(&directory, "locked", "password of locked").await else { panic!("refused") };
    for _ in 0..6 {
        assert_eq!(sign_in(&directory, "locked", "wrong").await, LdapSignIn::Wrong);
    }
    assert_eq!(sign_in(&directory, "locked", "password of locked").await, LdapSignIn::Wrong);
    let read = directory.read(std::slice::from_ref(&user.id)).await.unwrap();
    assert_eq!(read[0].1.as_ref().unwrap().state, SourceState::Enabled);

    let check = directory.check(Some("off"), &config.login).await;
    assert!(check.has_passed(), "{check:#?}");
    let warned = |subject: &str| {
        check.steps.iter().any(|step| step.subject == subject && step.outcome == CheckStepOutcome::Warning)
    };
    assert!(warned("lockout") && warned("user") && warned("users.base"), "{check:#?}");
    assert_eq!(check.user.unwrap().state, SourceState::Disabled);
}
