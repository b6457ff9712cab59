//! Invitations of users.
//!
//! An invitation is an account without a credential, with a link at which the user chooses a
//! credential. The link is mailed, or printed for the operator. So administrators do not choose
//! passwords for users.

use super::answer::{Answer, ShownSecret, UserAnswer};
use super::context::{CommandContext, CommandError, Mailing};
use super::user_settings::Invitee;
use crate::users;
use crate::users::{UserRef, faults, find_conflict, name_taken, with_membership};
use sealgate_core::state::Sealgate;
use sealgate_domain::account_links::{AccountLinks, Invitation, InvitationState, LinkToken};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::Factors;
use sealgate_domain::language::Language;
use sealgate_domain::mail::{INVITATION_PATH, Mail, MailId, MailKind, MailMessage, WaitingMail};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::{Email, Subject, User, UserState};
use sealgate_store::{AddOutcome, Committed};
use sealgate_system::clock::random;

pub(super) async fn invite(context: &CommandContext<'_>, invitee: Invitee) -> Result<Answer, CommandError> {
    let sender = if invitee.print_link { None } else { Some(InvitationSender::find(context, 1).await?) };
    let language = invitee.language;
    let (user, app) = new_user(context, invitee);
    let mut faults = faults(&user);
    if let Some(sender) = &sender {
        faults.extend(sender.faults(&user, app.as_deref()));
    }
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    if let Some(conflict) = find_conflict(context, &user).await? {
        return Err(conflict);
    }
    let (invitation, mail, link) = match &sender {
        Some(sender) => {
            let (invitation, mail) = sender.invitation(&user, app, language)?;
            (invitation, Some(mail), None)
        }
        None => printed_invitation(context, &user, app),
    };
    let links = AccountLinks { invitation: Some(invitation.clone()), ..AccountLinks::none(user.sub) };
    match context.store.add_invited(&[(user.clone(), links)], mail.as_slice()).await? {
        AddOutcome::Added => {}
        // Another command has added the user in the meantime.
        AddOutcome::Exists => {
            return Err(find_conflict(context, &user).await?.unwrap_or_else(|| name_taken(&user)));
        }
    }
    context.record(with_membership(context.event(AuditKind::UserCreated).for_subject(user.sub), &user)).await;
    record_sent(context, user.sub, link.is_some()).await;
    Ok(UserAnswer { invitation_link: link, ..answer_with(context, user, Some(&invitation)) }.into())
}

/// Creates the account of an invited user. The e-mail address is not verified, and the account has
/// no credential.
///
/// Also returns the application to open afterwards.
fn new_user(context: &CommandContext<'_>, invitee: Invitee) -> (User, Option<String>) {
    let Invitee { email, username, name, phone, picture, roles, groups, app, .. } = invitee;
    let now = context.clock.now();
    let user = User {
        sub: Subject::from_random(random(context.entropy)),
        email: Some(email),
        email_verified: false,
        username,
        name,
        phone_number: phone,
        picture,
        roles: roles.into_iter().collect(),
        groups: groups.into_iter().collect(),
        password: None,
        source: None,
        state: UserState::Enabled,
        created_at: now,
        updated_at: now,
        audit_filters: Vec::new(),
        by_manager: users::decisions(context),
    };
    (user, app)
}

/// Creates an invitation whose link is printed.
fn printed_invitation(
    context: &CommandContext<'_>,
    user: &User,
    app: Option<String>,
) -> (Invitation, Option<WaitingMail>, Option<ShownSecret>) {
    let (link, token) = LinkToken::new(user.sub, random(context.entropy));
    let invitation = Invitation::new(user, link.hash, app, None, context.clock.now());
    let address = Secret::new(format!("{}{INVITATION_PATH}?token={}", context.issuer, token.expose()));
    (invitation, None, Some(ShownSecret(address)))
}

async fn record_sent(context: &CommandContext<'_>, sub: Subject, is_printed: bool) {
    let event = context.event(AuditKind::InvitationSent).for_subject(sub);
    context.record(if is_printed { event.with_detail("link printed") } else { event }).await;
}

/// Sends or prints a new link to a user without a credential, whether or not the previous link is
/// still valid.
pub(super) async fn resend(
    context: &CommandContext<'_>,
    named: &UserRef,
    print_link: bool,
) -> Result<Answer, CommandError> {
    let sender = if print_link { None } else { Some(InvitationSender::find(context, 1).await?) };
    let invited_user = users::find(context, named).await?;
    let store = context.store;
    let (Some(user), links) =
        (store.user_record(invited_user.sub).await?, store.account_links(invited_user.sub).await?)
    else {
        return Err(users::absent(named));
    };
    // Errors name the user as the command did. The token of an API request may not read other names.
    if !user.value.is_enabled() {
        return Err(CommandError::invalid(format!("{named} is disabled; enable the account first")));
    }
    let factors = store.factors(invited_user.sub).await?.map(|factors| factors.value);
    if is_used(&user.value, factors.as_ref()) {
        let error = format!("{named} already has a password or a passkey and needs no invitation");
        return Err(CommandError::Exists(error));
    }
    if user.value.email.is_none() {
        return Err(CommandError::invalid(format!("{named} has no e-mail address; {}", needs_address(context))));
    }
    let before = links.as_ref().map_or_else(|| AccountLinks::none(invited_user.sub), |links| links.value.clone());
    let language = before.invitation.as_ref().and_then(|invitation| invitation.language);
    let app = before.invitation.as_ref().and_then(|invitation| invitation.app.clone());
    let (invitation, mail, link) = match &sender {
        Some(sender) => {
            // The application may have been removed from the configuration since.
            let app = app.filter(|app| sender.title(app).is_some());
            let (invitation, mail) = sender.invitation(&user.value, app, language)?;
            (invitation, Some(mail), None)
        }
        None => printed_invitation(context, &user.value, app),
    };
    let next = AccountLinks { invitation: Some(invitation.clone()), ..before };
    // Drop queued invitations, because their link is no longer valid.
    store.drop_mails_of(invited_user.sub, MailKind::Invitation).await?;
    let (user_pair, links_pair) = ((&user, &user.value), (links.as_ref(), &next));
    if store.put_user_and_links(user_pair, links_pair, mail.as_slice(), None).await? == Committed::Conflict {
        return Err(CommandError::invalid(format!(
            "the user {named} was changed at the same time; check the account and try again"
        )));
    }
    record_sent(context, invited_user.sub, link.is_some()).await;
    Ok(UserAnswer { invitation_link: link, ..answer_with(context, user.value, Some(&invitation)) }.into())
}

pub(super) async fn revoke(context: &CommandContext<'_>, named: &UserRef) -> Result<Answer, CommandError> {
    let user = users::find(context, named).await?;
    let withdrawn = context.store.change_account_links(user.sub, &[], |links| {
        let open = links.invitation.as_ref().is_some_and(|invitation| invitation.accepted_at.is_none());
        if open {
            links.invitation = None;
        }
        open
    });
    if !withdrawn.await? {
        return Err(CommandError::Absent(format!("{named} has no pending invitation")));
    }
    context.store.drop_mails_of(user.sub, MailKind::Invitation).await?;
    context.record(context.event(AuditKind::InvitationWithdrawn).for_subject(user.sub)).await;
    Ok(UserAnswer { invitation_withdrawn: Some(true), ..UserAnswer::from(user) }.into())
}

/// Returns whether the account has a credential.
fn is_used(user: &User, factors: Option<&Factors>) -> bool {
    user.has_password() || factors.is_some_and(|factors| !factors.keys.is_empty())
}

/// Returns the answer for a user, with the state of their invitation.
pub(super) async fn answer(context: &CommandContext<'_>, user: User) -> Result<UserAnswer, CommandError> {
    let links = context.store.account_links(user.sub).await?;
    let invitation = links.and_then(|links| links.value.invitation);
    Ok(answer_with(context, user, invitation.as_ref()))
}

fn answer_with(context: &CommandContext<'_>, user: User, invitation: Option<&Invitation>) -> UserAnswer {
    let state = invitation.map(|invitation| invitation.state(context.clock.now()));
    let is_open = state.is_some_and(|state| state != InvitationState::Accepted);
    UserAnswer {
        invitation: state,
        invitation_sent_at: invitation.map(|invitation| invitation.sent_at),
        invitation_expires_at: invitation.filter(|_| is_open).map(|invitation| invitation.expires_at),
        invitation_accepted_at: invitation.and_then(|invitation| invitation.accepted_at),
        invitation_app: invitation.and_then(|invitation| invitation.app.clone()),
        ..UserAnswer::from(user)
    }
}

/// Creator of invitations and their mails.
pub(super) struct InvitationSender<'a> {
    context: &'a CommandContext<'a>,
    sealgate: &'a Sealgate,
    /// Inviting administrator or user manager, and their name in mails. `None` on the command line.
    inviter: Option<(Subject, String)>,
}

impl<'a> InvitationSender<'a> {
    /// Returns a sender for this number of mails.
    ///
    /// # Errors
    /// If no server runs, mail is not configured, or the outbox lacks the capacity.
    pub(super) async fn find(context: &'a CommandContext<'a>, mails: usize) -> Result<Self, CommandError> {
        let sealgate = match context.mailing {
            Mailing::On(sealgate) => sealgate,
            Mailing::NoServer => {
                return Err(CommandError::invalid(
                    "invitations are sent by the server, which is not running; start the server, print the link with \
                     `user invite --print-link`, or give the password with `user add --password-stdin`",
                ));
            }
            Mailing::Off => {
                return Err(CommandError::invalid(context.advice(
                    "this server sends no mail, so it cannot invite users; configure [mail], and create a \
                      wrapping key with `sealgate key generate-wrapping-key` if the token has none; or print the \
                      link with `user invite --print-link`",
                    "this server sends no mail, so it cannot invite users; request the link instead, and send it \
                     to the user",
                )));
            }
        };
        if !sealgate.store.has_room_for_mail(mails) {
            return Err(CommandError::invalid(context.advice(
                "too many messages are queued; `sealgate mail list` shows them and the reason",
                "too many messages are queued; the list of messages has the reason",
            )));
        }
        let inviter = match context.actor {
            Actor::Administrator(subject) | Actor::UserManager(subject) => {
                context.store.user(subject).await?.map(|user| (subject, user.name))
            }
            _ => None,
        };
        Ok(Self { context, sealgate, inviter })
    }

    /// Returns the reasons why a user cannot be invited by mail, one line each.
    fn faults(&self, user: &User, app: Option<&str>) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(fault) = user.email.as_ref().and_then(mail_fault) {
            faults.push(fault.to_owned());
        }
        faults.extend(app.and_then(|app| self.app_fault(app)));
        faults
    }

    /// Returns the error if no application has this name.
    pub(super) fn app_fault(&self, app: &str) -> Option<String> {
        self.title(app).is_none().then(|| self.known_apps(&format!("no application has the name {app:?}")))
    }

    /// Appends the names of the applications to an error.
    pub(super) fn known_apps(&self, fault: &str) -> String {
        let apps: Vec<&str> = self.sealgate.config.apps.iter().map(|app| app.name.as_str()).collect();
        match apps.as_slice() {
            [] => format!("{fault}; the configuration has none"),
            apps => format!("{fault}; the configuration has {}", apps.join(", ")),
        }
    }

    /// Returns the maximum number of mails per minute.
    pub(super) fn per_minute(&self) -> u32 {
        self.sealgate.config.mail.as_ref().map_or(1, |mail| mail.per_minute)
    }

    /// Returns the language of a mail: the requested language, or the default language.
    pub(super) fn language(&self, requested_language: Option<Language>) -> Language {
        requested_language.unwrap_or(self.sealgate.config.pages.default_language)
    }

    /// Returns the display name of an application, if it exists.
    pub(super) fn title(&self, app: &str) -> Option<&'a str> {
        let known = self.sealgate.config.apps.iter().find(|known| known.name == app)?;
        Some(known.called())
    }

    /// Creates an invitation, and the mail with its link.
    pub(super) fn invitation(
        &self,
        user: &User,
        app: Option<String>,
        language: Option<Language>,
    ) -> Result<(Invitation, WaitingMail), CommandError> {
        let (link, token) = LinkToken::new(user.sub, random(self.context.entropy));
        let (inviter, inviter_name) = self.inviter.clone().unzip();
        let mail = self.mail(user, &token, inviter_name, app.as_deref(), self.language(language))?;
        let invitation = Invitation::new(user, link.hash, app, inviter, self.context.clock.now());
        Ok((Invitation { language, ..invitation }, mail))
    }

    fn mail(
        &self,
        user: &User,
        token: &Secret,
        inviter: Option<String>,
        app: Option<&str>,
        language: Language,
    ) -> Result<WaitingMail, CommandError> {
        let (entropy, now) = (self.context.entropy, self.context.clock.now());
        let to = user.email.clone().ok_or_else(|| CommandError::invalid(needs_address(self.context)))?;
        let app = app.and_then(|app| self.title(app)).map(str::to_owned);
        let mail = Mail::Invitation { token: token.expose().to_owned(), inviter, app };
        let id = MailId::from_bytes(random(entropy));
        let message = MailMessage { to: Some(to), language, at: now, origin: None, mail };
        self.context.store.new_mail((id, random(entropy)), Some(user.sub), &message, now).map_err(|error| {
            tracing::error!(%error, "cannot seal an invitation; it is not sent");
            CommandError::invalid("the invitation cannot be sealed; see the server's log")
        })
    }
}

/// Reason to refuse an invitation without an address, and what to do.
fn needs_address(context: &CommandContext<'_>) -> &'static str {
    context.advice(
        "an invitation needs an e-mail address; add one with `user set --email`, or give the user a password with \
         `user set-password`",
        "an invitation needs an e-mail address; add one first",
    )
}

/// Returns the reason why mail cannot be delivered to an address, if any.
pub(super) fn mail_fault(email: &Email) -> Option<&'static str> {
    let reachable = MailAddress::from_email(email).is_some();
    (!reachable).then_some(
        "mail servers do not accept this address; write it as name@example.com, with ASCII characters before the @",
    )
}
