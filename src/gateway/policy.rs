//! Who is let through: one pure decision, and the only maker of a [`Permit`]. Without a permit no request can be carried
//! to an application.

use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;

use crate::bearer::Bearer;
use crate::config::Access;
use crate::gateway::headers::{self, Identity, Rewrite, TooManyGroups};
use crate::gateway::route::Rule;
use crate::gateway::visit;
use crate::protocol::client::ClientId;
use crate::protocol::user::User;

/// Leave to carry one request to one application, with all that the application may learn from it.
#[derive(Debug, Clone)]
pub struct Permit {
    app: usize,
    path_and_query: PathAndQuery,
    identity: Identity,
    /// Whether the request's bearer token was ours: then it has done its work here.
    spent: bool,
}

impl Permit {
    /// Which application, an index into the configured ones.
    pub fn app(&self) -> usize {
        self.app
    }

    /// How the request is changed on its way. `head` is the one that the permit was given for.
    pub fn rewrite(&self, head: &Parts) -> Rewrite {
        headers::rewrite(head, &visit::origin(head), &self.path_and_query, &self.identity, self.spent)
    }
}

/// Who asks, as far as they have proven it.
#[derive(Debug, Clone)]
pub(super) enum Visitor {
    /// Anybody.
    Nobody,
    /// Who holds an access token that stands.
    Bearer(Arc<Bearer>),
    /// Who is signed in to the browser.
    Browser(Arc<User>),
}

/// Why a request is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused<'r> {
    /// Nobody has proven to be anybody.
    Unknown,
    /// The token is for another audience.
    Audience,
    /// The token was issued to a client that the application does not take.
    Client,
    /// The token lacks one of these scopes.
    Scope(&'r [String]),
    /// The person is in none of the rule's groups.
    Group,
    /// The person is in so many groups that no header can name them.
    TooManyGroups,
}

impl Refused<'_> {
    /// A word for logs and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unauthenticated",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::Scope(_) => "scope",
            Self::Group => "group",
            Self::TooManyGroups => "too_many_groups",
        }
    }
}

/// What is asked for.
pub(super) struct Wish<'a> {
    /// The application, an index into the configured ones.
    pub app: usize,
    /// The audience that a token must name to be good there.
    pub audience: &'a str,
    /// The clients whose tokens are good there, where the application names them.
    pub clients: Option<&'a [ClientId]>,
    /// The rule that the path falls under.
    pub rule: &'a Rule,
    /// The target that the rule was found for.
    pub path_and_query: &'a PathAndQuery,
}

/// Decides.
///
/// # Errors
/// Why not.
pub(super) fn decide<'a>(wish: &Wish<'a>, visitor: &Visitor) -> Result<Permit, Refused<'a>> {
    let rule = wish.rule;
    let user = match (rule.access, visitor) {
        // Whoever comes: on a public path nobody is anybody, so that the application cannot come to rely on it.
        (Access::Public, _) => return Ok(permit(wish, Identity::default(), false)),
        (Access::Bearer | Access::SignedIn, Visitor::Bearer(bearer)) => {
            if !bearer.claims.aud.contains(wish.audience) {
                return Err(Refused::Audience);
            }
            // Every client's token names the issuer as its audience: without this, whoever talks a person into one consent
            // could open the applications in their name.
            let taken = wish.clients.map_or(!bearer.self_registered, |listed| listed.contains(&bearer.client));
            if !taken {
                return Err(Refused::Client);
            }
            let has = |wanted: &String| bearer.claims.scope.split(' ').any(|scope| scope == wanted);
            if !rule.scopes.iter().all(has) {
                return Err(Refused::Scope(&rule.scopes));
            }
            &bearer.user
        }
        (Access::SignedIn, Visitor::Browser(user)) => user,
        (Access::Bearer, Visitor::Browser(_)) | (_, Visitor::Nobody) => return Err(Refused::Unknown),
    };
    if !rule.groups.is_empty() && !rule.groups.iter().any(|group| user.groups.contains(group)) {
        return Err(Refused::Group);
    }
    let identity = Identity::of(user).map_err(|TooManyGroups| Refused::TooManyGroups)?;
    Ok(permit(wish, identity, matches!(visitor, Visitor::Bearer(_))))
}

fn permit(wish: &Wish<'_>, identity: Identity, spent: bool) -> Permit {
    Permit { app: wish.app, path_and_query: wish.path_and_query.clone(), identity, spent }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::Request;

    use super::*;
    use crate::protocol::claims::{AccessTokenClaims, Audience};
    use crate::protocol::scope::Scope;
    use crate::protocol::time::UnixTime;
    use crate::protocol::user::{Email, Subject, UserState};

    const TIME: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn anna() -> Arc<User> {
        Arc::new(User {
            sub: Subject::from_random([1; 16]),
            email: Email::parse("anna@example.test").unwrap(),
            email_verified: true,
            name: "Anna".into(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::from(["staff".to_owned()]),
            password: None,
            state: UserState::Enabled,
            created_at: TIME,
            updated_at: TIME,
        })
    }

    fn bearer(aud: Audience, scope: &str) -> Visitor {
        Visitor::Bearer(Arc::new(Bearer {
            claims: AccessTokenClaims {
                iss: "https://id.test".into(),
                sub: anna().sub.to_string(),
                aud,
                exp: TIME,
                iat: TIME,
                jti: "j".into(),
                client_id: "c1".into(),
                scope: scope.into(),
                auth_time: TIME,
                acr: "1".into(),
                amr: vec![],
                grant_id: "g".into(),
            },
            scope: Scope::parse(scope).unwrap(),
            user: anna(),
            client: ClientId::parse("c1").unwrap(),
            self_registered: false,
        }))
    }

    fn ours() -> Audience {
        Audience::One("https://id.test".into())
    }

    fn rule(access: Access, scopes: &[&str], groups: &[&str]) -> Rule {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        Rule { path: "/".into(), access, scopes: owned(scopes), groups: owned(groups) }
    }

    /// The headers that are set, by name; or the refusal.
    fn decided(rule: &Rule, visitor: &Visitor) -> Result<Vec<String>, String> {
        let head = Request::get("/a?b").header("authorization", "Bearer x").body(()).unwrap().into_parts().0;
        let target = head.uri.path_and_query().unwrap();
        let wish = Wish { app: 3, audience: "https://id.test", clients: None, rule, path_and_query: target };
        let permit = decide(&wish, visitor).map_err(|refused| refused.as_str().to_owned())?;
        assert_eq!(permit.app(), 3);
        let rewrite = permit.rewrite(&head);
        assert_eq!(rewrite.path_and_query.as_str(), "/a?b");
        let removed = rewrite.remove.iter().map(|name| format!("-{name}"));
        Ok(removed.chain(rewrite.set.iter().map(|(name, _)| name.to_string())).collect())
    }

    fn is_identified(headers: &[String]) -> bool {
        headers.iter().any(|name| name == "x-forwarded-user")
    }

    #[test]
    fn on_a_public_path_nobody_is_anybody() {
        for visitor in [Visitor::Nobody, bearer(ours(), "openid"), Visitor::Browser(anna())] {
            let headers = decided(&rule(Access::Public, &[], &[]), &visitor).unwrap();
            assert!(!is_identified(&headers));
            assert!(!headers.contains(&"-authorization".to_owned()));
        }
    }

    #[test]
    fn a_bearer_path_takes_a_token_and_nothing_else() {
        let rule = rule(Access::Bearer, &[], &[]);
        let headers = decided(&rule, &bearer(ours(), "openid")).unwrap();
        assert!(is_identified(&headers) && headers.contains(&"-authorization".to_owned()));
        for visitor in [Visitor::Nobody, Visitor::Browser(anna())] {
            assert_eq!(decided(&rule, &visitor), Err("unauthenticated".into()));
        }
    }

    #[test]
    fn a_signed_in_path_takes_a_token_or_a_person() {
        let rule = rule(Access::SignedIn, &[], &[]);
        assert!(is_identified(&decided(&rule, &bearer(ours(), "openid")).unwrap()));
        let headers = decided(&rule, &Visitor::Browser(anna())).unwrap();
        assert!(is_identified(&headers) && !headers.contains(&"-authorization".to_owned()));
        assert_eq!(decided(&rule, &Visitor::Nobody), Err("unauthenticated".into()));
    }

    #[test]
    fn a_token_for_somebody_else_is_refused() {
        for access in [Access::Bearer, Access::SignedIn] {
            let rule = rule(access, &[], &[]);
            let other = bearer(Audience::One("https://other.test".into()), "openid");
            assert_eq!(decided(&rule, &other), Err("audience".into()));
            let both = Audience::Many(vec!["https://other.test".into(), "https://id.test".into()]);
            assert!(decided(&rule, &bearer(both, "openid")).is_ok());
            assert_eq!(decided(&rule, &bearer(Audience::Many(vec![]), "openid")), Err("audience".into()));
        }
    }

    #[test]
    fn a_token_needs_every_scope() {
        let rule = rule(Access::SignedIn, &["profile", "email"], &[]);
        assert_eq!(decided(&rule, &bearer(ours(), "openid profile")), Err("scope".into()));
        assert!(decided(&rule, &bearer(ours(), "openid email profile")).is_ok());
        assert!(decided(&rule, &Visitor::Browser(anna())).is_ok());
    }

    #[test]
    fn one_of_the_groups_is_enough_and_letters_are_exact() {
        for visitor in [bearer(ours(), "openid"), Visitor::Browser(anna())] {
            assert!(decided(&rule(Access::SignedIn, &[], &["admins", "staff"]), &visitor).is_ok());
            for groups in [["admins"], ["Staff"], ["staf"]] {
                assert_eq!(decided(&rule(Access::SignedIn, &[], &groups), &visitor), Err("group".into()));
            }
        }
    }
}
