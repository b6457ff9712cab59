//! `/console/users/import`: import of users from a CSV file.
//!
//! The first form has the file, or its content as text. The page after it lists the users as they were read and
//! asks for the confirmation. Both run the command of `sealgate user import`, the first one without
//! writing anything. One commit writes all users, or none.

use std::collections::BTreeSet;

use http::Method;

use crate::console::client::{command_context, failure_of};
use crate::console::confirmation::require_recent;
use crate::console::upload::Upload;
use crate::console::{ConsoleUser, confirmation, kept_form, user_list};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use sealgate_admin as admin;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::import::Import;
use sealgate_admin::users_file::{self, UsersFile, UsersSource};
use sealgate_admin::{Answer, CommandError, FileFaults};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::console::{BulkLine, ImportConfirmPage, ImportPage};
use sealgate_pages::{Done, html};

/// Path of the form.
pub(super) const PAGE: &str = "/console/users/import";

/// Field with the content of the file. It may contain password hashes, so it is not kept for a sign-in.
pub(super) const FIELD: &str = "csv";

/// Maximum number of users in one form.
const MAX_USERS: usize = 500;

/// Maximum number of users that the confirmation lists.
const MAX_LISTED: usize = 100;

pub(super) async fn import_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method == Method::POST {
        let upload = console_user.upload(ctx).await?;
        return answer(ctx, console_user, upload).await;
    }
    require_recent(ctx, PAGE).await?;
    // A kept form has lost its content.
    kept_form::take(ctx, console_user, PAGE).await?;
    Ok(show(ctx, console_user, "", &FileFaults::default()))
}

/// Answers a form: with its faults, with the confirmation, or with the import.
async fn answer(ctx: &RequestContext<'_>, console_user: &ConsoleUser, upload: Upload) -> Result<Response, Failure> {
    let Upload { fields: mut form, file } = upload;
    if let Some(file) = file {
        let Ok(text) = String::from_utf8(file.to_vec()) else {
            // The faults name the line that is not UTF-8.
            let faults = run(ctx, console_user, read(&file), true).await?.err().unwrap_or_default();
            return Ok(show(ctx, console_user, "", &faults));
        };
        form = form.with(FIELD, text);
    }
    let csv = form.one(FIELD)?.unwrap_or_default();
    if !confirmation::is_confirmed(&form) {
        let file = read(csv.as_bytes());
        let users: Vec<BulkLine> = file.names().map(|(name, identifier)| BulkLine { name, identifier }).collect();
        let verified = file.verified();
        return Ok(match run(ctx, console_user, file, true).await? {
            Err(faults) => show(ctx, console_user, csv, &faults),
            Ok(answer) => confirm(ctx, console_user, &form, (&users, verified), &answer),
        });
    }
    // The checks run inside `once`. A repeated request would report that the names are taken.
    let work = Box::pin(async {
        if let Err(faults) = run(ctx, console_user, read(csv.as_bytes()), false).await? {
            return Ok(Effect::Refused(show(ctx, console_user, csv, &faults)));
        }
        let page = format!("{}?sort=created&done={}", user_list::PAGE, Done::UsersImported.as_str());
        Ok(Effect::Done { page, secret: None })
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

fn read(csv: &[u8]) -> UsersFile {
    users_file::read(csv, &UsersSource::default())
}

/// Runs the command. The inner error has the faults of the file.
async fn run(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    file: UsersFile,
    dry_run: bool,
) -> Result<Result<Answer, FileFaults>, Failure> {
    let import = Import { source: UsersSource::default(), dry_run, file: file.limited_to(MAX_USERS) };
    let command = Command::User(UserCommand::Import(Box::new(import)));
    match admin::execute(&command_context(ctx, console_user), command).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(CommandError::File(faults)) => Ok(Err(faults)),
        Err(error) => Err(failure_of(error)),
    }
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, csv: &str, found: &FileFaults) -> Response {
    let page = ImportPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        csv,
        most: MAX_USERS as u64,
        faults: &found.faults,
        more_faults: found.more as u64,
    };
    Response::page(http::StatusCode::OK, html(&page), None)
}

fn confirm(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    (users, verified): (&[BulkLine], usize),
    answer: &Answer,
) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let (disabled, without_password, groups) = match answer {
        Answer::Imported(imported) => {
            let groups: BTreeSet<&str> = imported.groups.keys().map(String::as_str).collect();
            (imported.disabled, imported.without_password, groups)
        }
        _ => (0, 0, BTreeSet::new()),
    };
    let listed = users.get(..MAX_LISTED).unwrap_or(users);
    let page = ImportConfirmPage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        users: listed,
        total: users.len() as u64,
        verified: verified as u64,
        disabled: disabled as u64,
        without_password: without_password as u64,
        groups: &groups.iter().copied().collect::<Vec<_>>(),
        roles: ctx.sealgate.config.console.roles(&BTreeSet::new(), |known| groups.contains(known)),
        fields: &confirmation::fields(form, &once),
    };
    Response::page(http::StatusCode::OK, html(&page), None)
}
