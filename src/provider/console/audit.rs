//! `/console/audit`: the audit log, filtered by kind, result, user, client, address and day. The filter is
//! in the URL, so that it can be a bookmark. The live view reloads the page with the header `Refresh`
//! a limited number of times, so that an open page does not keep a session alive.

use std::time::Duration;

use chrono::{NaiveDate, NaiveTime};
use http::header::HeaderName;
use http::{Method, StatusCode};

use crate::account::activity::EventNames;
use crate::console::{ConsoleUser, audit_filters};
use crate::request::ProviderRequest as _;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{AuditFilter, AuditId, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_pages::console::SignInChart;
use sealgate_pages::{AuditField, AuditLogPage, LiveView, Problem, html};
use sealgate_store::AuditPage;

const EVENTS_PER_PAGE: usize = 15;

/// Maximum number of previous pages that the `back` parameter names.
const MAX_PREVIOUS_PAGES: usize = 50;

/// Interval of the live view, in seconds.
const LIVE_SECONDS: u64 = 5;

/// Number of times that the live view reloads the page.
const LIVE_RELOADS: u64 = 120;

const REFRESH: HeaderName = HeaderName::from_static("refresh");

const DAY: Duration = Duration::from_hours(24);

/// Path of the page, without the issuer's prefix.
pub(super) const PAGE: &str = "/console/audit";

/// Largest offset of a time zone from UTC, in minutes.
const MAX_ZONE_MINUTES: i64 = 14 * 60;

/// Shows the events (GET), or changes the user's saved filters (POST).
pub(super) async fn audit_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        return show(ctx, console_user, &AuditInput::read(&ctx.query()?)?, None).await;
    }
    let form = console_user.form(ctx)?;
    match audit_filters::change(ctx, console_user, &form).await? {
        Ok(response) => Ok(response),
        Err(fault) => {
            let filter = Params::parse(form.one("filter")?.unwrap_or_default().as_bytes()).unwrap_or_default();
            show(ctx, console_user, &AuditInput::read(&filter)?, Some(fault)).await
        }
    }
}

async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    typed: &AuditInput,
    filter_fault: Option<AuditField>,
) -> Result<Response, Failure> {
    let at = Position::read(ctx)?;
    let store = &ctx.sealgate.store;
    let (page, mut faults) = match typed.filter(ctx).await? {
        Ok(Some(filter)) => {
            ctx.sealgate.audit.store_pending(filter.subject).await;
            (store.audit_page(&filter, at.after, EVENTS_PER_PAGE).await?, Vec::new())
        }
        // A client or kind that cannot exist matches no event.
        Ok(None) => (AuditPage { records: Vec::new(), next: None }, Vec::new()),
        Err(faults) => (AuditPage { records: Vec::new(), next: None }, faults),
    };
    faults.extend(filter_fault);
    let (mut names, mut events) = (EventNames::default(), Vec::with_capacity(page.records.len()));
    for record in page.records {
        events.push(names.line(ctx, record.event).await?);
    }
    let next = page.next.map(|next| typed.address(ctx, &at.then(next)));
    let previous = at.before().map(|before| typed.address(ctx, &before));
    let is_unfiltered =
        [&typed.kind, &typed.person, &typed.client, &typed.from, &typed.to, &typed.address, &typed.result]
            .iter()
            .all(|text| text.is_empty());
    let figures =
        if is_unfiltered && at.after.is_none() { ctx.sealgate.overview.current(ctx.sealgate).await } else { None };
    let chart = figures.as_deref().map(|figures| SignInChart {
        periods: figures.by_day(ctx.now).into_iter().map(|(at, count)| (at, count.signed_in, count.failed)).collect(),
    });
    let live = live_view(ctx, typed, &at)?;
    let filter = typed.query().finish();
    let filters: Vec<(&str, String)> = console_user
        .visitor
        .user
        .audit_filters
        .iter()
        .map(|saved| (saved.name.as_str(), ctx.path(&format!("{PAGE}?{}", saved.query))))
        .collect();
    let file = |format| ctx.path(&format!("{PAGE}/export?{}", typed.query().append_pair("format", format).finish()));
    // A date field in HTML accepts only a valid date.
    let day = |text, field| if faults.contains(&field) { "" } else { text };
    let page = AuditLogPage {
        inside: console_user.inside(ctx),
        events: &events,
        previous: previous.as_deref(),
        next: next.as_deref(),
        csv: &file("csv"),
        ndjson: &file("ndjson"),
        csrf: &console_user.csrf(ctx),
        filters: &filters,
        filter: (!is_unfiltered).then_some(filter.as_str()),
        live: live.as_ref(),
        kind: &typed.kind,
        person: &typed.person,
        client: &typed.client,
        from: day(&typed.from, AuditField::From),
        to: day(&typed.to, AuditField::To),
        address: &typed.address,
        result: &typed.result,
        reload: &typed.address(ctx, &at),
        chart: chart.as_ref(),
        zone: typed.zone,
        faults: &faults,
    };
    let response = Response::page(StatusCode::OK, html(&page), None);
    Ok(match live.as_ref().and_then(|live| live.next.as_ref()) {
        Some(next) => response.with(REFRESH, &format!("{LIVE_SECONDS};url={next}")),
        None => response,
    })
}

/// Returns the links of the live view. The newest page has them.
fn live_view(ctx: &RequestContext<'_>, typed: &AuditInput, at: &Position) -> Result<Option<LiveView>, Failure> {
    if at.after.is_some() || ctx.head.method != Method::GET {
        return Ok(None);
    }
    let left = ctx.query()?.one("live")?.and_then(|live| live.parse::<u64>().ok()).map(|left| left.min(LIVE_RELOADS));
    let url = |left: u64| {
        let query = typed.query().append_pair("live", &left.to_string()).finish();
        ctx.path(&format!("{PAGE}?{query}"))
    };
    Ok(Some(LiveView {
        start: url(LIVE_RELOADS),
        next: left.and_then(|left| left.checked_sub(1)).map(url),
        is_over: left == Some(0),
        seconds: LIVE_SECONDS,
    }))
}

/// Values of the filter by result.
const FAILED: &str = "failed";
const SUCCEEDED: &str = "succeeded";

/// Input of the filter form.
pub(super) struct AuditInput {
    kind: String,
    person: String,
    client: String,
    from: String,
    to: String,
    /// Client address.
    address: String,
    /// `failed`, `succeeded` or empty.
    result: String,
    /// Offset of the reader's time zone from UTC in minutes, positive if the zone is behind UTC.
    ///
    /// Days start at the reader's midnight. Without JavaScript the offset is 0, and the page shows
    /// times in UTC.
    zone: i64,
}

impl AuditInput {
    /// Reads the filter from a query.
    pub(super) fn read(query: &Params) -> Result<Self, Failure> {
        let text = |name| -> Result<String, Failure> { Ok(query.one(name)?.unwrap_or_default().trim().to_owned()) };
        let zone = text("zone")?.parse().unwrap_or(0);
        Ok(Self {
            kind: text("kind")?,
            person: text("person")?,
            client: text("client")?,
            from: text("from")?,
            to: text("to")?,
            address: text("address")?,
            result: Some(text("result")?)
                .filter(|result| [FAILED, SUCCEEDED].contains(&result.as_str()))
                .unwrap_or_default(),
            zone: i64::clamp(zone, -MAX_ZONE_MINUTES, MAX_ZONE_MINUTES),
        })
    }

    /// Returns the filter, `None` if no event can match, or the fields with errors.
    pub(super) async fn filter(
        &self,
        ctx: &RequestContext<'_>,
    ) -> Result<Result<Option<AuditFilter>, Vec<AuditField>>, Failure> {
        let mut faults = Vec::new();
        let mut filter = AuditFilter::default();
        if !self.person.is_empty() {
            filter.subject = match Subject::parse(&self.person) {
                // The audit log also has events of deleted users.
                Some(subject) => Some(subject),
                None => ctx.sealgate.store.user_by_sign_in_name(&self.person).await?.map(|user| user.sub),
            };
            if filter.subject.is_none() {
                faults.push(AuditField::User);
            }
        }
        if !self.from.is_empty() {
            filter.since = self.midnight(&self.from);
            if filter.since.is_none() {
                faults.push(AuditField::From);
            }
        }
        if !self.to.is_empty() {
            filter.until = self.midnight(&self.to).map(|to| to.plus(DAY));
            if filter.until.is_none() {
                faults.push(AuditField::To);
            }
        }
        if !self.address.is_empty() {
            filter.address = self.address.parse().ok();
            if filter.address.is_none() {
                faults.push(AuditField::Address);
            }
        }
        if !faults.is_empty() {
            return Ok(Err(faults));
        }
        if !self.kind.is_empty() || !self.result.is_empty() {
            let is_wanted = |kind: &AuditKind| {
                (self.kind.is_empty() || kind.as_str() == self.kind)
                    && (self.result.is_empty() || kind.is_failure() == (self.result == FAILED))
            };
            filter.kinds = AuditKind::ALL.into_iter().filter(is_wanted).collect();
            // An empty list matches all kinds.
            if filter.kinds.is_empty() {
                return Ok(Ok(None));
            }
        }
        if !self.client.is_empty() {
            let Some(client) = ClientId::parse(&self.client) else { return Ok(Ok(None)) };
            filter.client = Some(client);
        }
        Ok(Ok(Some(filter)))
    }

    /// Returns the start of a day in the reader's time zone, or `None` if `day` is no date.
    fn midnight(&self, day: &str) -> Option<UnixTime> {
        let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
        let seconds = day.and_time(NaiveTime::MIN).and_utc().timestamp().checked_add(self.zone * 60)?;
        u64::try_from(seconds).ok().map(UnixTime::from_seconds)
    }

    /// Returns the filter as a query string.
    pub(super) fn query(&self) -> url::form_urlencoded::Serializer<'static, String> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let texts = [("kind", &self.kind), ("person", &self.person), ("client", &self.client), ("from", &self.from)];
        let more = [("to", &self.to), ("address", &self.address), ("result", &self.result)];
        query.extend_pairs(texts.into_iter().chain(more).filter(|(_, text)| !text.is_empty()));
        query.append_pair("zone", &self.zone.to_string());
        query
    }

    /// Returns the URL of a page of the log.
    fn address(&self, ctx: &RequestContext<'_>, at: &Position) -> String {
        let mut query = self.query();
        if let Some(after) = at.after {
            query.append_pair("after", &after.to_string());
        }
        if !at.back.is_empty() {
            let back: Vec<String> = at.back.iter().map(AuditId::to_string).collect();
            query.append_pair("back", &back.join("."));
        }
        ctx.path(&format!("{PAGE}?{}", query.finish()))
    }
}

/// Position in the log, with the previous pages.
///
/// The log can only be read from new to old, so links to previous pages need their positions.
struct Position {
    after: Option<AuditId>,
    back: Vec<AuditId>,
}

impl Position {
    fn read(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let query = ctx.query()?;
        let back = query.one("back")?.map(|back| back.split('.').map(AuditId::parse).collect());
        // An error as for `after`.
        let mut back: Vec<AuditId> = back.unwrap_or(Some(Vec::new())).ok_or(Failure::page(Problem::InvalidRequest))?;
        back.truncate(MAX_PREVIOUS_PAGES);
        Ok(Self { after: ctx.cursor(AuditId::parse)?, back })
    }

    /// Returns the position of the next page.
    fn then(&self, next: AuditId) -> Self {
        let mut back: Vec<AuditId> = self.back.iter().copied().chain(self.after).collect();
        back.drain(..back.len().saturating_sub(MAX_PREVIOUS_PAGES));
        Self { after: Some(next), back }
    }

    /// Returns the position of the previous page, or `None` on the first page.
    fn before(&self) -> Option<Self> {
        self.after?;
        let (after, back) = self.back.split_last().map_or((None, &[][..]), |(last, rest)| (Some(*last), rest));
        Some(Self { after, back: back.to_vec() })
    }
}
