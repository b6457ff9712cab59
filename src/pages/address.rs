//! Pages for verifying, changing and restoring a user's e-mail address.

use askama::Template;

use super::inside::{Inside, MenuEntry};
use super::words::Markup;
use crate::inside::Frame;

/// Page of the account's address.
///
/// Its forms send `csrf` and one of `verify` (requests a code), `code` (a typed code) and `cancel`.
#[derive(Template)]
#[template(path = "account/address.html")]
pub struct AddressPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// `None` if the account has no address.
    pub address: Option<&'a str>,
    pub verified: bool,
    pub waiting: Option<WaitingCode<'a>>,
    pub problem: Option<AddressProblem>,
}

/// Mailed code that the user must type in this browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingCode<'a> {
    /// A code was sent to this address of the account.
    OfAddress(&'a str),
    /// A code was sent to this new address, which will become the account's address.
    OfNewAddress(&'a str),
}

impl WaitingCode<'_> {
    const fn is_of_address(self) -> bool {
        matches!(self, Self::OfAddress(_))
    }
}

/// Reason why an address is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressProblem {
    WrongCode,
    /// No code is pending in this browser, or it has expired.
    Over,
    /// Too many codes were sent.
    TooMany,
    /// The outbox is full.
    Busy,
    /// Mail servers do not accept the address.
    Undeliverable,
    /// Another user has taken the address meanwhile.
    Taken,
}

/// Page for changing or adding the address. Its form sends `csrf` and `address`.
#[derive(Template)]
#[template(path = "account/new_address.html")]
pub struct NewAddressPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Current address. `None` if the account has no address.
    pub address: Option<&'a str>,
    pub typed: &'a str,
    /// Domains that users may choose, separated by commas. Empty if every domain is permitted.
    pub domains: &'a str,
    pub problem: Option<NewAddressProblem>,
}

/// Reason why no code is sent to a new address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewAddressProblem {
    /// Mail servers do not accept an address of this form.
    Malformed,
    /// The part before the `@` is not ASCII, which many mail servers do not accept.
    NotAscii,
    /// Users may not choose an address at this domain.
    Domain,
    Unchanged,
    TooMany,
    Busy,
}

impl AddressPage<'_> {
    fn blames_code(&self) -> bool {
        self.problem == Some(AddressProblem::WrongCode)
    }

    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            AddressProblem::WrongCode => t.address_wrong_code(),
            AddressProblem::Over => t.address_over(),
            AddressProblem::TooMany => t.address_too_many(),
            AddressProblem::Busy => t.address_busy(),
            AddressProblem::Undeliverable => t.address_undeliverable(),
            AddressProblem::Taken => t.address_taken(),
        })
    }
}

impl NewAddressPage<'_> {
    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        if self.address.is_some() { t.new_address_title() } else { t.new_address_title_added() }
    }

    fn blames_address(&self) -> bool {
        use NewAddressProblem::{Domain, Malformed, NotAscii, Unchanged};
        matches!(self.problem, Some(Malformed | NotAscii | Domain | Unchanged))
    }

    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            NewAddressProblem::Malformed => t.new_address_malformed(),
            NewAddressProblem::NotAscii => t.new_address_not_ascii(),
            NewAddressProblem::Domain => t.new_address_domain(self.domains),
            NewAddressProblem::Unchanged => t.new_address_unchanged(),
            NewAddressProblem::TooMany => t.address_too_many(),
            NewAddressProblem::Busy => t.address_busy(),
        })
    }
}

/// Page that asks for confirmation before a change of address is undone. Its form sends `csrf` and
/// `undo-submit`.
#[derive(Template)]
#[template(path = "undo.html")]
pub struct UndoPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Address to restore, partly hidden.
    pub old: &'a str,
    /// Current address of the account, partly hidden.
    pub new: &'a str,
}

/// Page with the result of undoing a change of address, and the next steps.
#[derive(Template)]
#[template(path = "undone.html")]
pub struct UndonePage<'a> {
    pub frame: Frame<'a>,
    pub outcome: UndoOutcome,
    /// Names of second factors that were added shortly before the change or after it.
    pub added: &'a [String],
    pub sign_in: &'a str,
}

/// Next step of a user whose address was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The user opens the reset link that was mailed.
    ResetMailed,
    /// The user signs in with a passkey, because the account has no password.
    Passkey,
    /// The user asks an administrator, because no mail can be sent for setting a password.
    AskAdministrator,
    /// The account is closed, because a passkey was added that may be an attacker's.
    Closed,
    /// The user asks an administrator, because another user has the address.
    Taken,
}

impl UndonePage<'_> {
    fn lead(&self) -> Markup {
        let t = self.frame.t;
        match self.outcome {
            UndoOutcome::Taken => t.undone_taken(),
            UndoOutcome::Closed => t.undone_closed(),
            UndoOutcome::ResetMailed | UndoOutcome::Passkey | UndoOutcome::AskAdministrator => t.undone_lead(),
        }
    }

    fn next(&self) -> Markup {
        let t = self.frame.t;
        match self.outcome {
            UndoOutcome::ResetMailed => t.undone_reset(),
            UndoOutcome::Passkey => t.undone_passkey(),
            UndoOutcome::AskAdministrator | UndoOutcome::Closed | UndoOutcome::Taken => t.undone_administrator(),
        }
    }

    fn may_sign_in(&self) -> bool {
        matches!(self.outcome, UndoOutcome::ResetMailed | UndoOutcome::Passkey)
    }
}
