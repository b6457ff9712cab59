//! Fields of the console's forms for users.

use std::collections::BTreeSet;

use sealgate_core::web::context::RequestContext;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::is_group;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::Role;
use sealgate_domain::username::Username;
use sealgate_pages::console::UserField;

/// Maximum number of groups of a user, as on the command line.
const MAX_GROUPS: usize = 100;

/// Returns a random password with 96 bits of entropy.
pub(super) fn new_password(ctx: &RequestContext<'_>) -> Secret {
    Secret::from_random(&ctx.random::<12>())
}

/// Parses the username field. An empty field means no username.
pub(super) fn username(typed: &str) -> Result<Option<Username>, UserField> {
    match typed {
        "" => Ok(None),
        typed => Username::parse(typed).map(Some).ok_or(UserField::Username),
    }
}

/// Returns the roles that the form ticks.
pub(super) fn roles(form: &Params) -> BTreeSet<Role> {
    let ticked = [("role_developer", Role::Developer), ("role_admin", Role::Admin)];
    ticked.into_iter().filter(|(name, _)| form.has(name)).map(|(_, role)| role).collect()
}

/// Parses a list with one group per line. Returns `None` if a group is invalid or there are too
/// many.
pub(super) fn groups(text: &str) -> Option<BTreeSet<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let groups: BTreeSet<String> = lines.map(str::to_owned).collect();
    (groups.len() <= MAX_GROUPS && groups.iter().all(|group| is_group(group))).then_some(groups)
}
