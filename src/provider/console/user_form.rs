//! What a person's form in the console holds.

use std::collections::BTreeSet;

use crate::domain::profile::is_group;
use crate::domain::secret::Secret;
use crate::domain::user::Role;
use crate::domain::username::Username;
use crate::oauth::params::Params;
use crate::page::console::UserField;
use crate::web::context::RequestContext;

/// Groups that a person may be in, as on the command line.
const MOST_GROUPS: usize = 100;

/// A password that nobody chose: 96 bits.
pub(super) fn new_password(ctx: &RequestContext<'_>) -> Secret {
    Secret::from_random(&ctx.random::<12>())
}

/// The username of a form; none where the field is empty.
pub(super) fn username(typed: &str) -> Result<Option<Username>, UserField> {
    match typed {
        "" => Ok(None),
        typed => Username::parse(typed).map(Some).ok_or(UserField::Username),
    }
}

/// The roles that a form ticks.
pub(super) fn roles(form: &Params) -> BTreeSet<Role> {
    let ticked = [("role_developer", Role::Developer), ("role_admin", Role::Admin)];
    ticked.into_iter().filter(|(name, _)| form.has(name)).map(|(_, role)| role).collect()
}

/// The groups of a list with one a line, if each is one.
pub(super) fn groups(text: &str) -> Option<BTreeSet<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let groups: BTreeSet<String> = lines.map(str::to_owned).collect();
    (groups.len() <= MOST_GROUPS && groups.iter().all(|group| is_group(group))).then_some(groups)
}
