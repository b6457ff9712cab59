//! Saved filters of the audit log. Each user has their own.

use crate::console::ConsoleUser;
use crate::console::actions::AuditAction;
use crate::console::audit::{AuditInput, PAGE};
use crate::request::ProviderRequest as _;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile;
use sealgate_domain::user::{MAX_SAVED_FILTERS, SavedFilter, User};
use sealgate_pages::{AuditField, Done};

/// Maximum length of the name of a filter, in characters.
pub(super) const MAX_NAME_CHARS: usize = 60;

/// Maximum length of a saved filter, in bytes.
const MAX_QUERY_BYTES: usize = 500;

/// Saves or deletes a filter. Saving a name again replaces its filter. Returns the field with an error
/// if the filter cannot be saved.
pub(super) async fn change(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<Result<Response, AuditField>, Failure> {
    let name = form.one("filter-name")?.unwrap_or_default().trim().to_owned();
    let filter = form.one("filter")?.unwrap_or_default();
    let query = AuditInput::read(&Params::parse(filter.as_bytes()).unwrap_or_default())?.query().finish();
    let sub = console_user.visitor.user.sub;
    let store = &ctx.sealgate.store;
    let (done, query) = match AuditAction::read(form)? {
        AuditAction::DeleteFilter => {
            store.change_user(sub, |user| user.audit_filters.retain(|filter| filter.name != name)).await?;
            (Done::FilterDeleted, String::new())
        }
        AuditAction::SaveFilter => {
            if query.len() > MAX_QUERY_BYTES || !profile::is_line(&name, MAX_NAME_CHARS) {
                return Ok(Err(AuditField::FilterName));
            }
            let saved = SavedFilter { name, query: query.clone() };
            let after = store.change_user(sub, |user| save(user, &saved)).await?;
            if !after.is_some_and(|user| user.audit_filters.contains(&saved)) {
                return Ok(Err(AuditField::TooManyFilters));
            }
            (Done::FilterSaved, query)
        }
    };
    let joint = if query.is_empty() { "" } else { "&" };
    Ok(Ok(Response::see_other(&ctx.path(&format!("{PAGE}?{query}{joint}done={}", done.as_str())))))
}

fn save(user: &mut User, saved: &SavedFilter) {
    let filters = &mut user.audit_filters;
    if let Some(filter) = filters.iter_mut().find(|filter| filter.name == saved.name) {
        filter.clone_from(saved);
    } else if filters.len() < MAX_SAVED_FILTERS {
        filters.push(saved.clone());
    }
}
