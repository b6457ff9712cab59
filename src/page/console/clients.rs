//! The console's pages about clients.

use askama::Template;

use super::snippets::{Library, Snippet};
use crate::page::content::Chrome;
use crate::page::moment::moment;
use crate::page::shell::{Inside, Place, Shell};
use crate::page::words::{Markup, Words, escaped};
use crate::page::{Pages, rendered};

/// The clients that somebody may see.
#[derive(Clone, Copy)]
pub struct Clients<'a> {
    /// They.
    pub clients: &'a [ClientLine<'a>],
    /// Address of the next ones, if there are more.
    pub next: Option<&'a str>,
}

/// One client.
#[derive(Debug, Clone, Copy)]
pub struct ClientLine<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Whether it cannot keep a secret.
    pub public: bool,
    /// Whether it may be used.
    pub enabled: bool,
    /// Whether its tokens open the applications that name no clients.
    pub vouched_for: bool,
}

/// What a client's form holds. It sends `csrf`, `name`, `description`, `type`, `redirect_uris` and
/// `post_logout_redirect_uris` (one URI a line), `scope_profile` and its like, and `auth_method`.
#[derive(Debug, Clone, Copy)]
pub struct ClientForm<'a> {
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What it is, in a sentence.
    pub description: &'a str,
    /// Whether it cannot keep a secret.
    pub public: bool,
    /// Where codes may be sent, one a line.
    pub redirect_uris: &'a str,
    /// Where browsers may be sent after a logout, one a line.
    pub post_logout_redirect_uris: &'a str,
    /// The scopes that it may ask for.
    pub scopes: &'a [&'a str],
    /// Whether it sends its secret in the form body.
    pub secret_in_body: bool,
    /// What of it was refused.
    pub faults: &'a [ClientFault],
}

/// A field of a client's form that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFault {
    /// Which.
    pub field: ClientField,
    /// In a list of URIs: what is wrong, and in which line; nothing where the list itself will not do.
    pub uri: Option<(UriFault, u64)>,
}

/// A field of a client's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientField {
    /// The name.
    Name,
    /// The description.
    Description,
    /// Where codes may be sent.
    RedirectUris,
    /// Where browsers may be sent after a logout.
    PostLogoutRedirectUris,
}

/// Why a URI cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriFault {
    /// Over 2000 characters.
    Long,
    /// Spaces, quotes, backslashes, letters beyond ASCII.
    Characters,
    /// Relative, or no URI.
    Absolute,
    /// Holds `*`.
    Wildcard,
    /// Holds `#`.
    Fragment,
    /// Holds a user name.
    User,
    /// Neither https nor http on this device.
    Scheme,
    /// The host is none.
    Host,
}

impl UriFault {
    fn words(self, t: Words, line: impl crate::page::words::Argument) -> Markup {
        match self {
            Self::Long => t.uri_long(line),
            Self::Characters => t.uri_characters(line),
            Self::Absolute => t.uri_absolute(line),
            Self::Wildcard => t.uri_wildcard(line),
            Self::Fragment => t.uri_fragment(line),
            Self::User => t.uri_user(line),
            Self::Scheme => t.uri_scheme(line),
            Self::Host => t.uri_host(line),
        }
    }
}

/// One client, with all that can be done to it. Its other forms send `csrf` and `action`: `rotate` with
/// `overlap_seconds`, `disable`, `enable`, `approve`, `withdraw-approval`, `delete`.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one thing of the page is there")]
pub struct ClientPage<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name, as saved.
    pub name: &'a str,
    /// Its metadata.
    pub form: ClientForm<'a>,
    /// Whether it may be used.
    pub enabled: bool,
    /// Whether the reader may enable it: what an administrator disabled, only an administrator enables.
    pub may_enable: bool,
    /// Whether its tokens open the applications that name no clients.
    pub vouched_for: bool,
    /// Whether the reader may approve it, or take that back.
    pub may_approve: bool,
    /// How often it may come to the token endpoint in a minute; none for any number.
    pub token_limit: Option<u64>,
    /// Since when it is registered, seconds since 1970.
    pub created_at: u64,
    /// Its secrets.
    pub secrets: &'a [ClientSecretLine],
    /// A secret that was just made, shown this once.
    pub secret: Option<NewSecret<'a>>,
    /// The issuer, for the snippets.
    pub issuer: &'a str,
    /// Whether the button to delete was pressed without ticking that it is meant.
    pub unsure: bool,
}

/// A secret as kept.
#[derive(Debug, Clone, Copy)]
pub struct ClientSecretLine {
    /// When it was made, seconds since 1970.
    pub created_at: u64,
    /// When it stops working, seconds since 1970.
    pub expires_at: Option<u64>,
}

/// A secret in clear.
#[derive(Clone, Copy)]
pub struct NewSecret<'a>(pub &'a str);

/// The page on which a client is tried. Its forms send `csrf` and `action`: `switch-on`, `switch-off`, `start`.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The forms' token against cross-site requests.
    pub csrf: &'a str,
    /// The client's id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The console's own redirect URI.
    pub redirect_uri: &'a str,
    /// Whether the client has it.
    pub on: bool,
    /// The claims of the ID token and of the access token, and what UserInfo says, as JSON.
    pub claims: Option<[&'a str; 3]>,
    /// Why there are none.
    pub problem: Option<TrialProblem<'a>>,
}

/// Why a trial gave no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialProblem<'a> {
    /// The authorization endpoint answered with this error.
    Refused(&'a str),
    /// The code belongs to no trial of this browser, or was used.
    Unknown,
}

impl Pages {
    /// The clients that somebody may see.
    pub fn console_clients(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Clients<'_>) -> String {
        let heading = Words::of(chrome).clients_title();
        rendered(&ClientsPage { inside: Inside::new(self, chrome, shell, Place::Clients, heading, false), page })
    }

    /// The form for a new client.
    pub fn console_new_client(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, form: &ClientForm<'_>) -> String {
        let t = Words::of(chrome);
        let faulty = !form.faults.is_empty();
        let inside = Inside::new(self, chrome, shell, Place::Clients, t.client_new_title(), faulty);
        rendered(&NewClientPage { inside, form: FormWords::new(t, form, true) })
    }

    /// One client.
    pub fn console_client(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &ClientPage<'_>) -> String {
        let t = Words::of(chrome);
        let faulty = page.unsure || !page.form.faults.is_empty();
        let inside = Inside::new(self, chrome, shell, Place::Clients, escaped(page.name), faulty);
        let secrets = page.secrets.iter().map(|secret| secret_words(t, secret)).collect();
        let snippets = Library::ALL.into_iter().filter_map(|library| Snippet::of(library, page)).collect();
        let form = FormWords::new(t, &page.form, false);
        rendered(&OneClientPage { inside, page, form, secrets, snippets, since: moment(t, page.created_at) })
    }

    /// The page on which a client is tried.
    pub fn console_trial(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Trial<'_>) -> String {
        let t = Words::of(chrome);
        let problem = page.problem.map(|problem| match problem {
            TrialProblem::Refused(error) => t.trial_refused(error),
            TrialProblem::Unknown => t.trial_unknown(),
        });
        let inside = Inside::new(self, chrome, shell, Place::Clients, t.trial_title(), problem.is_some());
        rendered(&TrialPage { inside, page, problem })
    }
}

fn secret_words(t: Words, secret: &ClientSecretLine) -> Markup {
    let made = moment(t, secret.created_at);
    match secret.expires_at {
        Some(end) => t.client_secret_until(moment(t, end), made),
        None => t.client_secret_since(made),
    }
}

/// A client's form in words.
pub(super) struct FormWords<'a> {
    form: &'a ClientForm<'a>,
    /// Whether the client is yet to be made, so that its type can be chosen.
    new: bool,
    name_wrong: Option<Markup>,
    description_wrong: Option<Markup>,
    redirect_wrong: Option<Markup>,
    logout_wrong: Option<Markup>,
    scopes: Vec<ScopeChoice>,
}

/// A scope that may be ticked.
struct ScopeChoice {
    name: &'static str,
    title: Markup,
    ticked: bool,
}

/// The words of each rule, for the script, with `#` for the line.
struct Rules<'a>(&'a Words);

impl Rules<'_> {
    fn words(&self) -> Vec<(&'static str, Markup)> {
        [
            ("long", UriFault::Long),
            ("characters", UriFault::Characters),
            ("absolute", UriFault::Absolute),
            ("wildcard", UriFault::Wildcard),
            ("fragment", UriFault::Fragment),
            ("user", UriFault::User),
            ("scheme", UriFault::Scheme),
            ("host", UriFault::Host),
        ]
        .map(|(name, fault)| (name, fault.words(*self.0, "#")))
        .into()
    }
}

impl<'a> FormWords<'a> {
    fn new(t: Words, form: &'a ClientForm<'a>, new: bool) -> Self {
        let fault = |field| form.faults.iter().find(|fault| fault.field == field);
        let uris = |field| match fault(field) {
            Some(ClientFault { uri: Some((fault, line)), .. }) => Some(fault.words(t, *line)),
            Some(ClientFault { uri: None, .. }) => Some(t.client_uris_wrong()),
            None => None,
        };
        let choice = |(name, title)| ScopeChoice { name, title, ticked: form.scopes.contains(&name) };
        Self {
            form,
            new,
            name_wrong: fault(ClientField::Name).map(|_| t.client_name_wrong()),
            description_wrong: fault(ClientField::Description).map(|_| t.client_description_wrong()),
            redirect_wrong: uris(ClientField::RedirectUris),
            logout_wrong: uris(ClientField::PostLogoutRedirectUris),
            scopes: [
                ("profile", t.scope_profile()),
                ("email", t.scope_email()),
                ("phone", t.scope_phone()),
                ("offline_access", t.scope_offline_access()),
            ]
            .map(choice)
            .into(),
        }
    }

    /// Whether the field is the first one to be put right.
    fn is_first(&self, field: ClientField) -> bool {
        self.form.faults.first().is_some_and(|fault| fault.field == field)
    }
}

#[derive(Template)]
#[template(path = "console/clients.html")]
struct ClientsPage<'a> {
    inside: Inside<'a>,
    page: &'a Clients<'a>,
}

#[derive(Template)]
#[template(path = "console/new_client.html")]
struct NewClientPage<'a> {
    inside: Inside<'a>,
    form: FormWords<'a>,
}

#[derive(Template)]
#[template(path = "console/client.html")]
struct OneClientPage<'a> {
    inside: Inside<'a>,
    page: &'a ClientPage<'a>,
    form: FormWords<'a>,
    secrets: Vec<Markup>,
    snippets: Vec<Snippet>,
    since: Markup,
}

#[derive(Template)]
#[template(path = "console/trial.html")]
struct TrialPage<'a> {
    inside: Inside<'a>,
    page: &'a Trial<'a>,
    problem: Option<Markup>,
}
