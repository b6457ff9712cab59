//! Rate limit buckets of requests, and how requests are charged.

use crate::limits::LimitScope;
use crate::tokens::clients::INTERNAL_CLIENT;
use crate::web::context::RequestContext;
use sealgate_config::RateLimits;
use sealgate_domain::limiter::{LimitKey, RateLimitStatus, Rule};
use sealgate_domain::rate_limit::RateLimit;

/// Group of requests that share a rate limit setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// `/oauth/authorize`.
    Authorize,
    /// `/oauth/authorize`, for a sign-in to an application behind the gateway or to the provider's
    /// own pages.
    SignIns,
    /// `/oauth/token`.
    Token,
    /// `/oauth/userinfo`.
    UserInfo,
    Discovery,
    /// `/oauth/jwks`.
    Jwks,
    /// `/oauth/revoke`.
    Revoke,
    /// `/oauth/introspect`.
    Introspect,
    /// `/oauth/logout`.
    Logout,
    /// `/oauth/register`.
    Register,
    /// `/api/v1/`.
    Api,
    /// All other paths.
    Pages,
}

impl Bucket {
    /// Returns the bucket of a client's authorization requests.
    ///
    /// Requests that the gateway starts have their own bucket: all users of an office may sign in
    /// at once, and the gateway has already charged them.
    pub fn of_request(client_id: &str) -> Self {
        if client_id.starts_with(INTERNAL_CLIENT) { Self::SignIns } else { Self::Authorize }
    }

    /// Returns the name of the bucket in metrics and in limiter keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorize => "authorize",
            Self::SignIns => "sign_ins",
            Self::Token => "token",
            Self::UserInfo => "userinfo",
            Self::Discovery => "discovery",
            Self::Jwks => "jwks",
            Self::Revoke => "revoke",
            Self::Introspect => "introspect",
            Self::Logout => "logout",
            Self::Register => "register",
            Self::Api => "api",
            Self::Pages => "pages",
        }
    }

    /// Returns the name of the bucket in limiter keys of IPv6 /48s.
    const fn site_name(self) -> &'static str {
        match self {
            Self::Authorize => "authorize_site",
            Self::SignIns => "sign_ins_site",
            Self::Token => "token_site",
            Self::UserInfo => "userinfo_site",
            Self::Discovery => "discovery_site",
            Self::Jwks => "jwks_site",
            Self::Revoke => "revoke_site",
            Self::Introspect => "introspect_site",
            Self::Logout => "logout_site",
            Self::Register => "register_site",
            Self::Api => "api_site",
            Self::Pages => "pages_site",
        }
    }

    /// Returns whether all nodes count the requests together. Requests that a node answers from
    /// memory are counted per node.
    const fn scope(self) -> LimitScope {
        match self {
            Self::Discovery | Self::Jwks | Self::Pages => LimitScope::Node,
            Self::Authorize
            | Self::SignIns
            | Self::Token
            | Self::UserInfo
            | Self::Revoke
            | Self::Introspect
            | Self::Logout
            | Self::Register
            | Self::Api => LimitScope::Cluster,
        }
    }

    const fn limit(self, limits: &RateLimits) -> RateLimit {
        match self {
            Self::Authorize => limits.authorize,
            Self::SignIns => limits.sign_ins,
            Self::Token => limits.token,
            Self::UserInfo => limits.userinfo,
            Self::Discovery => limits.discovery,
            Self::Jwks => limits.jwks,
            Self::Revoke => limits.revoke,
            Self::Introspect => limits.introspect,
            Self::Logout => limits.logout,
            Self::Register => limits.register,
            Self::Api => limits.api,
            Self::Pages => limits.pages,
        }
    }
}

/// Error for a reached rate limit, with the seconds to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded(pub u64);

impl Exceeded {
    fn check(reading: RateLimitStatus) -> Result<(), Self> {
        if reading.allowed { Ok(()) } else { Err(Self(reading.retry_after.unwrap_or(1))) }
    }
}

impl RequestContext<'_> {
    /// Charges a key in the count of the cluster. `name` is the label in metrics.
    pub async fn count(&self, name: &'static str, key: &LimitKey<'_>, rule: Rule) -> Result<(), Exceeded> {
        Exceeded::check(self.take(LimitScope::Cluster, name, key, rule).await)
    }

    async fn take(&self, scope: LimitScope, name: &'static str, key: &LimitKey<'_>, rule: Rule) -> RateLimitStatus {
        let reading = self.sealgate.limits.take(scope, key, rule, self.now).await;
        self.sealgate.metrics.rate_limited(name, reading.allowed);
        reading
    }

    /// Charges the sender's address.
    pub async fn charge_address(&self, bucket: Bucket) -> Result<(), Exceeded> {
        self.charge(bucket, &LimitKey::address(bucket.name(), self.origin.address)).await
    }

    /// Charges the sender's address in [`Bucket::Pages`].
    pub fn charge_page(&self) -> Result<(), Exceeded> {
        let (limits, name) = (&self.sealgate.limits, Bucket::Pages.name());
        let key = LimitKey::address(name, self.origin.address);
        let reading = Rule::from_limit(self.limit(Bucket::Pages)).map(|rule| limits.take_here(&key, rule, self.now));
        self.sealgate.metrics.rate_limited(name, reading.is_none_or(|reading| reading.allowed));
        self.charged.get_or_init(|| reading).map_or(Ok(()), Exceeded::check)
    }

    /// Charges a key against the limit of the bucket. The charge determines the rate limit headers
    /// of the response.
    pub async fn charge(&self, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Exceeded> {
        self.charge_within(self.limit(bucket), bucket, key).await
    }

    /// Charges a key in a bucket, against `limit` instead of the bucket's limit.
    pub async fn charge_within(&self, limit: RateLimit, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Exceeded> {
        let reading = match Rule::from_limit(limit) {
            Some(rule) => Some(self.take(bucket.scope(), bucket.name(), key, rule).await),
            None => None,
        };
        if reading.is_none() {
            self.sealgate.metrics.rate_limited(bucket.name(), true);
        }
        // Only the first charge of a request has an effect. A second charge would be a bug of the
        // endpoint. It would neither refuse the request nor change the headers.
        self.charged.get_or_init(|| reading).map_or(Ok(()), Exceeded::check)
    }

    /// Returns the configured limit of a bucket.
    pub fn limit(&self, bucket: Bucket) -> RateLimit {
        bucket.limit(&self.sealgate.config.rate_limits)
    }

    /// Returns an error if the key's limit is reached. Charges nothing.
    pub fn require_within(&self, limit: RateLimit, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Exceeded> {
        let peek = |rule| self.sealgate.limits.peek(bucket.scope(), key, rule, self.now);
        let reading = Rule::from_limit(limit).map(peek);
        if reading.is_none_or(|reading| reading.allowed) {
            return Ok(());
        }
        self.sealgate.metrics.rate_limited(bucket.name(), false);
        self.charged.get_or_init(|| reading).map_or(Ok(()), Exceeded::check)
    }

    /// Returns whether the request has been charged.
    pub fn is_charged(&self) -> bool {
        self.charged.get().is_some()
    }

    /// Charges the sender's IPv6 /48 in addition to its /64, because one subscriber may control a
    /// whole /48.
    ///
    /// The limit of the /48 is ten times the limit of a /64. For sign-ins to applications, it is
    /// only twice as high, because the limit of a /64 already suffices for a whole office.
    pub async fn charge_site(&self, bucket: Bucket) -> Result<(), Exceeded> {
        let networks = if bucket == Bucket::SignIns { 2 } else { 10 };
        let Some(site) = LimitKey::site(bucket.site_name(), self.origin.address) else { return Ok(()) };
        let Some(rule) = Rule::from_limit(self.limit(bucket)) else { return Ok(()) };
        self.count(bucket.name(), &site, Rule { limit: rule.limit.saturating_mul(networks), ..rule }).await
    }

    /// Returns the status for the rate limit headers, or `None` if no limit applies.
    ///
    /// If the request was not charged, this is the status of the sender's address in
    /// [`Bucket::Pages`].
    pub fn reading(&self) -> Option<RateLimitStatus> {
        self.charged.get().copied().unwrap_or_else(|| {
            let key = LimitKey::address(Bucket::Pages.name(), self.origin.address);
            let limits = &self.sealgate.limits;
            Rule::from_limit(self.limit(Bucket::Pages)).map(|rule| limits.peek(LimitScope::Node, &key, rule, self.now))
        })
    }
}
