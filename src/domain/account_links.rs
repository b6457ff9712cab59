//! Links and codes that are sent to a user: reset links, an invitation, a verification code, and
//! undo links for changes of address. Also the link to a source that the user has begun to add.
//!
//! Each user has one record. It contains only hashes, so an attacker who reads the store cannot use
//! the links and codes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::language::Language;
use crate::pending_link::{LinkStep, PendingLink};
use crate::secret::{Secret, SecretHash, from_base64url};
use crate::source::SourceName;
use crate::time::UnixTime;
use crate::upstream_trip::BegunTrip;
use crate::user::{Email, Subject, User};

/// Validity of a reset link.
pub const RESET_LIFE: Duration = Duration::from_mins(30);

/// Validity of an invitation.
pub const INVITATION_LIFE: Duration = Duration::from_hours(7 * 24);

/// Validity of a verification code.
pub const CODE_LIFE: Duration = Duration::from_mins(15);

/// Time during which the owner of the old address can undo a change of address.
pub const UNDO_LIFE: Duration = Duration::from_hours(14 * 24);

/// Number of wrong codes after which a verification ends.
pub(crate) const MAX_CODE_TRIES: u32 = 5;

/// Number of digits of a verification code.
pub const CODE_DIGITS: usize = 8;

/// Maximum number of valid reset links. E-mails may arrive out of order, so the link that the user
/// opens may be the second newest.
const MAX_RESETS: usize = 2;

/// Maximum number of undo links. Each change of address adds one link.
const MAX_UNDOS: usize = 5;

/// Number of random bytes in a link's token.
pub const LINK_BYTES: usize = 24;

/// Parsed token of a link: the user, and the hash to compare with the stored hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkToken {
    pub subject: Subject,
    pub hash: SecretHash,
}

impl LinkToken {
    /// Creates a token for this user and returns it with its text. The text is stored only in the
    /// encrypted e-mail.
    pub fn new(subject: Subject, random: [u8; LINK_BYTES]) -> (Self, Secret) {
        let token = Secret::from_random(&[&subject.as_bytes()[..], &random].concat());
        (Self { subject, hash: token.hash() }, token)
    }

    /// Parses a token from a URL. Only the user's record shows whether the token was issued.
    pub fn parse(token: &str) -> Option<Self> {
        let bytes = from_base64url(token).filter(|bytes| bytes.len() == 16 + LINK_BYTES)?;
        let subject = Subject::from_bytes(*bytes.first_chunk()?);
        Some(Self { subject, hash: SecretHash::for_secret(token.as_bytes()) })
    }
}

/// Password and address of an account when a link or code was sent. The link or code becomes
/// invalid when the password or the address changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountMark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretHash>,
    /// `None` if the account has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<SecretHash>,
}

impl AccountMark {
    /// Returns the current password and address of the user.
    pub fn from_user(user: &User) -> Self {
        let password = user.password.as_ref().map(|hash| SecretHash::for_secret(hash.as_str().as_bytes()));
        Self { password, email: user.email.as_ref().map(Email::lookup_key) }
    }
}

/// Link to a page where the user sets a new password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetLink {
    pub hash: SecretHash,
    pub account: AccountMark,
    pub expires_at: UnixTime,
}

/// Invitation of a user. An accepted invitation stays in the record, so that the list of users can
/// show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    pub hash: SecretHash,
    pub account: AccountMark,
    pub sent_at: UnixTime,
    pub expires_at: UnixTime,
    /// Application to open after the invitation was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Administrator who invited the user. `None` if the command line created the invitation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inviter: Option<Subject>,
    /// Language of the e-mail, if it differs from the configured language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<UnixTime>,
}

impl Invitation {
    /// Creates an invitation that is sent at `now`.
    pub fn new(user: &User, hash: SecretHash, app: Option<String>, inviter: Option<Subject>, now: UnixTime) -> Self {
        let expires_at = now.plus(INVITATION_LIFE);
        let account = AccountMark::from_user(user);
        Self { hash, account, sent_at: now, expires_at, app, inviter, language: None, accepted_at: None }
    }

    /// Returns the state of the invitation at `now`.
    pub fn state(&self, now: UnixTime) -> InvitationState {
        match self.accepted_at {
            Some(_) => InvitationState::Accepted,
            None if now < self.expires_at => InvitationState::Invited,
            None => InvitationState::Expired,
        }
    }
}

/// State of an invitation. Withdrawn invitations are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvitationState {
    /// The link was sent and is valid.
    Invited,
    Accepted,
    Expired,
}

/// Pending verification of an address with a code. Only the session in which the verification began
/// can complete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingVerification {
    /// Keyed hash of the code. A code has eight digits, so an unkeyed hash could be inverted by
    /// brute force.
    pub code: SecretHash,
    /// Hash of the session in which the verification began.
    pub session: SecretHash,
    /// Address to change to. `None` if the account's current address is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_address: Option<Email>,
    pub account: AccountMark,
    /// Number of wrong codes.
    pub failures: u32,
    pub expires_at: UnixTime,
}

/// Result of checking a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeVerdict {
    /// The code is correct. See [`PendingVerification::new_address`].
    Right {
        new_address: Option<Email>,
    },
    Wrong,
    /// No verification is pending in this session, or the verification has ended.
    Over,
}

/// Link that undoes a change of address. It is sent to the old address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressUndo {
    pub hash: SecretHash,
    pub address: Email,
    /// Whether the old address was verified.
    pub verified: bool,
    /// When the address was changed. Unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<UnixTime>,
    pub expires_at: UnixTime,
}

impl AddressUndo {
    /// Creates an undo link for a change of address at `now`. `user` must still have the old
    /// address. Returns `None` if the user has no address.
    pub fn new(hash: SecretHash, user: &User, now: UnixTime) -> Option<Self> {
        let address = user.email.clone()?;
        let verified = user.email_verified;
        Some(Self { hash, address, verified, changed_at: Some(now), expires_at: now.plus(UNDO_LIFE) })
    }

    fn is_for(&self, address: &Email) -> bool {
        self.address.lookup_key() == address.lookup_key()
    }

    /// Returns whether a factor that was added at `at` is newer than the change of address, or at
    /// most `margin` older.
    pub fn is_after(&self, at: UnixTime, margin: Duration) -> bool {
        match self.changed_at {
            Some(changed_at) => at.plus(margin) >= changed_at,
            None => at.plus(UNDO_LIFE + margin) >= self.expires_at,
        }
    }
}

/// All links and codes of one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountLinks {
    pub subject: Subject,
    /// Reset links, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resets: Vec<ResetLink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<Invitation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<PendingVerification>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undos: Vec<AddressUndo>,
    /// Link to a source that the user has begun to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<PendingLink>,
}

impl AccountLinks {
    /// Creates a record without links and codes.
    pub const fn none(subject: Subject) -> Self {
        Self { subject, resets: Vec::new(), invitation: None, verification: None, undos: Vec::new(), link: None }
    }

    /// Adds a reset link, and evicts the oldest if there are too many.
    pub fn add_reset(&mut self, link: ResetLink, now: UnixTime) {
        self.resets.retain(|known| known.expires_at > now);
        self.resets.push(link);
        let superfluous = self.resets.len().saturating_sub(MAX_RESETS);
        self.resets.drain(..superfluous);
    }

    /// Returns the reset link with this hash if it is valid for the current state of the account.
    pub fn reset(&self, hash: SecretHash, user: &User, now: UnixTime) -> Option<&ResetLink> {
        let account = AccountMark::from_user(user);
        let good = |link: &&ResetLink| link.hash == hash && link.account == account && now < link.expires_at;
        self.resets.iter().find(good).filter(|_| user.is_enabled())
    }

    /// Returns the invitation with this hash if it is valid.
    pub fn open_invitation(&self, hash: SecretHash, user: &User, now: UnixTime) -> Option<&Invitation> {
        let account = AccountMark::from_user(user);
        let good = |invitation: &&Invitation| {
            invitation.hash == hash
                && invitation.accepted_at.is_none()
                && invitation.account == account
                && now < invitation.expires_at
        };
        self.invitation.as_ref().filter(good).filter(|_| user.is_enabled())
    }

    /// Returns the verification that began in this session, if its code is still valid.
    pub fn open_verification(&self, session: SecretHash, user: &User, now: UnixTime) -> Option<&PendingVerification> {
        let account = AccountMark::from_user(user);
        let open = |pending: &&PendingVerification| {
            pending.session == session
                && pending.account == account
                && pending.failures < MAX_CODE_TRIES
                && now < pending.expires_at
        };
        self.verification.as_ref().filter(open).filter(|_| user.is_enabled())
    }

    /// Checks a code that the user typed in this session. A correct code is consumed. A wrong code
    /// is counted.
    pub fn take_code(&mut self, code: SecretHash, session: SecretHash, user: &User, now: UnixTime) -> CodeVerdict {
        let Some(pending) = self.open_verification(session, user, now) else { return CodeVerdict::Over };
        if pending.code == code {
            let new_address = self.verification.take().and_then(|pending| pending.new_address);
            return CodeVerdict::Right { new_address };
        }
        let Some(pending) = &mut self.verification else { return CodeVerdict::Over };
        pending.failures += 1;
        if pending.failures < MAX_CODE_TRIES {
            return CodeVerdict::Wrong;
        }
        self.verification = None;
        CodeVerdict::Over
    }

    /// Returns the link of the earliest change of address that can still be undone.
    ///
    /// Only the address of this link can undo changes. If an attacker made the first change, the
    /// attacker may own the later addresses.
    pub fn first_undo(&self, now: UnixTime) -> Option<&AddressUndo> {
        self.undos.iter().find(|undo| now < undo.expires_at)
    }

    /// Adds a link that undoes a change of address. Returns the address to send it to.
    ///
    /// If an earlier change can still be undone, the new link undoes that change too: it takes over
    /// the address and the expiry of the earlier link. If there are already too many links, the new
    /// link replaces the newest of them, so that the oldest is kept.
    pub fn add_undo(&mut self, mut undo: AddressUndo, now: UnixTime) -> Email {
        self.undos.retain(|known| known.expires_at > now);
        if let Some(first) = self.first_undo(now) {
            undo = AddressUndo { hash: undo.hash, ..first.clone() };
        }
        if self.undos.len() == MAX_UNDOS {
            self.undos.pop();
        }
        let address = undo.address.clone();
        self.undos.push(undo);
        address
    }

    /// Removes all undo links if `address` is the address before the earliest change, because then
    /// nothing is left to undo. Returns whether the links were removed.
    pub fn return_to(&mut self, address: &Email, now: UnixTime) -> bool {
        let is_return = self.first_undo(now).is_some_and(|first| first.is_for(address));
        if is_return {
            self.undos.clear();
        }
        is_return
    }

    /// Returns the undo link with this hash if it is valid.
    pub fn undo(&self, hash: SecretHash, now: UnixTime) -> Option<&AddressUndo> {
        let first = self.first_undo(now)?;
        self.undos.iter().find(|undo| undo.hash == hash && now < undo.expires_at && undo.is_for(&first.address))
    }

    /// Removes all undo links except the link with this hash.
    pub fn keep_only_undo(&mut self, hash: SecretHash) {
        self.undos.retain(|undo| undo.hash == hash);
    }

    /// Returns the link to a source that the user has begun to add in this session, if it is still
    /// valid.
    pub fn open_link(&self, session: SecretHash, user: &User, now: UnixTime) -> Option<&PendingLink> {
        self.link.as_ref().filter(|pending| pending.is_open(session, user, now))
    }

    /// Removes and returns the trip that an answer of this provider ends: see [`BegunTrip::is_of`].
    pub fn take_link_trip(
        &mut self,
        (source, state): (&SourceName, &str),
        session: SecretHash,
        user: &User,
        now: UnixTime,
    ) -> Option<BegunTrip> {
        let pending = self.open_link(session, user, now)?;
        let LinkStep::Begun(trip) = &pending.step else { return None };
        let trip = Some(trip.clone()).filter(|trip| trip.is_of(source, state))?;
        self.link = None;
        Some(trip)
    }

    /// Invalidates all links and codes that grant access. To be called after access was revoked or
    /// credentials were changed.
    ///
    /// Keeps the undo links. Otherwise an attacker could remove them by signing out everywhere.
    /// Keeps an accepted invitation for the list of users.
    pub fn take_back(&mut self) {
        self.resets.clear();
        self.verification = None;
        self.link = None;
        self.invitation = self.invitation.take().filter(|invitation| invitation.accepted_at.is_some());
    }

    /// Returns whether the record has no links and codes, so that it need not be stored.
    pub fn is_empty(&self) -> bool {
        *self == Self::none(self.subject)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::user::{ManagerDecisions, PasswordHash, UserState};

    fn anna() -> User {
        User {
            sub: Subject::from_random([1; 16]),
            email: Email::parse("anna@example.test"),
            username: None,
            email_verified: true,
            name: "Anna".to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
            password: Some(PasswordHash::new("$argon2id$1".to_owned())),
            source: None,
            state: UserState::Enabled,
            created_at: at(0),
            updated_at: at(0),
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn hash(number: u8) -> SecretHash {
        SecretHash::for_secret(&[number])
    }

    fn with_resets(numbers: &[u8]) -> AccountLinks {
        let mut links = AccountLinks::none(anna().sub);
        for &number in numbers {
            let link = ResetLink { hash: hash(number), account: AccountMark::from_user(&anna()), expires_at: at(100) };
            links.add_reset(link, at(1));
        }
        links
    }

    #[test]
    fn a_token_contains_its_user_and_can_be_parsed() {
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
    fn the_last_two_reset_links_are_valid() {
        let links = with_resets(&[1, 2, 3]);
        let good: Vec<u8> = (1..4).filter(|number| links.reset(hash(*number), &anna(), at(99)).is_some()).collect();
        assert_eq!(good, [2, 3]);
        assert!(links.reset(hash(3), &anna(), at(100)).is_none());
    }

    #[test]
    fn a_link_is_invalid_after_the_account_has_changed() {
        let links = with_resets(&[1]);
        let changed = User { password: Some(PasswordHash::new("$argon2id$2".to_owned())), ..anna() };
        let moved = User { email: Email::parse("a@example.test"), ..anna() };
        let disabled = User { state: UserState::Disabled, ..anna() };
        for user in [changed, moved, disabled] {
            assert!(links.reset(hash(1), &user, at(2)).is_none());
        }
        let mut taken_back = links;
        taken_back.take_back();
        assert!(taken_back.is_empty());
    }

    #[test]
    fn an_invitation_is_open_until_acceptance_expiry_or_an_account_change() {
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
        let moved = User { email: Email::parse("a@example.test"), ..invited.clone() };
        let disabled = User { state: UserState::Disabled, ..invited.clone() };
        for user in [anna(), moved, disabled] {
            assert!(links.open_invitation(hash(1), &user, at(11)).is_none());
        }
        let accepted = Invitation { accepted_at: Some(at(12)), ..invitation };
        assert_eq!(accepted.state(at(last + 1)), InvitationState::Accepted);
        let mut accepted = with(accepted);
        assert!(accepted.open_invitation(hash(1), &invited, at(13)).is_none());
        accepted.take_back();
        assert!(!accepted.is_empty(), "the record lost the accepted invitation");
        let mut open = links;
        open.take_back();
        assert!(open.is_empty());
    }

    #[test]
    fn a_code_is_valid_once_in_its_session_for_five_tries() {
        let begun = |failures| AccountLinks {
            verification: Some(PendingVerification {
                code: hash(1),
                session: hash(7),
                new_address: None,
                account: AccountMark::from_user(&anna()),
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
        // A code typed in another session does not count as an attempt.
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
        AddressUndo { address, expires_at: at(expires_at), ..AddressUndo::new(hash(number), &anna(), at(1)).unwrap() }
    }

    #[test]
    fn further_undo_links_are_for_the_first_address() {
        let mut links = AccountLinks::none(anna().sub);
        let first = undo(1, 100);
        assert_eq!(links.add_undo(first.clone(), at(1)), first.address);
        assert_eq!(links.add_undo(undo(2, 150), at(50)), first.address);
        assert_eq!(links.undos[1], AddressUndo { hash: hash(2), ..first });
        assert_eq!(links.add_undo(undo(3, 250), at(100)).as_str(), "3@example.test");
        assert_eq!(links.undos, [undo(3, 250)], "the others are over");
    }

    #[test]
    fn a_stored_link_of_a_later_address_is_not_valid() {
        let mut links = AccountLinks::none(anna().sub);
        links.undos = vec![undo(1, 100), undo(2, 100)];
        assert!(links.undo(hash(1), at(2)).is_some() && links.undo(hash(2), at(2)).is_none());
        links.keep_only_undo(hash(1));
        assert_eq!(links.undos, [undo(1, 100)]);
    }

    #[test]
    fn a_return_to_the_first_address_ends_its_links() {
        let mut links = AccountLinks::none(anna().sub);
        links.add_undo(undo(1, 100), at(1));
        links.add_undo(undo(2, 100), at(1));
        let address = |text: &str| Email::parse(text).unwrap();
        assert!(!links.return_to(&address("2@example.test"), at(2)));
        assert!(!links.return_to(&address("1@example.test"), at(100)), "the undo links have expired");
        assert_eq!(links.undos.len(), 2);
        assert!(links.return_to(&address("1@EXAMPLE.test"), at(2)));
        assert!(links.is_empty());
    }

    #[test]
    fn the_first_change_of_address_can_be_undone_after_later_changes() {
        let mut links = AccountLinks::none(anna().sub);
        for number in 0..20 {
            links.add_undo(undo(number, 100), at(1));
        }
        assert!(links.undo(hash(0), at(2)).is_some() && links.undo(hash(19), at(2)).is_some());
        assert_eq!(links.undos.len(), MAX_UNDOS);
        links.take_back();
        assert!(links.undo(hash(0), at(2)).is_some() && links.undo(hash(0), at(100)).is_none());
    }
}
