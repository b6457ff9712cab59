//! Form with a user's name, address, phone number and first username, on the page of the user.

use crate::console::client::execute;
use crate::console::confirmation::{Question, Target};
use crate::console::user::{UserNotes, page_of, show};
use crate::console::users::username;
use crate::console::{ConsoleUser, confirmation};
use crate::submission::{self, Effect};
use sealgate_admin::UserRef;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line, is_phone_number, is_visible};
use sealgate_domain::user::{Email, User};
use sealgate_domain::username::Username;
use sealgate_pages::console::{ConfirmDetail, ConfirmLabel, GuardedChange, TypedProfile, UserField};
use sealgate_pages::{Done, Problem};

/// Input of the form.
pub(super) struct Profile {
    name: String,
    email: String,
    phone_number: String,
    username: String,
    /// Name, address and phone number that the page has shown. A field that the form does not change
    /// keeps the value that another administrator has given it since. `None` if the form does not
    /// send them.
    shown: Option<[String; 3]>,
}

impl Profile {
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
        let (name, email) = (text("name")?, text("email")?);
        let shown = match form.one("shown_name")? {
            Some(name) => Some([name.to_owned(), text("shown_email")?, text("shown_phone_number")?]),
            None => None,
        };
        Ok(Self { name, email, phone_number: text("phone_number")?, username: text("username")?, shown })
    }

    pub(super) fn typed(&self) -> TypedProfile<'_> {
        TypedProfile {
            name: &self.name,
            email: &self.email,
            phone_number: &self.phone_number,
            username: &self.username,
            shown: self.shown.as_ref(),
        }
    }

    /// Returns whether the form changes the field from the shown value, at this index, and from the
    /// stored one.
    fn changes(&self, at: usize, typed: &str, stored: &str) -> bool {
        typed != stored && self.shown.as_ref().is_none_or(|shown| typed != shown[at])
    }

    fn is_new_address(&self, user: &User) -> bool {
        self.changes(1, &self.email, user.email.as_ref().map(Email::as_str).unwrap_or_default())
    }

    /// Returns the question about the form, if it changes access. Other applications and links to
    /// set a password trust the address; applications identify the user by the username.
    pub(super) fn question<'a>(&self, user: &'a User) -> Option<Question<'a>> {
        let is_new_username = user.username.is_none() && !self.username.is_empty();
        let change = match () {
            () if user.source.is_some() => return None,
            () if self.is_new_address(user) => GuardedChange::ChangeAddress,
            () if is_new_username => GuardedChange::SetUsername,
            () => return None,
        };
        let username = ConfirmDetail { label: ConfirmLabel::Username, values: vec![self.username.clone()] };
        let details = if is_new_username { vec![username] } else { Vec::new() };
        Some(Question::new(change, Target::user(user, page_of(user.sub))).with(details))
    }

    /// Checks the fields that have changed, and returns the changes.
    async fn check(
        &self,
        ctx: &RequestContext<'_>,
        user: &User,
    ) -> Result<Result<UserChanges, Vec<UserField>>, Failure> {
        let store = &ctx.sealgate.store;
        let mut faults = Vec::new();
        let is_new_name = self.changes(0, &self.name, &user.name);
        if is_new_name && !is_line(&self.name, MAX_NAME_LENGTH) {
            faults.push(UserField::Name);
        }
        let email = Email::parse(&self.email).filter(|email| is_visible(email.as_str()));
        if self.is_new_address(user) {
            // A user with a username can do without an address.
            let may_lack_address = self.email.is_empty() && user.username.is_some();
            match &email {
                None if may_lack_address => {}
                None => faults.push(UserField::Email),
                Some(email) => {
                    if store.user_by_email(email).await?.is_some_and(|other| other.sub != user.sub) {
                        faults.push(UserField::EmailTaken);
                    }
                }
            }
        }
        let new_username = self.new_username(ctx, user).await?.unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        let stored_phone = user.phone_number.as_deref().unwrap_or_default();
        let phone = Some(&self.phone_number).filter(|number| self.changes(2, number, stored_phone));
        if phone.is_some_and(|number| !number.is_empty() && !is_phone_number(number)) {
            faults.push(UserField::Phone);
        }
        if !faults.is_empty() {
            return Ok(Err(faults));
        }
        let name = is_new_name.then(|| self.name.clone());
        let email = self.is_new_address(user).then_some(email);
        Ok(Ok(UserChanges::of_profile(name, email, phone.cloned(), new_username)))
    }

    /// Returns the username that the form sets. The form can only set a missing username, because
    /// applications identify users by it. Only the command line can change it.
    async fn new_username(
        &self,
        ctx: &RequestContext<'_>,
        user: &User,
    ) -> Result<Result<Option<Username>, UserField>, Failure> {
        if user.username.is_some() {
            return Ok(Ok(None));
        }
        let username = match username(&self.username) {
            Ok(username) => username,
            Err(fault) => return Ok(Err(fault)),
        };
        Ok(match &username {
            Some(new) if ctx.sealgate.store.user_by_username(new).await?.is_some() => Err(UserField::UsernameTaken),
            _ => Ok(username),
        })
    }
}

/// Saves the form. Refuses users of a directory, which keeps these attributes.
pub(super) async fn save(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    if user.source.is_some() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let profile = Profile::read(form)?;
    let changes = match profile.check(ctx, user).await? {
        Ok(changes) => changes,
        Err(faults) => {
            let notes = UserNotes { profile: Some(&profile), faults: &faults, ..UserNotes::default() };
            return show(ctx, console_user, user, &notes).await;
        }
    };
    let page = page_of(user.sub);
    if let Some(question) = profile.question(user) {
        confirmation::require_recent_for_form(ctx, console_user, form).await?;
        if !confirmation::is_confirmed(form) {
            return Ok(confirmation::page(ctx, console_user, form, &question));
        }
    }
    let set = UserCommand::Set { user: UserRef::Sub(user.sub), changes: Box::new(changes) };
    let work = Box::pin(async {
        execute(ctx, console_user, Command::User(set)).await?;
        Ok(Effect::Done { page: format!("{page}?done={}", Done::User.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}
