//! The pages about a person's address: it is proven, changed, and taken back.

use askama::Template;

use super::frame::Frame;
use super::inside::{Inside, MenuEntry};
use super::words::Markup;

/// The account's address. Its forms send `csrf` and one of `verify` (a code is wanted), `code` (one is typed) and `cancel`.
#[derive(Template)]
#[template(path = "account/address.html")]
pub struct AddressPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub address: &'a str,
    pub verified: bool,
    pub waiting: Option<WaitingCode<'a>>,
    pub problem: Option<AddressProblem>,
}

/// A code that this browser waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingCode<'a> {
    OfAddress,
    /// Of another address, which is to be the account's.
    OfNewAddress(&'a str),
}

/// Why an address is not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressProblem {
    WrongCode,
    /// No code is waited for in this browser, or not any more.
    Over,
    /// Too many codes were sent.
    TooMany,
    /// The outbox is full.
    Busy,
    /// Mail servers do not take the address.
    Undeliverable,
    /// Somebody else has it by now.
    Taken,
}

/// The change of the address. Its form sends `csrf` and `address`.
#[derive(Template)]
#[template(path = "account/new_address.html")]
pub struct NewAddressPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub address: &'a str,
    pub typed: &'a str,
    /// The domains that users may choose, separated by commas; empty for any.
    pub domains: &'a str,
    pub problem: Option<NewAddressProblem>,
}

/// Why no code is sent to a new address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewAddressProblem {
    /// It is no address that mail servers take.
    Malformed,
    /// There are letters beyond ASCII before the `@`, which many mail servers do not take.
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

/// Asks whether a change of address is to be taken back. Its form sends `csrf` and `undo-submit`.
#[derive(Template)]
#[template(path = "undo.html")]
pub struct UndoPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// The address that would come back, partly hidden.
    pub old: &'a str,
    /// The one that is the account's now, likewise.
    pub new: &'a str,
}

/// What came of it, and what to do now.
#[derive(Template)]
#[template(path = "undone.html")]
pub struct UndonePage<'a> {
    pub frame: Frame<'a>,
    pub outcome: UndoOutcome,
    /// The names of second steps that were added around the change or since.
    pub added: &'a [String],
    pub sign_in: &'a str,
}

/// How somebody gets back in whose address came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// By the reset link that was mailed.
    ResetMailed,
    /// With a passkey; there is no password.
    Passkey,
    /// There is no mail with which to set a password.
    AskAdministrator,
    /// The account is closed: a passkey was added that may be somebody else's.
    Closed,
    /// The same, because somebody else has the address.
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
