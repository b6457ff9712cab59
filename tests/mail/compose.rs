//! Content of each e-mail, as text and as HTML, in both languages.
//!
//! The expected e-mails are in `mails/` and are compared completely. Each e-mail is also written to
//! `target/tmp/mails` for inspection.

use std::fs;
use std::path::{Path, PathBuf};

use sealgate_config::{Config, IssuerUrl, Language};
use sealgate_domain::mail::{CodePurpose, Mail, MailId, MailMessage, Notice, RequestOrigin};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_pages::mailer::{ComposeError, Composed, MailHeader, Sender, compose};

pub(crate) const TOKEN: &str = "hunter2-_hunter2-_hunter2-_hunter2";
const CODE: &str = "12345678";

pub(crate) fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://id.example.com/sso").unwrap()
}

/// Returns every e-mail that the program sends, with a name.
pub(crate) fn every_mail() -> Vec<(String, Mail)> {
    let token = || TOKEN.to_owned();
    let invitation = |inviter: Option<&str>, app: Option<&str>| Mail::Invitation {
        token: token(),
        inviter: inviter.map(str::to_owned),
        app: app.map(str::to_owned),
    };
    let code = |purpose| Mail::VerificationCode { code: CODE.to_owned(), purpose };
    let mut mails = vec![
        ("reset", Mail::Reset { token: token() }),
        ("passkeys-only", Mail::PasskeysOnly),
        ("password-elsewhere", Mail::PasswordElsewhere),
        ("invitation", invitation(None, None)),
        ("invitation-by-name", invitation(Some("Şule Yılmaz"), Some("Wiki"))),
        ("code-address", code(CodePurpose::Address)),
        ("code-new-address", code(CodePurpose::NewAddress)),
        ("code-registration", code(CodePurpose::Registration)),
        ("account-exists", Mail::AccountExists { purpose: CodePurpose::Registration }),
        ("account-exists-new-address", Mail::AccountExists { purpose: CodePurpose::NewAddress }),
        ("address-changed", Mail::AddressChanged { token: token(), new_address: "m…@example.net".to_owned() }),
        ("test", Mail::Test),
        ("notice-many-times", Mail::Notice { notice: Notice::FactorFailed, count: 7 }),
    ]
    .into_iter()
    .map(|(name, mail)| (name.to_owned(), mail))
    .collect::<Vec<_>>();
    mails.extend(Notice::ALL.map(|notice| (format!("notice-{notice:?}"), Mail::Notice { notice, count: 1 })));
    mails
}

fn message(mail: Mail, language: Language) -> MailMessage {
    let origin = RequestOrigin {
        address: "192.0.2.7".parse().unwrap(),
        browser: Some("Firefox".to_owned()),
        system: Some("Linux".to_owned()),
    };
    // 22 November 2026, 18:40 UTC.
    MailMessage { to: None, language, at: UnixTime::from_seconds(1_795_372_800), origin: Some(origin), mail }
}

pub(crate) fn composed(mail: Mail, language: Language) -> Composed {
    let issuer = issuer();
    let sender = Sender { issuer: &issuer, operator: "Örnek & Co.", accent: None };
    compose(&message(mail, language), &sender, MailId::from_bytes([7; 16])).unwrap()
}

fn every_composed() -> impl Iterator<Item = (String, Composed)> {
    let languages = [("en", Language::English), ("tr", Language::Turkish)];
    languages.into_iter().flat_map(|(tag, language)| {
        every_mail().into_iter().map(move |(name, mail)| (format!("{name}.{tag}"), composed(mail, language)))
    })
}

#[test]
fn every_mail_has_the_expected_text() {
    let (mut differing, new) = (Vec::new(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("mails"));
    fs::create_dir_all(&new).unwrap();
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mail/mails");
    let mut names = Vec::new();
    for (name, mail) in every_composed() {
        for (file, content) in [
            (format!("{name}.txt"), format!("Subject: {}\n\n{}", mail.subject, mail.text)),
            (format!("{name}.html"), mail.html),
        ] {
            fs::write(new.join(&file), &content).unwrap();
            if fs::read_to_string(expected.join(&file)).ok().as_ref() != Some(&content) {
                differing.push(file.clone());
            }
            names.push(file);
        }
    }
    let told = format!("differ from tests/mail/mails; the new ones are in {}", new.display());
    assert!(differing.is_empty(), "{differing:?} {told}");
    let kept = fs::read_dir(&expected).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let old: Vec<String> = kept.filter(|file| !names.contains(file)).collect();
    assert!(old.is_empty(), "no mail is {old:?} any more");
}

/// Returns all URLs in a text.
fn addresses(text: &str) -> Vec<&str> {
    let ends = |char: char| char.is_whitespace() || "<>\"'".contains(char);
    text.match_indices("http").map(|(at, _)| text[at..].split(ends).next().unwrap()).collect()
}

#[test]
fn a_mail_has_at_most_one_link_below_the_issuer() {
    for (name, mail) in every_composed() {
        let text = addresses(&mail.text);
        assert!(text.len() <= 1, "{name}: {text:?}");
        let html = addresses(&mail.html);
        for address in text.iter().chain(&html) {
            assert!(address.starts_with("https://id.example.com/sso/"), "{name}: {address}");
        }
        // The HTML contains the URL twice: behind the button, and in full to be copied.
        assert_eq!(html, [text.clone(), text].concat(), "{name}");
    }
    let link = |mail| addresses(&composed(mail, Language::English).text).first().map(ToString::to_string);
    let of = |path: &str| Some(format!("https://id.example.com/sso{path}?token={TOKEN}"));
    let token = || TOKEN.to_owned();
    assert_eq!(link(Mail::Reset { token: token() }), of("/oauth/reset"));
    assert_eq!(link(Mail::Invitation { token: token(), inviter: None, app: None }), of("/oauth/invitation"));
    assert_eq!(link(Mail::AddressChanged { token: token(), new_address: String::new() }), of("/oauth/undo"));
    assert_eq!(link(Mail::PasskeysOnly), None);
    assert_eq!(link(Mail::PasswordElsewhere), None);
}

#[test]
fn html_mail_loads_no_resources_and_runs_no_scripts() {
    for (name, mail) in every_composed() {
        let html = mail.html.to_lowercase();
        for forbidden in
            ["<img", "<script", "<link", "<iframe", "<form", "src=", "url(", "@import", "cid:", "background="]
        {
            assert!(!html.contains(forbidden), "{name}: {forbidden}");
        }
        assert!(mail.html.contains("prefers-color-scheme:dark"), "{name}");
    }
}

#[test]
fn names_are_escaped_and_cannot_imitate_other_content() {
    let mail = |inviter: &str| Mail::Invitation {
        token: TOKEN.to_owned(),
        inviter: Some(inviter.to_owned()),
        app: Some("<b>\u{202e}Wiki</b>\r\nBcc: x".to_owned()),
    };
    let invitation = composed(mail("<a href=\"https://evil.example\">A & B</a>\n\nhello"), Language::English);
    assert!(!invitation.html.contains("<a href=\"https://evil") && !invitation.html.contains("<b>Wiki"));
    assert!(invitation.text.contains("<b>Wiki</b> Bcc: x"), "{}", invitation.text);
    assert!(!invitation.text.contains('\u{202e}') && !invitation.text.contains("\n\nhello"));
    // The operator's name has an `&`, which is escaped in HTML, but not in the subject.
    assert_eq!(invitation.subject, "You have been invited – Örnek & Co.");
    assert!(invitation.html.contains("Örnek &#38; Co.") && invitation.text.contains("Örnek & Co."));
    let long = composed(mail(&"Ğ".repeat(200)), Language::Turkish);
    assert_eq!(long.text.matches('Ğ').count(), 100);
    // Persian names need the non-joiner between letters that would join.
    let persian = "علی\u{200c}نیا";
    assert!(composed(mail(persian), Language::English).text.contains(persian));
    let cut = composed(mail(&format!("{}م\u{200c}ی", "x".repeat(98))), Language::English);
    assert!(cut.text.contains("xم") && !cut.text.contains('\u{200c}'), "a joiner at the cut is removed");
    assert!(!composed(mail("\u{200b}\n"), Language::English).text.contains("has invited you"), "nothing is left of it");
}

#[test]
fn a_code_is_grouped_in_fours_and_not_in_the_subject() {
    for language in [Language::English, Language::Turkish] {
        let mail = composed(Mail::VerificationCode { code: CODE.to_owned(), purpose: CodePurpose::Address }, language);
        assert!(mail.text.contains("    1234 5678\n") && mail.html.contains(">1234 5678<"), "{}", mail.text);
        assert!(!mail.subject.contains("1234"), "{}", mail.subject);
    }
}

#[test]
fn no_secret_is_printed() {
    for (name, mail) in every_composed() {
        let printed = format!("{mail:?}");
        assert_eq!(printed, "Composed(<BwcHBwcHBwcHBwcHBwcHBw@id.example.com>)", "{name}");
    }
}

#[test]
fn the_same_message_renders_identically() {
    for (_, mail) in every_mail() {
        assert_eq!(composed(mail.clone(), Language::Turkish), composed(mail, Language::Turkish));
    }
    assert_eq!(MailHeader::ALL.map(|header| header.field().0), ["Auto-Submitted", "X-Auto-Response-Suppress"]);
}

#[test]
fn impossible_messages_are_errors() {
    let issuer = issuer();
    let sender = Sender { issuer: &issuer, operator: "Example", accent: None };
    let fault = |mail| compose(&message(mail, Language::English), &sender, MailId::from_bytes([7; 16])).unwrap_err();
    assert_eq!(
        fault(Mail::ResetWanted { account: SecretHash::for_secret(b"x"), browser: Vec::new() }),
        ComposeError::NotSent
    );
    let wanted = Mail::AddressWanted { code: "12345678".to_owned(), purpose: CodePurpose::Registration };
    assert_eq!(fault(wanted), ComposeError::NotSent);
    for token in ["", "a b", "a&b=c", "a\r\nb", "ğ", "a/../b"] {
        assert_eq!(fault(Mail::Reset { token: token.to_owned() }), ComposeError::Token, "{token:?}");
    }
    for code in ["", "1234567a", "1234 5678", "<b>1</b>"] {
        let mail = Mail::VerificationCode { code: code.to_owned(), purpose: CodePurpose::Address };
        assert_eq!(fault(mail), ComposeError::Code, "{code:?}");
    }
}

#[test]
fn the_operators_colours_are_those_of_the_pages() {
    let text = "issuer = \"https://id.test\"\nserver.listen = [\"127.0.0.1:80\"]\nstore.path = \"s\"\n\
        hsm = { module = \"m\", token_label = \"t\", pin_file = \"p\" }\npages.accent = \"#1a4fa3\"\n";
    let config = Config::parse(text, &PathBuf::from("/etc")).unwrap();
    let sender = Sender { issuer: &config.issuer, operator: "Example", accent: config.pages.accent };
    let mail = compose(&message(Mail::Test, Language::English), &sender, MailId::from_bytes([7; 16])).unwrap();
    assert!(mail.html.contains("color:#1a4fa3") && !mail.html.contains("#0a5c53"), "{}", mail.html);
    let dark = config.pages.accent.unwrap().dark.to_string();
    assert!(mail.html.contains(&format!("color:{dark}!important")), "{}", mail.html);
}
