//! `/console/users/export`: the users as a file, of any number.
//!
//! A task reads some users at a time, and waits until the client has received them. The export stops
//! at [`EXPORT_TIMEOUT`], if the client takes a part too slowly, and when the session ends or the user loses the role; the client then
//! receives an incomplete body. User managers receive the users that they manage, as they are then.

use std::time::Duration;

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::console::audit_export::{FileFormat, PART_TIMEOUT, deliver, signed_in_user};
use crate::console::{ConsoleUser, confirmation, user_list};
use sealgate_admin::answer::UserAnswer;
use sealgate_admin::users_file;
use sealgate_core::exports::ExportPlace;
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::session::SessionId;
use sealgate_domain::user::{Subject, User};
use sealgate_edge::{BodySender, BodyStream, navigation};
use sealgate_pages::Problem;
use sealgate_store::{Store, StoreError};

/// Number of users in a part, about 50 KiB.
const USERS_PER_PART: usize = 200;

/// Maximum duration of an export. 250,000 users are about 60 MiB.
const EXPORT_TIMEOUT: Duration = Duration::from_mins(15);

/// Returns the users as a file. Records an audit event first.
pub(super) async fn export(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if navigation::is_preload(ctx.head) {
        return Err(Failure::json(StatusCode::FORBIDDEN, navigation::PRELOAD_REFUSAL));
    }
    confirmation::require_recent(ctx, user_list::PAGE).await?;
    let format = ctx.query()?.one("format")?.and_then(FileFormat::parse);
    let format = format.ok_or(Failure::page(Problem::InvalidRequest))?;
    let file = format!("attachment; filename=\"users.{}\"", format.extension());
    let response =
        Response::empty(StatusCode::OK).with(CONTENT_TYPE, format.media_type()).with(CONTENT_DISPOSITION, &file);
    if ctx.head.method == Method::HEAD {
        return Ok(response);
    }
    let subject = console_user.visitor.user.sub;
    let place = ctx.sealgate.exports.begin(subject).ok_or(Failure::Unavailable)?;
    let actor = match () {
        () if console_user.is_administrator() => Actor::Administrator(subject),
        () if console_user.roles.reads_everything() => Actor::Auditor(subject),
        () => Actor::UserManager(subject),
    };
    let event = ctx.event(AuditKind::UsersExported, actor).with_detail(format.extension());
    ctx.sealgate.audit.record(&ctx.sealgate.store, event).await;
    let (sender, stream) = BodyStream::new();
    // The guard of the request's store is for commits, and this task only reads.
    let export = Export {
        sealgate: ctx.sealgate.clone(),
        store: ctx.sealgate.store.for_server(),
        session: console_user.visitor.session.value.id,
        user: subject,
        format,
        _place: place,
    };
    tokio::spawn(export.run(sender));
    Ok(response.stream(stream))
}

struct Export {
    sealgate: Sealgate,
    store: Store,
    session: SessionId,
    user: Subject,
    format: FileFormat,
    _place: ExportPlace,
}

impl Export {
    async fn run(self, sender: BodySender) {
        match timeout(EXPORT_TIMEOUT, self.send(&sender)).await {
            // The last part may still be unread.
            Ok(Ok(true)) => {
                let _ = timeout(PART_TIMEOUT, sender.end()).await;
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an export of the users is incomplete"),
            Err(_) => tracing::warn!("an export of the users took too long and is incomplete"),
        }
    }

    /// Sends all users. Returns whether the file is complete.
    async fn send(&self, sender: &BodySender) -> Result<bool, StoreError> {
        let mut part = Vec::new();
        if self.format == FileFormat::Csv {
            // Writing to memory does not fail.
            let _ = users_file::write_header(&mut part);
        }
        let mut after = None;
        loop {
            let Some(is_exported) = self.filter().await? else {
                tracing::warn!("an export of the users was stopped: the session or the role has ended");
                return Ok(false);
            };
            let users = self.store.users(after, USERS_PER_PART).await?;
            let is_last = users.len() < USERS_PER_PART;
            after = users.last().map(|user| user.sub);
            for user in users.into_iter().filter(|user| is_exported(user)).map(UserAnswer::from) {
                let _ = match self.format {
                    FileFormat::Csv => users_file::write_row(&mut part, &user),
                    FileFormat::Ndjson => users_file::write_line(&mut part, &user),
                };
            }
            if !part.is_empty() && !deliver(sender, std::mem::take(&mut part)).await {
                return Ok(false);
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Returns which users the user of the page may see now. `None` if the session or the role has
    /// ended.
    async fn filter(&self) -> Result<Option<impl Fn(&User) -> bool + use<>>, StoreError> {
        let Some(reader) = signed_in_user(&self.sealgate, &self.store, self.session, self.user).await? else {
            return Ok(None);
        };
        let console = self.sealgate.in_effect.load().console.clone();
        let reads_everything = console.roles_of(&reader).reads_everything();
        let managed = console.managed_by(&reader);
        let is_permitted = reads_everything || !managed.is_empty();
        Ok(is_permitted.then_some(move |user: &User| reads_everything || console.is_managed(user, &managed)))
    }
}
