//! What was mailed to a person and opens something: reset links, an invitation, a verification code, links that take a change
//! of address back. One record a person. It has hashes only, so whoever reads the store opens nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::language::Language;
use crate::domain::secret::{Secret, SecretHash, from_base64url};
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Subject, User};

/// How long a reset link is good.
pub const RESET_LIFE: Duration = Duration::from_mins(30);

/// How long an invitation is good.
pub const INVITATION_LIFE: Duration = Duration::from_hours(7 * 24);

/// How long a verification code is good.
pub const CODE_LIFE: Duration = Duration::from_mins(15);

/// How long a change of address can be taken back from the old address.
pub const UNDO_LIFE: Duration = Duration::from_hours(14 * 24);

/// Wrong codes after which a verification is over.
pub const MOST_CODE_TRIES: u32 = 5;

/// Digits of a verification code.
pub const CODE_DIGITS: usize = 8;

/// Reset links that are good at the same time. Mails overtake each other: the last but one may be the one that is opened.
const MOST_RESETS: usize = 2;

/// Changes of address that can be taken back at the same time: a thief who changes it twice must not push out the first.
const MOST_UNDOS: usize = 5;

/// Random bytes of a link's token: nobody guesses it.
pub const LINK_BYTES: usize = 24;

/// What a link's token says: whose it is, and what must be the hash that was kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkToken {
    pub subject: Subject,
    pub hash: SecretHash,
}

impl LinkToken {
    /// A new one for this person, and its text, which is kept nowhere but in the sealed mail.
    pub fn new(subject: Subject, random: [u8; LINK_BYTES]) -> (Self, Secret) {
        let token = Secret::from_random(&[&subject.as_bytes()[..], &random].concat());
        (Self { subject, hash: token.hash() }, token)
    }

    /// Reads a token as it comes in an address. Whether it is one that was given out, the record of its person says.
    pub fn parse(token: &str) -> Option<Self> {
        let bytes = from_base64url(token).filter(|bytes| bytes.len() == 16 + LINK_BYTES)?;
        let subject = Subject::from_bytes(*bytes.first_chunk()?);
        Some(Self { subject, hash: SecretHash::of(token.as_bytes()) })
    }
}

/// What an account was when something was mailed for it. A link is worth nothing once password or address are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountMark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretHash>,
    pub email: SecretHash,
}

impl AccountMark {
    pub fn of(user: &User) -> Self {
        let password = user.password.as_ref().map(|hash| SecretHash::of(hash.as_str().as_bytes()));
        Self { password, email: user.email.lookup_key() }
    }
}

/// A link by which somebody sets another password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetLink {
    pub hash: SecretHash,
    pub account: AccountMark,
    pub expires_at: UnixTime,
}

/// What somebody was invited by. It stays after it was accepted, for the list of people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    pub hash: SecretHash,
    pub account: AccountMark,
    pub sent_at: UnixTime,
    pub expires_at: UnixTime,
    /// The application to go to afterwards, by its name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Who invited: an administrator. None from the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inviter: Option<Subject>,
    /// Of the mail, where another one than the configuration's was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<UnixTime>,
}

impl Invitation {
    /// One that is sent now.
    pub fn new(user: &User, hash: SecretHash, app: Option<String>, inviter: Option<Subject>, now: UnixTime) -> Self {
        let expires_at = now.plus(INVITATION_LIFE);
        let account = AccountMark::of(user);
        Self { hash, account, sent_at: now, expires_at, app, inviter, language: None, accepted_at: None }
    }

    pub fn state(&self, now: UnixTime) -> InvitationState {
        match self.accepted_at {
            Some(_) => InvitationState::Accepted,
            None if now < self.expires_at => InvitationState::Invited,
            None => InvitationState::Expired,
        }
    }
}

/// What has become of an invitation. One that was withdrawn leaves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvitationState {
    /// The link was sent and is good.
    Invited,
    Accepted,
    Expired,
}

/// An address that is being proven by a code, in the browser that began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingVerification {
    /// A keyed hash: eight digits are soon tried out.
    pub code: SecretHash,
    /// Of the session in which it was begun.
    pub session: SecretHash,
    /// The address that is to take the place of the account's; its own where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_address: Option<Email>,
    pub account: AccountMark,
    /// Wrong codes so far.
    pub failures: u32,
    pub expires_at: UnixTime,
}

/// What comes of a code that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeVerdict {
    /// The address is proven. `new_address`: see [`PendingVerification`].
    Right {
        new_address: Option<Email>,
    },
    Wrong,
    /// None is waited for here, or not any more.
    Over,
}

/// A link that takes a change of address back, in the hands of whoever reads the old address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressUndo {
    pub hash: SecretHash,
    pub address: Email,
    /// Whether the old address was proven.
    pub verified: bool,
    /// When the address was changed. Unknown where an earlier version of the program wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<UnixTime>,
    pub expires_at: UnixTime,
}

impl AddressUndo {
    /// One of a change that is made now; `user` has the old address yet.
    pub fn new(hash: SecretHash, user: &User, now: UnixTime) -> Self {
        let (address, verified) = (user.email.clone(), user.email_verified);
        Self { hash, address, verified, changed_at: Some(now), expires_at: now.plus(UNDO_LIFE) }
    }

    /// Whether something that was added at `at` came after the change, or less than `margin` before it.
    pub fn is_after(&self, at: UnixTime, margin: Duration) -> bool {
        match self.changed_at {
            Some(changed_at) => at.plus(margin) >= changed_at,
            None => at.plus(UNDO_LIFE + margin) >= self.expires_at,
        }
    }
}

/// All of them of one person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountLinks {
    pub subject: Subject,
    /// The newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resets: Vec<ResetLink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<Invitation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<PendingVerification>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undos: Vec<AddressUndo>,
}

impl AccountLinks {
    pub const fn none(subject: Subject) -> Self {
        Self { subject, resets: Vec::new(), invitation: None, verification: None, undos: Vec::new() }
    }

    /// With another reset link; the oldest gives way.
    pub fn add_reset(&mut self, link: ResetLink, now: UnixTime) {
        self.resets.retain(|known| known.expires_at > now);
        self.resets.push(link);
        let superfluous = self.resets.len().saturating_sub(MOST_RESETS);
        self.resets.drain(..superfluous);
    }

    /// The reset link of this hash, while it is good for the account as it is now.
    pub fn reset(&self, hash: SecretHash, user: &User, now: UnixTime) -> Option<&ResetLink> {
        let account = AccountMark::of(user);
        let good = |link: &&ResetLink| link.hash == hash && link.account == account && now < link.expires_at;
        self.resets.iter().find(good).filter(|_| user.is_enabled())
    }

    /// The invitation of this hash, while it is good.
    pub fn open_invitation(&self, hash: SecretHash, user: &User, now: UnixTime) -> Option<&Invitation> {
        let account = AccountMark::of(user);
        let good = |invitation: &&Invitation| {
            invitation.hash == hash
                && invitation.accepted_at.is_none()
                && invitation.account == account
                && now < invitation.expires_at
        };
        self.invitation.as_ref().filter(good).filter(|_| user.is_enabled())
    }

    /// The verification that was begun in this session, while its code is good for the account as it is now.
    pub fn open_verification(&self, session: SecretHash, user: &User, now: UnixTime) -> Option<&PendingVerification> {
        let account = AccountMark::of(user);
        let open = |pending: &&PendingVerification| {
            pending.session == session
                && pending.account == account
                && pending.failures < MOST_CODE_TRIES
                && now < pending.expires_at
        };
        self.verification.as_ref().filter(open).filter(|_| user.is_enabled())
    }

    /// Takes a code that was typed in this session. A right one is used up; a wrong one counts.
    pub fn take_code(&mut self, code: SecretHash, session: SecretHash, user: &User, now: UnixTime) -> CodeVerdict {
        let Some(pending) = self.open_verification(session, user, now) else { return CodeVerdict::Over };
        if pending.code == code {
            let new_address = self.verification.take().and_then(|pending| pending.new_address);
            return CodeVerdict::Right { new_address };
        }
        let Some(pending) = &mut self.verification else { return CodeVerdict::Over };
        pending.failures += 1;
        if pending.failures < MOST_CODE_TRIES {
            return CodeVerdict::Wrong;
        }
        self.verification = None;
        CodeVerdict::Over
    }

    /// Adds a link that takes a change of address back. It expires no later than the links before it: the first change may
    /// be a thief's, and the owner's next change would hand the thief a link that outlives the owner's own. Where there are
    /// too many, the oldest stays and the one before the newest gives way.
    pub fn add_undo(&mut self, mut undo: AddressUndo, now: UnixTime) {
        self.undos.retain(|known| known.expires_at > now);
        let earliest = self.undos.iter().map(|known| known.expires_at).min();
        undo.expires_at = earliest.map_or(undo.expires_at, |earliest| earliest.min(undo.expires_at));
        if self.undos.len() == MOST_UNDOS {
            self.undos.pop();
        }
        self.undos.push(undo);
    }

    /// Whether the account returns to an address that it had, from which a change can still be taken back. Drops the link
    /// of that address and those after it: they would undo the return.
    pub fn return_to(&mut self, address: &Email, now: UnixTime) -> bool {
        self.undos.retain(|known| known.expires_at > now);
        let known = self.undos.iter().position(|undo| undo.address.lookup_key() == address.lookup_key());
        if let Some(at) = known {
            self.undos.truncate(at);
        }
        known.is_some()
    }

    pub fn undo(&self, hash: SecretHash, now: UnixTime) -> Option<&AddressUndo> {
        self.undos.iter().find(|undo| undo.hash == hash && now < undo.expires_at)
    }

    /// Without the link of this hash and those that followed it: what they would bring back came after what it brings back.
    pub fn drop_undos_from(&mut self, hash: SecretHash) {
        if let Some(at) = self.undos.iter().position(|undo| undo.hash == hash) {
            self.undos.truncate(at);
        }
    }

    /// Takes everything back that would open the account: its access was taken away, or its credentials were changed. What
    /// brings an old address back stays, or a thief would be rid of it by signing out everywhere. An invitation that was
    /// accepted stays as what it is.
    pub fn take_back(&mut self) {
        self.resets.clear();
        self.verification = None;
        self.invitation = self.invitation.take().filter(|invitation| invitation.accepted_at.is_some());
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::none(self.subject)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::user::{PasswordHash, UserState};

    fn anna() -> User {
        User {
            sub: Subject::from_random([1; 16]),
            email: Email::parse("anna@example.test").unwrap(),
            username: None,
            email_verified: true,
            name: "Anna".to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
            password: Some(PasswordHash::new("$argon2id$1".to_owned())),
            state: UserState::Enabled,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn hash(number: u8) -> SecretHash {
        SecretHash::of(&[number])
    }

    fn with_resets(numbers: &[u8]) -> AccountLinks {
        let mut links = AccountLinks::none(anna().sub);
        for &number in numbers {
            let link = ResetLink { hash: hash(number), account: AccountMark::of(&anna()), expires_at: at(100) };
            links.add_reset(link, at(1));
        }
        links
    }

    #[test]
    fn a_token_names_its_person_and_is_read_back() {
        let (link, token) = LinkToken::new(anna().sub, [7; LINK_BYTES]);
        assert_eq!(token.expose().len(), 54);
        assert_eq!(LinkToken::parse(token.expose()), Some(link.clone()));
        assert_eq!(link.subject, anna().sub);
        let token = token.expose();
        for wrong in ["", "AAAA", &token[1..], &format!("{token}="), &format!("{token}A"), &format!("{token}AAAA")] {
            assert_eq!(LinkToken::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_the_reset_links_the_last_two_are_good() {
        let links = with_resets(&[1, 2, 3]);
        let good: Vec<u8> = (1..4).filter(|number| links.reset(hash(*number), &anna(), at(99)).is_some()).collect();
        assert_eq!(good, [2, 3]);
        assert!(links.reset(hash(3), &anna(), at(100)).is_none());
    }

    #[test]
    fn a_link_is_worth_nothing_once_the_account_is_another() {
        let links = with_resets(&[1]);
        let changed = User { password: Some(PasswordHash::new("$argon2id$2".to_owned())), ..anna() };
        let moved = User { email: Email::parse("a@example.test").unwrap(), ..anna() };
        let disabled = User { state: UserState::Disabled, ..anna() };
        for user in [changed, moved, disabled] {
            assert!(links.reset(hash(1), &user, at(2)).is_none());
        }
        let mut taken_back = links;
        taken_back.take_back();
        assert!(taken_back.is_empty());
    }

    #[test]
    fn an_invitation_is_open_until_it_is_accepted_expires_or_the_account_is_another() {
        let invited = User { password: None, email_verified: false, ..anna() };
        let with = |invitation| AccountLinks { invitation: Some(invitation), ..AccountLinks::none(invited.sub) };
        let invitation = Invitation::new(&invited, hash(1), None, None, at(10));
        let last = at(10).plus(INVITATION_LIFE).seconds() - 1;
        assert_eq!(invitation.state(at(last)), InvitationState::Invited);
        assert_eq!(invitation.state(at(last + 1)), InvitationState::Expired);
        let links = with(invitation.clone());
        assert!(links.open_invitation(hash(1), &invited, at(last)).is_some());
        assert!(links.open_invitation(hash(1), &invited, at(last + 1)).is_none());
        assert!(links.open_invitation(hash(2), &invited, at(11)).is_none());
        let moved = User { email: Email::parse("a@example.test").unwrap(), ..invited.clone() };
        let disabled = User { state: UserState::Disabled, ..invited.clone() };
        for user in [anna(), moved, disabled] {
            assert!(links.open_invitation(hash(1), &user, at(11)).is_none());
        }
        let accepted = Invitation { accepted_at: Some(at(12)), ..invitation };
        assert_eq!(accepted.state(at(last + 1)), InvitationState::Accepted);
        let mut accepted = with(accepted);
        assert!(accepted.open_invitation(hash(1), &invited, at(13)).is_none());
        accepted.take_back();
        assert!(!accepted.is_empty(), "it says when somebody came");
        let mut open = links;
        open.take_back();
        assert!(open.is_empty());
    }

    #[test]
    fn a_code_is_good_once_in_its_session_and_for_five_tries() {
        let begun = |failures| AccountLinks {
            verification: Some(PendingVerification {
                code: hash(1),
                session: hash(7),
                new_address: None,
                account: AccountMark::of(&anna()),
                failures,
                expires_at: at(100),
            }),
            ..AccountLinks::none(anna().sub)
        };
        let right = CodeVerdict::Right { new_address: None };
        let mut links = begun(0);
        assert_eq!(links.take_code(hash(1), hash(7), &anna(), at(99)), right);
        assert_eq!(links.take_code(hash(1), hash(7), &anna(), at(99)), CodeVerdict::Over);
        let elsewhere = begun(0).take_code(hash(1), hash(8), &anna(), at(99));
        let late = begun(0).take_code(hash(1), hash(7), &anna(), at(100));
        let changed = User { password: None, ..anna() };
        let of_another = begun(0).take_code(hash(1), hash(7), &changed, at(99));
        assert_eq!([elsewhere, late, of_another], [CodeVerdict::Over, CodeVerdict::Over, CodeVerdict::Over]);
        let mut links = begun(0);
        // Whoever types it elsewhere uses up no try.
        assert_eq!(links.take_code(hash(2), hash(8), &anna(), at(99)), CodeVerdict::Over);
        for _ in 0..4 {
            assert_eq!(links.take_code(hash(2), hash(7), &anna(), at(99)), CodeVerdict::Wrong);
        }
        assert_eq!(links.clone().take_code(hash(1), hash(7), &anna(), at(99)), right);
        assert_eq!(links.take_code(hash(2), hash(7), &anna(), at(99)), CodeVerdict::Over);
        assert_eq!(links.take_code(hash(1), hash(7), &anna(), at(99)), CodeVerdict::Over);
    }

    fn undo(number: u8, expires_at: u64) -> AddressUndo {
        let address = Email::parse(&format!("{number}@example.test")).unwrap();
        AddressUndo { address, expires_at: at(expires_at), ..AddressUndo::new(hash(number), &anna(), at(1)) }
    }

    #[test]
    fn no_undo_link_outlives_an_earlier_one() {
        let mut links = AccountLinks::none(anna().sub);
        links.add_undo(undo(1, 100), at(1));
        links.add_undo(undo(2, 150), at(50));
        links.add_undo(undo(3, 90), at(50));
        let ends: Vec<u64> = links.undos.iter().map(|undo| undo.expires_at.seconds()).collect();
        assert_eq!(ends, [100, 100, 90]);
        links.add_undo(undo(4, 250), at(120));
        assert_eq!(links.undos.last().unwrap().expires_at, at(250), "the others are over");
    }

    #[test]
    fn a_return_to_an_earlier_address_ends_its_link_and_the_later_ones() {
        let with = |numbers: &[u8]| {
            let mut links = AccountLinks::none(anna().sub);
            for number in numbers {
                links.add_undo(undo(*number, 100), at(1));
            }
            links
        };
        let address = |text: &str| Email::parse(text).unwrap();
        let mut links = with(&[1, 2, 3]);
        assert!(links.return_to(&address("2@EXAMPLE.test"), at(2)));
        assert_eq!(links, with(&[1]));
        assert!(!links.return_to(&address("3@example.test"), at(2)));
        assert_eq!(links, with(&[1]));
        assert!(!links.return_to(&address("1@example.test"), at(100)), "it can be taken back no more");
    }

    #[test]
    fn the_first_change_of_address_can_be_taken_back_however_many_follow() {
        let mut links = AccountLinks::none(anna().sub);
        for number in 0..20 {
            links.add_undo(undo(number, 100), at(1));
        }
        assert!(links.undo(hash(0), at(2)).is_some() && links.undo(hash(19), at(2)).is_some());
        assert_eq!(links.undos.len(), MOST_UNDOS);
        links.take_back();
        assert!(links.undo(hash(0), at(2)).is_some() && links.undo(hash(0), at(100)).is_none());
    }
}
