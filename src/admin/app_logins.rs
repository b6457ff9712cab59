//! Commands about a user's names and passwords at applications with their own login form.
//!
//! No command shows a stored password.

use crate::answer::{Answer, AppLoginAnswer, EndedAnswer, ListPage, Rows};
use crate::command::AppLoginCommand;
use crate::context::{CommandContext, CommandError, Mailing};
use crate::users;
use crate::users::UserRef;
use sealgate_config::App;
use sealgate_domain::app_credential::{
    MAX_APP_CREDENTIAL_PASSWORD_BYTES, MAX_APP_CREDENTIALS, MAX_APP_USERNAME_LENGTH, is_app_credential_password,
    is_app_username,
};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::secret::Secret;
use sealgate_store::{AppCredentialSet, AppSite};

pub(super) async fn execute(context: &CommandContext<'_>, command: AppLoginCommand) -> Result<Answer, CommandError> {
    match command {
        AppLoginCommand::Set { user, app, username, password } => {
            set(context, &user, &app, &username, &password.secret).await
        }
        AppLoginCommand::List(user) => {
            let sub = users::find(context, &user).await?.sub;
            let known = context.store.app_credentials(sub).await?.credentials.into_iter();
            Ok(ListPage::answer(Rows::AppLogins(known.map(AppLoginAnswer::from).collect()), None::<String>))
        }
        AppLoginCommand::Remove { user, app } => remove(context, &user, &app).await,
    }
}

async fn set(
    context: &CommandContext<'_>,
    user: &UserRef,
    app: &str,
    username: &str,
    password: &Secret,
) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let Some(app) = context.apps.iter().find(|known| known.name == app) else {
        return Err(CommandError::invalid(format!("the configuration has no application {app}")));
    };
    if matches!(context.mailing, Mailing::NoServer) {
        return Err(CommandError::invalid(
            "the password is encrypted by the server, which is not running; start the server and run the command again",
        ));
    }
    let faults = faults(app, username, password);
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    let (app, site) = (app.name.as_str(), AppSite { name: &app.name, host: &app.host });
    let now = context.clock.now();
    match context.store.set_app_credential(sub, site, username, password, now).await? {
        AppCredentialSet::Yes => {}
        AppCredentialSet::Full => {
            return Err(CommandError::invalid(format!(
                "{user} has names and passwords for {MAX_APP_CREDENTIALS} applications, which is the maximum; \
                 remove one with `sealgate app-login remove`"
            )));
        }
        AppCredentialSet::NoUser => return Err(users::absent(user)),
    }
    context.record(context.event(AuditKind::AppCredentialSet).for_subject(sub).in_app(app)).await;
    let stored = context.store.app_credentials(sub).await?;
    // Another command may have removed the credentials in the meantime.
    let stored = stored.find(app).cloned().ok_or_else(|| nothing_stored(user, app))?;
    Ok(Answer::AppLogin(AppLoginAnswer { sub: Some(sub), ..stored.into() }))
}

async fn remove(context: &CommandContext<'_>, user: &UserRef, app: &str) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    if !context.store.remove_app_credential(sub, app).await? {
        return Err(nothing_stored(user, app));
    }
    context.record(context.event(AuditKind::AppCredentialRemoved).for_subject(sub).in_app(app)).await;
    let app = Some(app.to_owned());
    Ok(EndedAnswer { sub: Some(sub), app, deleted: Some(true), ..EndedAnswer::from(()) }.into())
}

fn nothing_stored(user: &UserRef, app: &str) -> CommandError {
    CommandError::Absent(format!("no name and password of {user} are stored for the application {app}"))
}

/// Returns the reasons why this name and password cannot be stored.
fn faults(app: &App, username: &str, password: &Secret) -> Vec<String> {
    let name = &app.name;
    let checks = [
        (
            app.takes_user_credentials(),
            format!(
                "the application {name} does not sign users in with their own names and passwords; give it a login \
                 without a service account in the configuration"
            ),
        ),
        (
            is_app_username(username),
            format!("the username must have 1 to {MAX_APP_USERNAME_LENGTH} visible characters in one line"),
        ),
        (
            is_app_credential_password(password.expose()),
            format!("the password must have 1 to {MAX_APP_CREDENTIAL_PASSWORD_BYTES} bytes, without line breaks"),
        ),
    ];
    checks.into_iter().filter(|(is_met, _)| !is_met).map(|(_, fault)| fault).collect()
}
