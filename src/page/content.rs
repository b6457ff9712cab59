//! What a page is told: plain borrowed values, in the order in which a person meets them. Text is handed over raw;
//! escaping is the templates' work.

use crate::config::Language;

/// What surrounds the content of every page.
#[derive(Debug, Clone, Copy)]
pub struct Chrome<'a> {
    /// The language of the page.
    pub language: Language,
    /// Address of the stylesheet, such as `/.sealgate/style.css?v=…` (see [`super::Pages::stylesheet`]).
    pub stylesheet: &'a str,
    /// Address of the script, for the pages that have one.
    pub script: &'a str,
    /// Address of the operator's logo, if there is one.
    pub logo: Option<&'a str>,
    /// Where the language links lead.
    pub switch: LanguageSwitch<'a>,
}

/// Addresses that show the same page in the other language and remember the choice.
#[derive(Debug, Clone, Copy)]
pub struct LanguageSwitch<'a> {
    /// The page in Turkish.
    pub turkish: &'a str,
    /// The page in English.
    pub english: &'a str,
}

/// The sign-in page. Its form sends `csrf`, `email` and `password`.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// Where the form goes.
    pub action: &'a str,
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Name of the application that asked for the sign-in.
    pub client: Option<&'a str>,
    /// What the email field holds at first: a `login_hint`, or what was typed before. May be empty.
    pub email: &'a str,
    /// Why the page is shown again.
    pub problem: Option<LoginProblem>,
}

/// Why a sign-in did not go through. An unknown, a disabled and a known account read the same: a page that told them
/// apart would tell strangers who has an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginProblem {
    /// No such account, a disabled one, or a wrong password.
    WrongCredentials,
    /// Too many failures of this account or address.
    Throttled {
        /// Until the next attempt is allowed.
        seconds: u64,
    },
    /// The password was not checked, because too many checks wait.
    Busy,
}

/// The consent page. Its form sends `csrf`, `consent-allow` or `consent-deny` and, where it is ticked,
/// `offline_access=true`.
#[derive(Clone, Copy)]
pub struct Consent<'a> {
    /// Where the form goes.
    pub action: &'a str,
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Name of the client that asks.
    pub client: &'a str,
    /// Host of the address to which the browser goes back.
    pub host: &'a str,
    /// Who stands behind the client.
    pub publisher: Publisher<'a>,
    /// Whether it has been here for a short while only.
    pub is_new: bool,
    /// Host of its home page, where somebody vouches for it.
    pub website: Option<&'a str>,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    /// What is asked for, without `offline_access`.
    pub scopes: &'a [ScopeLine<'a>],
    /// Whether `offline_access` is asked for; it gets a choice of its own.
    pub offline_access: bool,
}

/// Who stands behind a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher<'a> {
    /// The operator made it, or vouches for it.
    Operator,
    /// The developer of this name; nobody has looked at it.
    Developer(&'a str),
    /// Somebody who is gone; nobody has looked at it.
    Nobody,
    /// It registered itself; nobody has looked at it.
    Itself,
}

/// One scope on the consent page.
#[derive(Debug, Clone, Copy)]
pub struct ScopeLine<'a> {
    /// Its name, such as `profile`.
    pub scope: &'a str,
    /// The very values that the client will receive for it.
    pub values: &'a [String],
}

/// The account chooser. Its form sends `csrf` and `account`: a subject, or nothing for another account.
#[derive(Clone, Copy)]
pub struct AccountChooser<'a> {
    /// Where the form goes.
    pub action: &'a str,
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Name of the client that asks; none where it is for our own pages.
    pub client: Option<&'a str>,
    /// The accounts that are signed in in this browser.
    pub accounts: &'a [AccountLine<'a>],
}

/// One account of the chooser.
#[derive(Debug, Clone, Copy)]
pub struct AccountLine<'a> {
    /// The subject, sent back as `account`.
    pub subject: &'a str,
    /// The person's name.
    pub name: Option<&'a str>,
    /// The person's email address.
    pub email: &'a str,
}

/// The question whether to sign out. Its form sends `csrf`, `logout-confirm=yes` and the hidden fields.
#[derive(Clone, Copy)]
pub struct ConfirmLogout<'a> {
    /// Where the form goes.
    pub action: &'a str,
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Name of the client that asks.
    pub client: Option<&'a str>,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: Option<&'a str>,
    /// Where somebody goes who stays signed in.
    pub stay: &'a str,
    /// Names and values that the form carries on, such as `post_logout_redirect_uri` and `state`.
    pub hidden: &'a [(&'a str, &'a str)],
}

/// The page after signing out.
#[derive(Debug, Clone, Copy)]
pub struct SignedOut<'a> {
    /// Name of the client that asked.
    pub client: Option<&'a str>,
    /// Where to sign in again.
    pub sign_in: &'a str,
}

/// A page that says what went wrong and what to do next.
#[derive(Debug, Clone, Copy)]
pub struct ErrorPage<'a> {
    /// What went wrong.
    pub problem: Problem,
    /// The request's id in the log.
    pub request_id: &'a str,
    /// The way on.
    pub way: Way<'a>,
}

/// Where somebody can go from a page that is the end of something.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    /// The address.
    pub address: &'a str,
    /// What is there.
    pub to: WayTo<'a>,
}

/// What a way leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayTo<'a> {
    /// The same page once more.
    Again,
    /// The application of this name.
    Application(&'a str),
    /// The first page of the application on this host.
    Start,
    /// The person's account.
    Account,
    /// A sign-in with another account.
    AnotherAccount,
}

/// What an error page is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// `client_id` is missing, unknown or disabled.
    UnknownClient,
    /// `redirect_uri` is not registered, so there is nowhere to send the error (RFC 6749 §4.1.2.1).
    RedirectUri,
    /// `redirect_uri` is missing, likewise.
    NoRedirectUri,
    /// `post_logout_redirect_uri` is not registered.
    LogoutRedirectUri,
    /// The request is malformed in another way.
    InvalidRequest,
    /// The form is too old, or its token belongs to another browser.
    ExpiredForm,
    /// The cookie that binds a sign-in to its browser did not come back.
    CookieMissing,
    /// A page of the sign-in was opened without a sign-in in progress.
    NothingToDo,
    /// The same, to somebody who is signed in: with Back, for instance.
    SignedInAlready,
    /// No such page.
    NotFound,
    /// No such host.
    UnknownHost,
    /// An address that only programs use.
    ForPrograms,
    /// A rate limit.
    TooManyRequests {
        /// Until the next request is allowed.
        seconds: u64,
    },
    /// The browser came back to the sign-in again and again.
    SignInLoop,
    /// The protected application cannot be reached.
    Upstream,
    /// A part that the answer needs is overloaded or away: the token, the store, a queue.
    Unavailable,
    /// The account may not use the console, or not this part of it.
    Console,
    /// A form was kept for somebody else than who has signed in.
    FormOfAnother,
    /// A form that was to be kept is not there, or not any more.
    FormNotKept,
    /// A fault of the program.
    Internal,
}

/// A form that was kept while its sender signed in. Its button sends it to the application.
#[derive(Clone, Copy)]
pub struct SendAgain<'a> {
    /// Name of the application.
    pub app: &'a str,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    /// Where the form goes.
    pub target: &'a str,
    /// The encoding in which the browser writes it.
    pub charset: &'a str,
    /// Names and values, as they were sent.
    pub fields: &'a [(String, String)],
    /// Where to go without sending it.
    pub instead: &'a str,
}

/// A form that takes the answer of a sign-in to the client. It sends itself where there are scripts.
#[derive(Debug, Clone, Copy)]
pub struct ReturnForm<'a> {
    /// Where it goes.
    pub action: &'a str,
    /// The host of that, for people.
    pub host: &'a str,
    /// Names and values.
    pub fields: &'a [(&'static str, String)],
}

/// The gate's 403: signed in, but not allowed into the application.
#[derive(Debug, Clone, Copy)]
pub struct Forbidden<'a> {
    /// Name of the application.
    pub app: &'a str,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    /// Address that starts a sign-in with another account.
    pub switch_account: &'a str,
}
