//! Files of any number of records that the console exports.
//!
//! A task reads some records at a time, and waits until the client has received them. It holds no
//! snapshot of the store in between. The export stops at [`EXPORT_TIMEOUT`], when the client reads too
//! slowly, and when the session ends or the user loses the role; the client then receives an incomplete
//! body.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use tokio::time::timeout;

use crate::console::ConsoleUser;
use sealgate_core::exports::ExportPlace;
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::session::SessionId;
use sealgate_domain::user::{Subject, User};
use sealgate_edge::{BodySender, BodyStream, navigation};
use sealgate_pages::Problem;
use sealgate_store::{Store, StoreError};

/// Maximum duration of an export. 200,000 events, the default of `audit.max_records`, are about
/// 80 MiB, and 250,000 users about 60 MiB.
const EXPORT_TIMEOUT: Duration = Duration::from_mins(15);

/// Maximum time until the client has received a part, at most about 200 KiB. So it needs about 7 KiB/s.
const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// Format of an exported file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Csv,
    Ndjson,
}

impl FileFormat {
    /// Returns the format that the query names, and the head of the response with a file `name`.
    ///
    /// # Errors
    /// If the query names no format, or if the browser preloads the page.
    pub(super) fn requested(ctx: &RequestContext<'_>, name: &str) -> Result<(Self, Response), Failure> {
        if navigation::is_preload(ctx.head) {
            return Err(Failure::json(StatusCode::FORBIDDEN, navigation::PRELOAD_REFUSAL));
        }
        let query = ctx.query()?;
        let named = query.one("format")?;
        let format = [Self::Csv, Self::Ndjson].into_iter().find(|format| named == Some(format.extension()));
        let format = format.ok_or(Failure::page(Problem::InvalidRequest))?;
        let media_type = match format {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
        };
        let file = format!("attachment; filename=\"{name}.{}\"", format.extension());
        Ok((format, Response::empty(StatusCode::OK).with(CONTENT_TYPE, media_type).with(CONTENT_DISPOSITION, &file)))
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

/// Content of an exported file.
pub(super) trait ExportedFile: Send + Sync + 'static {
    /// Name of the content in the log.
    const CONTENT: &'static str;

    /// Sends all records. Returns whether the file is complete.
    fn send(&self, download: &Download) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Download of a file by a user of the console.
pub(super) struct Download {
    pub(super) sealgate: Sealgate,
    pub(super) store: Store,
    session: SessionId,
    user: Subject,
    sender: BodySender,
    _place: ExportPlace,
}

/// Starts an export in a task of its own. Returns the body of the response.
pub(super) fn start<E: ExportedFile>(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    place: ExportPlace,
    export: E,
) -> BodyStream {
    let (sender, stream) = BodyStream::new();
    let download = Download {
        sealgate: ctx.sealgate.clone(),
        // The guard of the request's store is for commits, and this task only reads.
        store: ctx.sealgate.store.for_server(),
        session: console_user.visitor.session.value.id,
        user: console_user.visitor.user.sub,
        sender,
        _place: place,
    };
    tokio::spawn(download.run(export));
    stream
}

impl Download {
    async fn run<E: ExportedFile>(self, export: E) {
        match timeout(EXPORT_TIMEOUT, export.send(&self)).await {
            // The last part may still be unread.
            Ok(Ok(true)) => {
                let _ = timeout(PART_TIMEOUT, self.sender.end()).await;
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an export of {} is incomplete", E::CONTENT),
            Err(_) => tracing::warn!("an export of {} took too long and is incomplete", E::CONTENT),
        }
    }

    /// Sends a part. Returns whether the client takes it in time.
    pub(super) async fn send(&self, part: Vec<u8>) -> bool {
        if part.is_empty() {
            return true;
        }
        timeout(PART_TIMEOUT, self.sender.send(Bytes::from(part))).await.unwrap_or_else(|_| {
            tracing::warn!("an export is incomplete: the client reads too slowly");
            false
        })
    }

    /// Returns the user if they are enabled and signed in in this session, and have a right to the content.
    ///
    /// # Errors
    /// Returns the store's error.
    pub(super) async fn reader(&self, has_right: impl FnOnce(&User) -> bool) -> Result<Option<User>, StoreError> {
        let (now, keep) = (self.sealgate.clock.now(), self.sealgate.in_effect.load().sessions.keep_signed_in);
        let session = self.store.session(self.session).await?.and_then(|session| session.value.in_effect(now, keep));
        let is_signed_in = session.is_some_and(|session| session.sign_in_of(self.user).is_some());
        let user = if is_signed_in { self.store.user(self.user).await? } else { None };
        let reader = user.filter(|user| user.is_enabled() && has_right(user));
        if reader.is_none() {
            tracing::warn!("an export was stopped: the session or the role has ended");
        }
        Ok(reader)
    }
}
