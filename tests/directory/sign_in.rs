//! Sign-in with a name and a password.

use sealgate_domain::source::SourceState;
use sealgate_domain::user::Email;
use sealgate_domain::username::Username;
use sealgate_ldap::{LdapRefusal, LdapSignIn};

use crate::directory::harness::{Keys, open, plain, set};
use crate::slapd::{BASE, Slapd, group, user};

#[tokio::test]
async fn a_user_signs_in_by_username_and_by_address() {
    let more = "displayName: Ayşe Yılmaz\ntelephoneNumber: 0212 555\ntelephoneNumber: +90 555 111 22 33\n";
    let server = Slapd::start(&user("anna", more));
    let directory = plain(&server);
    let by_name = directory.enter("anna").await;
    assert_eq!(by_name.username, Username::parse("anna"));
    assert_eq!(by_name.email.as_ref().map(Email::as_str), Some("anna@example.test"));
    assert!(by_name.email_verified);
    assert_eq!(by_name.name, "Ayşe Yılmaz");
    assert_eq!(by_name.phone_number.as_deref(), Some("+90 555 111 22 33"));
    assert_eq!(by_name.state, SourceState::Enabled);
    for name in ["ANNA", "anna@example.test", "Anna@Example.Test"] {
        assert_eq!(directory.try_enter(name, "password of anna").await, LdapSignIn::User(by_name.clone()), "{name}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_are_refused() {
    let server = Slapd::start(&(user("anna", "") + &user("otto", "")));
    let directory = plain(&server);
    for (name, password) in [
        ("anna", "wrong"),
        ("anna", "password of otto"),
        ("anna", ""),
        ("anna", " "),
        ("nobody", "password of anna"),
        ("", "password of anna"),
        ("an\0na", "password of anna"),
        ("anna\0", "password of anna"),
        // An asterisk is not a wildcard, and parentheses do not end the filter.
        ("*", "password of anna"),
        ("ann*", "password of anna"),
        ("*)(uid=anna", "password of anna"),
        ("anna)(objectClass=*", "password of anna"),
        ("anna)", "password of anna"),
        ("\\61nna", "password of anna"),
        ("uid=anna,ou=people,dc=example,dc=test", "password of anna"),
        (&"x".repeat(256), "password of anna"),
        (&"x".repeat(300), "password of anna"),
        // An account outside of users.base.
        ("sealgate", "service password"),
    ] {
        assert_eq!(directory.try_enter(name, password).await, LdapSignIn::Wrong, "{name:?} {password:?}");
    }
    directory.enter("anna").await;
}

#[tokio::test]
async fn a_name_with_special_characters_is_found_literally() {
    let entry = format!(
        "dn: cn=odd,ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: a*(b)\\c\ncn: odd\nsn: odd\nuserPassword: secret\n\n"
    );
    let server = Slapd::start(&entry);
    let directory = plain(&server);
    let LdapSignIn::User(user) = directory.try_enter("a*(b)\\c", "secret").await else { panic!("not found") };
    // Neither a username nor an address.
    assert_eq!((user.username, user.email, user.name.as_str()), (None, None, "odd"));
}

#[tokio::test]
async fn a_name_of_two_entries_is_refused() {
    // The address of one user is the username of another.
    let server = Slapd::start(&(user("anna", "") + &user("otto", "uid: anna@example.test\n")));
    let directory = plain(&server);
    for password in ["password of anna", "password of otto"] {
        assert_eq!(directory.try_enter("anna@example.test", password).await, LdapSignIn::Wrong);
    }
    directory.enter("anna").await;
}

#[tokio::test]
async fn nested_groups_are_read_and_loops_end() {
    let entries = user("anna", "")
        + &user("otto", "")
        + &group("writers", &["uid=anna,ou=people"])
        + &group("staff", &["cn=writers,ou=groups", "cn=all,ou=groups"])
        + &group("all", &["cn=staff,ou=groups"])
        + &group("others", &["uid=otto,ou=people"])
        + &format!("dn: cn=posix,ou=groups,{BASE}\nobjectClass: posixGroup\ncn: posix\ngidNumber: 5\nmemberUid: anna\n\n")
        + &format!(
            "dn: cn=unique,ou=groups,{BASE}\nobjectClass: groupOfUniqueNames\ncn: unique\n\
             uniqueMember: cn=all,ou=groups,{BASE}\n\n"
        )
        // The name has a comma, so it is left out.
        + &format!(
            "dn: cn=a\\2cb,ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: a,b\nmember: uid=anna,ou=people,{BASE}\n\n"
        );
    let server = Slapd::start(&entries);
    let expected = ["corp:all", "corp:posix", "corp:staff", "corp:unique", "corp:writers"];
    assert_eq!(plain(&server).enter("anna").await.groups, set(&expected));
    let keys = Keys { servers: &[server.url()], groups: "prefix = \"\"", ..Keys::default() };
    assert_eq!(open(&keys).enter("otto").await.groups, set(&["others"]));
}

#[tokio::test]
async fn groups_are_read_from_the_entry_if_configured() {
    let member_of = format!(
        "memberOf: cn=staff,ou=groups,{BASE}\nmemberOf: cn=elsewhere,dc=other\nmemberOf: cn=B\\2cC,ou=groups,{BASE}\n"
    );
    let server = Slapd::with(&user("anna", &member_of), "", "localhost");
    let keys = Keys { servers: &[server.url()], groups: "from = \"member_of\"", ..Keys::default() };
    assert_eq!(open(&keys).enter("anna").await.groups, set(&["corp:staff"]));
}

#[tokio::test]
async fn accounts_that_are_not_enabled_are_refused_only_with_their_password() {
    let entries = user("ended", "objectClass: shadowAccount\nshadowExpire: 1\n")
        + &user("current", "objectClass: shadowAccount\nshadowExpire: 90000\n");
    let server = Slapd::start(&entries);
    let directory = plain(&server);
    let refused = directory.try_enter("ended", "password of ended").await;
    assert_eq!(refused, LdapSignIn::Refused(LdapRefusal::Expired));
    assert_eq!(directory.try_enter("ended", "wrong").await, LdapSignIn::Wrong);
    directory.enter("current").await;
}

#[tokio::test]
async fn the_filter_excludes_users() {
    let server = Slapd::start(&(user("anna", "employeeType: staff\n") + &user("otto", "employeeType: guest\n")));
    let keys = Keys { servers: &[server.url()], users: "filter = \"(employeeType=staff)\"", ..Keys::default() };
    let directory = open(&keys);
    directory.enter("anna").await;
    assert_eq!(directory.try_enter("otto", "password of otto").await, LdapSignIn::Wrong);
}

#[tokio::test]
async fn a_bind_is_sent_for_an_unknown_name_too() {
    let server = Slapd::with(&user("anna", ""), "", "localhost");
    let directory = plain(&server);
    directory.enter("anna").await;
    // The log has a line for each bind. It has the name that was sent.
    for (name, dn) in [("anna", "uid=anna"), ("nobody", "cn=sealgate-no-such-user"), ("*", "cn=sealgate-no-such-user")]
    {
        let before = server.binds(dn);
        assert_eq!(directory.try_enter(name, "wrong").await, LdapSignIn::Wrong);
        assert_eq!(server.binds(dn), before + 1, "{name}");
    }
    let before = server.binds("");
    assert_eq!(directory.try_enter("anna", "").await, LdapSignIn::Wrong);
    assert_eq!(server.binds(""), before);
}
