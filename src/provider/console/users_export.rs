//! `/console/users/export`: all users as a file, or those that the filter of the list selects. User managers
//! receive the users that they manage at the time of each part.

use http::Method;

use crate::console::export::{self, Download, ExportedFile, FileFormat};
use crate::console::user_list::Wanted;
use crate::console::{ConsoleUser, confirmation, user_list};
use sealgate_admin::answer::UserAnswer;
use sealgate_admin::users_file;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::user::Subject;
use sealgate_domain::user_list::UserQuery;
use sealgate_pages::Problem;
use sealgate_store::StoreError;

/// Number of users in a part, about 50 KiB.
const USERS_PER_PART: usize = 200;

/// Returns the users as a file. Records an audit event first.
pub(super) async fn export(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let (format, response) = FileFormat::requested(ctx, "users")?;
    let wanted = Wanted::read(ctx)?;
    confirmation::require_recent(ctx, user_list::PAGE).await?;
    if ctx.head.method == Method::HEAD {
        return Ok(response);
    }
    let found = if wanted.is_filtered() { Some(find(ctx, console_user, &wanted).await?) } else { None };
    let subject = console_user.visitor.user.sub;
    let place = ctx.sealgate.exports.begin(subject).ok_or(Failure::Unavailable)?;
    let actor = match () {
        () if console_user.is_administrator() => Actor::Administrator(subject),
        () if console_user.roles.reads_everything() => Actor::Auditor(subject),
        () => Actor::UserManager(subject),
    };
    let detail = match &found {
        Some(found) => format!("{} filtered {}", format.extension(), found.len()),
        None => format.extension().to_owned(),
    };
    let event = ctx.event(AuditKind::UsersExported, actor).with_detail(detail);
    ctx.sealgate.audit.record(&ctx.sealgate.store, event).await;
    Ok(response.stream(export::start(ctx, console_user, place, UsersExport { format, found })))
}

/// Returns the users that the filter selects, in the order of the list.
///
/// # Errors
/// An error page if the list has not all users.
async fn find(ctx: &RequestContext<'_>, console_user: &ConsoleUser, wanted: &Wanted) -> Result<Vec<Subject>, Failure> {
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    if list.is_full() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let query = UserQuery { skip: 0, limit: usize::MAX, ..wanted.query(ctx, console_user) };
    let now = ctx.now;
    let selection = list.with(move |list| list.select(&query, now)).await?;
    Ok(selection.users.into_iter().map(|user| user.sub).collect())
}

struct UsersExport {
    format: FileFormat,
    /// Users to export. `None` for all.
    found: Option<Vec<Subject>>,
}

impl ExportedFile for UsersExport {
    const CONTENT: &'static str = "the users";

    async fn send(&self, download: &Download) -> Result<bool, StoreError> {
        let mut part = Vec::new();
        if self.format == FileFormat::Csv {
            // Writing to memory does not fail.
            let _ = users_file::write_header(&mut part);
        }
        let mut after = None;
        let mut found = self.found.as_ref().map(|found| found.chunks(USERS_PER_PART));
        loop {
            let config = download.sealgate.in_effect.load_full();
            let console = &config.console;
            let has_right =
                |reader: &_| console.roles_of(reader).reads_everything() || !console.managed_by(reader).is_empty();
            let Some(reader) = download.reader(has_right).await? else { return Ok(false) };
            let (reads_everything, managed) =
                (console.roles_of(&reader).reads_everything(), console.managed_by(&reader));
            let (users, is_last) = if let Some(found) = &mut found {
                let rows = download.store.user_rows_of(found.next().unwrap_or_default()).await?;
                let users = rows.into_iter().map(|row| Ok(row.read()?.user));
                (users.collect::<Result<Vec<_>, StoreError>>()?, found.len() == 0)
            } else {
                let users = download.store.users(after, USERS_PER_PART).await?;
                let is_last = users.len() < USERS_PER_PART;
                (users, is_last)
            };
            after = users.last().map(|user| user.sub);
            let exported = users.into_iter().filter(|user| reads_everything || console.is_managed(user, &managed));
            for user in exported.map(UserAnswer::from) {
                let _ = match self.format {
                    FileFormat::Csv => users_file::write_row(&mut part, &user),
                    FileFormat::Ndjson => users_file::write_line(&mut part, &user),
                };
            }
            if !download.send(std::mem::take(&mut part)).await {
                return Ok(false);
            }
            if is_last {
                return Ok(true);
            }
        }
    }
}
