use super::*;

const RECIPE: &str = r#"
page = "/wp-login.php?x=1"
fields = { log = "{user}", pwd = "{password}", "auth[driver]" = "server" }
extract = { token = 'csrf": "([^"]+)' }
headers = { X-Requested-With = "XMLHttpRequest" }
probe = "/wp-admin/profile.php"
user_in_body = true
success = { status = [200], body = "profile-page" }
failure = [{ status = [200], body = "login_error" }, { location = "/denied$" }]
expired = { status = [302], location = 'wp-login\.php' }
[logout]
from = "/wp-admin/profile.php"
token = '_wpnonce=([0-9a-f]+)'
path = "/wp-login.php?action=logout&_wpnonce={token}"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(RECIPE.contains(from), "{from}");
    LoginRecipe::parse(&RECIPE.replace(from, to)).unwrap_err()
}

#[test]
fn a_recipe_is_parsed() {
    let recipe = LoginRecipe::parse(RECIPE).unwrap();
    assert_eq!((recipe.page(), recipe.password_field()), ("/wp-login.php?x=1", "pwd"));
    assert_eq!((&recipe.form, &recipe.submit), (&FormChoice::Password, &SubmitChoice::First));
    assert_eq!(recipe.headers["accept-language"], "en");
    assert_eq!(recipe.max_concurrent_sign_ins, 4);
    let one = RECIPE.replace("[logout]", "max_concurrent_sign_ins = 1\n[logout]");
    assert_eq!(LoginRecipe::parse(&one).unwrap().max_concurrent_sign_ins, 1);
    assert!(recipe.logout().unwrap().token.is_some() && recipe.logout().unwrap().post.is_none());
    let [failure, denied] = &recipe.failure[..] else { panic!("two matchers") };
    assert!(failure.matches(200, None, "<div id='login_error'>"));
    assert!(!failure.matches(302, None, "login_error") && !failure.matches(200, None, "welcome"));
    assert!(denied.matches(302, Some("/a/denied"), "") && !denied.matches(302, None, "/denied"));
    assert_eq!(recipe.may_be_expired(302, Some("/wp-login.php?reauth=1"), false), Some(true));
    assert_eq!(recipe.may_be_expired(302, Some("/wp-admin/"), true), None);
    assert_eq!(recipe.may_be_expired(200, None, true), None);
    let by_body = RECIPE.replace("location = 'wp-login\\.php' }", "body = 'login' }").replace("[302]", "[200, 403]");
    let by_body = LoginRecipe::parse(&by_body).unwrap();
    assert_eq!(by_body.may_be_expired(200, None, true), Some(false));
    assert_eq!(by_body.may_be_expired(200, None, false), None);
}

#[test]
fn the_sign_out_is_recognized_by_its_path_and_constant_parameters() {
    let recipe = LoginRecipe::parse(RECIPE).unwrap();
    for (target, is_sign_out) in [
        ("/wp-login.php?action=logout&_wpnonce=1", true),
        ("/wp-login.php?_wpnonce=1&action=logout", true),
        ("/wp-login.php?action=logout", true),
        ("/wp-login.php?action=logout2", false),
        ("/wp-login.php", false),
        ("/other.php?action=logout", false),
    ] {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        assert_eq!(recipe.is_sign_out(&Method::GET, path, query), is_sign_out, "{target}");
    }
    // A form is sent with POST.
    let form = RECIPE.replace("[logout]", "[logout]\nmethod = \"POST\"");
    let form = LoginRecipe::parse(&form).unwrap();
    for (method, is_sign_out) in [(Method::GET, false), (Method::POST, true)] {
        assert_eq!(form.is_sign_out(&method, "/wp-login.php", Some("action=logout")), is_sign_out);
    }
    // Signed-out users are redirected to the login page.
    let logout = "?action=logout&_wpnonce={token}\"";
    let at_page = RECIPE.replace(logout, "?x=1&_wpnonce={token}\"");
    assert!(!LoginRecipe::parse(&at_page).unwrap().is_sign_out(&Method::GET, "/wp-login.php", Some("x=1")));
}

#[test]
fn each_choice_of_form_and_button_is_parsed() {
    let with = |line: &str| LoginRecipe::parse(&format!("{line}\n{RECIPE}")).unwrap();
    assert_eq!(with("form = { has = 'x' }").form, FormChoice::Has("x".to_owned()));
    assert_eq!(with("form = { action = '/go' }").form, FormChoice::Action("/go".to_owned()));
    assert_eq!(with("submit = 'go'").submit, SubmitChoice::Name("go".to_owned()));
    assert_eq!(with("submit = false").submit, SubmitChoice::None);
}

#[test]
fn an_error_is_one_line_with_the_key() {
    for (from, to, told) in [
        ("probe =", "prob =", "line 6: unknown field `prob`"),
        ("probe = \"/wp-admin/profile.php\"", "", "missing field `probe`"),
        ("\"/wp-login.php?x=1\"", "\"https://evil.test/\"", "page: \"https://evil.test/\" is not a path"),
        ("\"/wp-login.php?x=1\"", "\"//evil.test/\"", "page: "),
        ("\"/wp-login.php?x=1\"", "\"/\\\\evil.test/\"", "page: "),
        ("\"/wp-login.php?x=1\"", "\"/a\\r\\nX: y\"", "page: "),
        ("\"/wp-login.php?x=1\"", "\"login\"", "page: "),
        ("\"{password}\"", "\"x\"", "fields: 0 fields are"),
        ("\"{user}\"", "\"{password}\"", "fields: 2 fields are"),
        ("\"{user}\"", "\"{usr}\"", "fields.log: write"),
        ("\"{user}\"", "\"a\\nb\"", "fields.log: remove"),
        ("\"server\"", "\"a\\u0000\"", "fields.auth[driver]: remove"),
        ("\"([^\"]+)'", "x'", "extract.token: write one group"),
        ("X-Requested-With", "Host", "headers.Host: the sign-in sets"),
        ("X-Requested-With", "cookie", "headers.cookie: the sign-in sets"),
        ("X-Requested-With", "\"a b\"", "headers.a b: not the name"),
        ("XMLHttpRequest", "a\\nb", "headers.X-Requested-With: write"),
        ("status = [200], body = \"profile-page\"", "", "success: write status, location or body"),
        ("status = [200], body = \"profile-page\"", "status = [20]", "success.status: 20 is not"),
        ("body = \"profile-page\"", "bdy = \"x\"", "success: unknown field `bdy`"),
        ("profile-page", "(", "success.body: error: unclosed group"),
        ("profile-page", "(\\\\w{100}){100}", "success.body: the pattern is too large"),
        ("{ status = [302], location = 'wp-login\\.php' }", "[]", "expired: write at least one"),
        ("token = '_wpnonce=([0-9a-f]+)'", "", "logout: write both"),
        ("&_wpnonce={token}", "", "logout: write both the key token and {token}"),
        ("path = \"/wp-login.php?action", "path = \"http://e.test/?action", "logout.path: "),
        ("[logout]", "[logout]\nmethod = \"PUT\"", "logout.method: write"),
        ("[logout]", "max_concurrent_sign_ins = 0\n[logout]", "max_concurrent_sign_ins: write a number from 1"),
        ("[logout]", "max_concurrent_sign_ins = \"x\"\n[logout]", "max_concurrent_sign_ins: "),
        ("[logout]", "[logout]\ndata = { a = \"b\" }", "logout.data: write method"),
    ] {
        let line = error(from, to);
        assert!(line.starts_with(told) && line.lines().count() == 1, "{to}: {line}");
    }
    let line = LoginRecipe::parse(&format!("form = {{ id = 'a', has = 'b' }}\n{RECIPE}")).unwrap_err();
    assert_eq!(line, "form: write one of has, id, name and action");
    assert!(LoginRecipe::parse(&format!("submit = true\n{RECIPE}")).unwrap_err().starts_with("submit: "));
    assert!(LoginRecipe::parse(&"#".repeat(MAX_RECIPE_BYTES + 1)).is_err());
}
