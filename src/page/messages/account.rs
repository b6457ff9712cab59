//! The words of the account pages.

use super::{Argument, Declared, Markup, Messages, Safe};

messages! {
    ACCOUNT;
    plain skip_to_content = "skip-to-content" ();
    plain moment_pattern = "moment-pattern" ();
    plain moment_pattern_seconds = "moment-pattern-seconds" ();
    plain device = "device" (browser, system);
    plain device_unknown = "device-unknown" ();

    plain menu_account = "menu-account" ();
    plain menu_home = "menu-home" ();
    plain menu_profile = "menu-profile" ();
    plain menu_password = "menu-password" ();
    plain menu_sessions = "menu-sessions" ();
    plain menu_applications = "menu-applications" ();
    plain menu_app_passwords = "menu-app-passwords" ();
    plain menu_sign_out = "menu-sign-out" ();
    plain menu_switch = "menu-switch" ();

    plain done_profile = "done-profile" ();
    plain done_password = "done-password" ();
    plain done_session = "done-session" ();
    plain done_other_sessions = "done-other-sessions" ();
    plain done_withdrawn = "done-withdrawn" ();

    plain done_app_password = "done-app-password" ();

    plain profile_title = "profile-title" ();
    plain profile_lead = "profile-lead" ();
    plain profile_email = "profile-email" ();
    plain profile_email_hint = "profile-email-hint" ();
    plain profile_username = "profile-username" ();
    plain profile_username_hint = "profile-username-hint" ();
    plain profile_name = "profile-name" ();
    plain profile_phone = "profile-phone" ();
    plain profile_phone_hint = "profile-phone-hint" ();
    plain profile_picture = "profile-picture" ();
    plain profile_picture_hint = "profile-picture-hint" ();
    plain profile_picture_alt = "profile-picture-alt" ();
    plain profile_save = "profile-save" ();
    rich profile_updated = "profile-updated" (moment);
    plain profile_problem = "profile-problem" ();
    plain profile_name_wrong = "profile-name-wrong" ();
    plain profile_phone_wrong = "profile-phone-wrong" ();
    plain profile_picture_wrong = "profile-picture-wrong" ();

    plain password_title = "password-title" ();
    plain password_lead = "password-lead" ();
    plain password_current = "password-current" ();
    plain password_new = "password-new" ();
    plain password_new_hint = "password-new-hint" ();
    plain password_again = "password-again" ();
    plain password_submit = "password-submit" ();
    plain password_wrong_current = "password-wrong-current" ();
    plain password_too_short = "password-too-short" ();
    plain password_too_long = "password-too-long" ();
    plain password_personal = "password-personal" ();
    plain password_common = "password-common" ();
    plain password_unchanged = "password-unchanged" ();
    plain password_different = "password-different" ();
    plain password_throttled_seconds = "password-throttled-seconds" (seconds);
    plain password_throttled_minutes = "password-throttled-minutes" (minutes);
    plain password_busy = "password-busy" ();

    plain sessions_title = "sessions-title" ();
    plain sessions_lead = "sessions-lead" ();
    plain sessions_this = "sessions-this" ();
    rich sessions_signed_in = "sessions-signed-in" (moment, address);
    rich sessions_last_seen = "sessions-last-seen" (moment);
    plain sessions_end = "sessions-end" ();
    plain sessions_end_named = "sessions-end-named" (device, address);
    plain sessions_end_others = "sessions-end-others" ();
    plain sessions_only = "sessions-only" ();

    plain applications_title = "applications-title" ();
    plain applications_lead = "applications-lead" ();
    plain applications_none = "applications-none" ();
    rich applications_since = "applications-since" (moment);
    plain applications_sees = "applications-sees" ();
    plain applications_withdraw = "applications-withdraw" ();
    plain applications_withdraw_named = "applications-withdraw-named" (client);
    plain applications_effect = "applications-effect" ();

    plain home_title = "home-title" ();
    plain home_none = "home-none" ();

    plain app_passwords_title = "app-passwords-title" ();
    plain app_passwords_lead = "app-passwords-lead" ();
    plain app_passwords_full = "app-passwords-full" ();
    plain app_passwords_nowhere = "app-passwords-nowhere" ();
    plain app_password_once = "app-password-once" ();
    rich app_password_use = "app-password-use" (app, user);
    rich app_password_made = "app-password-made" (app, moment);
    rich app_password_used = "app-password-used" (moment);
    plain app_password_unused = "app-password-unused" ();
    plain app_password_revoke = "app-password-revoke" ();
    plain app_password_revoke_named = "app-password-revoke-named" (name);
    plain app_password_new = "app-password-new" ();
    plain app_password_app = "app-password-app" ();
    plain app_password_name = "app-password-name" ();
    plain app_password_name_hint = "app-password-name-hint" ();
    plain app_password_name_wrong = "app-password-name-wrong" ();
    plain app_password_make = "app-password-make" ();
}
