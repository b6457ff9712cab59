//! The words of the audit trail.

use super::{Argument, Declared, Markup, Messages, Safe};

messages! {
    EVENTS;
    plain menu_activity = "menu-activity" ();
    plain menu_audit = "menu-audit" ();
    plain activity_title = "activity-title" ();
    plain activity_lead = "activity-lead" ();
    plain activity_none = "activity-none" ();
    plain activity_by_administrator = "activity-by-administrator" ();
    plain audit_title = "audit-title" ();
    plain audit_kind = "audit-kind" ();
    plain audit_kind_any = "audit-kind-any" ();
    plain audit_person = "audit-person" ();
    plain audit_person_wrong = "audit-person-wrong" ();
    plain audit_client = "audit-client" ();
    plain audit_from = "audit-from" ();
    plain audit_to = "audit-to" ();
    plain audit_day_wrong = "audit-day-wrong" ();
    plain audit_show = "audit-show" ();
    plain audit_none = "audit-none" ();
    plain audit_of_person = "audit-of-person" ();
    plain audit_of_client = "audit-of-client" ();
    plain event_subject = "event-subject" ();
    plain event_actor = "event-actor" ();
    plain event_party = "event-party" ();
    plain event_address = "event-address" ();
    plain event_detail = "event-detail" ();
    plain event_request = "event-request" ();
    rich event_from = "event-from" (address);
    rich event_with = "event-with" (party);
    plain event_count = "event-count" (count);
    plain actor_stranger = "actor-stranger" ();
    plain actor_person = "actor-person" ();
    plain actor_client = "actor-client" ();
    plain actor_operator = "actor-operator" ();
    plain actor_server = "actor-server" ();

    plain event_signed_in = "event-signed-in" ();
    plain event_sign_in_failed = "event-sign-in-failed" ();
    plain event_app_signed_in = "event-app-signed-in" ();
    plain event_signed_out = "event-signed-out" ();
    plain event_consent_given = "event-consent-given" ();
    plain event_consent_withdrawn = "event-consent-withdrawn" ();
    plain event_tokens_issued = "event-tokens-issued" ();
    plain event_tokens_refreshed = "event-tokens-refreshed" ();
    plain event_reuse_detected = "event-reuse-detected" ();
    plain event_token_revoked = "event-token-revoked" ();
    plain event_grants_ended = "event-grants-ended" ();
    plain event_sessions_ended = "event-sessions-ended" ();
    plain event_person_revoked = "event-person-revoked" ();
    plain event_client_registered = "event-client-registered" ();
    plain event_client_changed = "event-client-changed" ();
    plain event_client_deleted = "event-client-deleted" ();
    plain event_user_created = "event-user-created" ();
    plain event_user_changed = "event-user-changed" ();
    plain event_user_disabled = "event-user-disabled" ();
    plain event_user_enabled = "event-user-enabled" ();
    plain event_user_deleted = "event-user-deleted" ();
    plain event_password_changed = "event-password-changed" ();
    plain event_keys_changed = "event-keys-changed" ();
    plain event_configuration_reloaded = "event-configuration-reloaded" ();
}
