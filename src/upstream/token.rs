//! Requests to the token endpoint (RFC 6749 §4.1.3, §5, §6), and to the UserInfo endpoint (OpenID
//! Connect Core §5.3).

use http::{Response, StatusCode};
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::credential::ProviderCredential;
use crate::fault::{UpstreamFault, UpstreamFaultKind};
use crate::requests::{get_with_token, post_form};
use sealgate_domain::oauth::strict_json;
use sealgate_domain::oauth::upstream_metadata::ClientAuthentication;
use sealgate_domain::profile::visible_part;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::Web;

/// Maximum length of an access token and of a refresh token in bytes.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// Maximum length of an answer of the token endpoint in bytes: three tokens and some members.
const MAX_ANSWER_LENGTH: usize = 128 * 1024;

/// Maximum length of a UserInfo response in bytes.
pub(crate) const MAX_USER_INFO_LENGTH: usize = 64 * 1024;

/// Maximum length of a provider's error text in messages, in characters.
const MAX_ERROR_LENGTH: usize = 300;

/// Tokens that a provider has issued.
#[expect(clippy::struct_field_names, reason = "the names of RFC 6749")]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: Secret,
    pub(crate) id_token: Option<String>,
    pub(crate) refresh_token: Option<Secret>,
}

/// Reason why a provider has issued no tokens.
pub(crate) enum TokenRefusal {
    /// The code or the refresh token is not valid (`invalid_grant`).
    Grant,
    /// The provider has answered with another error about this request. It says nothing about other
    /// users.
    Refused(UpstreamFault),
    Unavailable(UpstreamFault),
}

impl From<UpstreamFault> for TokenRefusal {
    fn from(fault: UpstreamFault) -> Self {
        Self::Unavailable(fault)
    }
}

/// Requests tokens. Blocking.
pub(crate) fn request_tokens(
    web: &Web,
    endpoint: &str,
    mut form: Vec<(&'static str, Secret)>,
    credential: &ProviderCredential,
    methods: ClientAuthentication,
    now: UnixTime,
) -> Result<TokenAnswer, TokenRefusal> {
    let authorization = credential.authenticate(&mut form, methods, now)?;
    let mut body = form_urlencoded::Serializer::new(String::new());
    for (name, value) in &form {
        body.append_pair(name, value.expose());
    }
    let response = post_form(web, endpoint, &Secret::new(body.finish()), authorization.as_ref())?;
    parse_answer(endpoint, &response)
}

fn parse_answer(endpoint: &str, response: &Response<Vec<u8>>) -> Result<TokenAnswer, TokenRefusal> {
    let answer = |text: String| UpstreamFault::new(UpstreamFaultKind::Answer, format!("{endpoint}: {text}"));
    let status = response.status();
    let members = Some(response.body()).filter(|body| body.len() <= MAX_ANSWER_LENGTH);
    let members = members.and_then(|body| strict_json::object(body));
    // GitHub sends errors with status 200.
    if let Some(error) = members.as_ref().and_then(|members| members.get("error")) {
        let is_decided = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
        return Err(refusal(endpoint, error.as_str().unwrap_or_default(), members.as_ref(), is_decided));
    }
    if status != 200 {
        return Err(answer(format!("the response has the status {status}, expected 200; check the provider")).into());
    }
    let unusable = || answer("the response is not JSON, repeats a member, or is too long; check the provider".into());
    let members = members.ok_or_else(unusable)?;
    let text = |name: &str, longest: usize| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= longest => Ok(Some(text.clone())),
        Some(_) => Err(answer(format!("{name} is empty, too long or no text; check the provider"))),
    };
    if !text("token_type", 64)?.is_some_and(|kind| kind.eq_ignore_ascii_case("Bearer")) {
        return Err(answer("token_type is not Bearer, the only supported type; check the provider".into()).into());
    }
    let missing = || answer("the response has no access_token; check the provider".into());
    Ok(TokenAnswer {
        access_token: text("access_token", MAX_TOKEN_LENGTH)?.map(Secret::new).ok_or_else(missing)?,
        // The check of the token refuses a longer one, which is no failure of the provider.
        id_token: text("id_token", MAX_ANSWER_LENGTH)?,
        refresh_token: text("refresh_token", MAX_TOKEN_LENGTH)?.map(Secret::new),
    })
}

/// Returns the refusal for an error of the token endpoint (RFC 6749 §5.2). `is_decided` is false if the
/// status says that the provider could not decide.
fn refusal(endpoint: &str, error: &str, members: Option<&Map<String, Value>>, is_decided: bool) -> TokenRefusal {
    // The last two are GitHub's words.
    if is_decided && matches!(error, "invalid_grant" | "bad_verification_code" | "bad_refresh_token") {
        return TokenRefusal::Grant;
    }
    let description = members.and_then(|members| members.get("error_description")).and_then(Value::as_str);
    let shown = |text: &str| visible_part(&text.chars().take(MAX_ERROR_LENGTH).collect::<String>());
    let reason = match description {
        Some(description) => format!("{} ({})", shown(error), shown(description)),
        None => shown(error),
    };
    let (kind, remedy) = match error {
        "invalid_client" | "unauthorized_client" | "incorrect_client_credentials" => {
            (UpstreamFaultKind::Client, "check client_id, and client_secret_file or client_key, at the provider")
        }
        "invalid_request" | "invalid_scope" | "unsupported_grant_type" | "redirect_uri_mismatch" => {
            (UpstreamFaultKind::Client, "check the redirect URI and the scopes at the provider")
        }
        _ => (UpstreamFaultKind::Answer, "check the provider"),
    };
    let fault = UpstreamFault::new(kind, format!("{endpoint}: the provider refused the request: {reason}; {remedy}"));
    let is_about_server = matches!(
        error,
        "invalid_client"
            | "unauthorized_client"
            | "incorrect_client_credentials"
            | "server_error"
            | "temporarily_unavailable"
    );
    if is_decided && !is_about_server { TokenRefusal::Refused(fault) } else { fault.into() }
}

/// Reads the claims at the UserInfo endpoint. Blocking.
pub(crate) fn read_user_info(web: &Web, endpoint: &str, token: &Secret) -> Result<Map<String, Value>, UpstreamFault> {
    let response = get_with_token(web, endpoint, token)?;
    let fault = |text: String| UpstreamFault::new(UpstreamFaultKind::Answer, format!("{endpoint}: {text}"));
    if response.status() != 200 {
        let status = response.status();
        return Err(fault(format!("the response has the status {status}, expected 200; check the provider")));
    }
    let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.to_ascii_lowercase().starts_with("application/jwt") {
        return Err(fault("the response is signed; configure plain JSON for UserInfo at the provider".into()));
    }
    if response.body().len() > MAX_USER_INFO_LENGTH {
        return Err(fault(format!("the response has more than {MAX_USER_INFO_LENGTH} bytes; request fewer claims")));
    }
    let malformed = || fault("the response is not a JSON object, or repeats a member; check the provider".into());
    strict_json::object(response.body()).ok_or_else(malformed)
}
