# Every word that a person reads, in English. The same ids stand in tr.ftl, and each is declared in ../messages.rs.
# A name goes into a sentence whole, inside <bdi>, so that its writing direction stays its own. Messages declared
# `plain` hold no markup.

## On every page

document-title = { $page } – { $operator }
document-title-problem = Error: { $page } – { $operator }
language-switch = Language
language-turkish = Türkçe
language-english = English

## Signing in

login-title = Sign in
login-lead = Use your <bdi>{ $operator }</bdi> account.
login-lead-client = Use your <bdi>{ $operator }</bdi> account to continue to <bdi>{ $client }</bdi>.
login-email = Email address or username
login-password = Password
login-show-password = Show password
login-caps-lock = Caps Lock is on.
login-submit = Sign in
login-wrong-credentials =
    The account or the password is not right. Check both and try again. If you forgot your password, ask your
    administrator for a new one.
login-throttled-seconds =
    { $seconds ->
        [one] Too many attempts to sign in. Wait one second, then try again. Each wrong attempt makes the next wait longer.
       *[other] Too many attempts to sign in. Wait { $seconds } seconds, then try again. Each wrong attempt makes the next wait longer.
    }
login-throttled-minutes =
    { $minutes ->
        [one] Too many attempts to sign in. Wait one minute, then try again. Each wrong attempt makes the next wait longer.
       *[other] Too many attempts to sign in. Wait { $minutes } minutes, then try again. Each wrong attempt makes the next wait longer.
    }
login-busy = Many people are signing in just now, so your password was not checked. Wait a few seconds, then try again.

## Consent

consent-title = Allow access
consent-heading = <bdi>{ $client }</bdi> wants access to your <bdi>{ $operator }</bdi> account
consent-account = You are signed in as <bdi>{ $account }</bdi>.
consent-self-registered =
    <bdi>{ $client }</bdi> registered itself, under a name of its own choice. Nobody at <bdi>{ $operator }</bdi> has checked
    it. Allow it only if you know it and have just started this yourself.
consent-shares = If you allow this, <bdi>{ $client }</bdi> will receive:
consent-scope-openid = Your user ID
consent-scope-profile = Your profile
consent-scope-email = Your email address
consent-scope-phone = Your phone number
consent-scope-groups = The groups that you are in
consent-scope-offline-access = Access while you are away
consent-scope-other = The permission <bdi>{ $scope }</bdi>
consent-nothing-stored = Nothing is stored here at present.
consent-offline = Keep access while I am away
consent-offline-hint =
    <bdi>{ $client }</bdi> can then go on using your account without you signing in again. You can untick this and
    still allow the rest.
consent-return = After your answer you go back to <bdi>{ $host }</bdi>.
consent-remembered = If you allow this, you will not be asked again for the same access.
consent-allow = Allow
consent-deny = Deny

## Choosing an account

chooser-title = Choose an account
chooser-lead = Which account do you want to continue to <bdi>{ $client }</bdi> with?
chooser-lead-own = Which account do you want to manage?
chooser-other = Use another account

## Signing out

logout-title = Sign out?
logout-asked-by = <bdi>{ $client }</bdi> asks to sign you out.
logout-account = You are signed in as <bdi>{ $account }</bdi>.
logout-effect = This ends your session with <bdi>{ $operator }</bdi> in this browser.
logout-confirm = Sign out
logout-stay = To stay signed in, just close this page.
signed-out-title = You are signed out
signed-out-close = You can close this page.
signed-out-close-client = You can close this page or go back to <bdi>{ $client }</bdi>.
signed-out-others = An application may keep its own session open until you sign out there too.

## Not allowed into an application

forbidden-title = No access
forbidden-text = The account <bdi>{ $account }</bdi> has no access to <bdi>{ $app }</bdi>.
forbidden-advice = Ask your administrator for access, or sign in with an account that has it.
forbidden-switch = Use another account

## A form that was kept while its sender signed in

send-again-title = Send the form now?
send-again-text =
    Your sign-in had ended when you sent a form to <bdi>{ $app }</bdi>. What you typed was kept, and has not been sent.
send-again-account = It will be sent as <bdi>{ $account }</bdi>.
send-again-submit = Send the form
send-again-instead = Do not send it
send-again-once = This page is shown once. If you leave it, the form is gone.

## Errors: what happened, and what to do next

error-unknown-client-title = This application is not registered
error-unknown-client-text =
    The application that sent you here is not registered with <bdi>{ $operator }</bdi>, or it has been turned off. Go
    back to the application and tell the people who run it.
error-redirect-uri-title = The return address is not allowed
error-redirect-uri-text =
    The application asked us to send you back to an address that it has not registered, so we stopped here to keep
    you safe. The people who run the application must register exactly the <code>redirect_uri</code> that it sends.
error-no-redirect-uri-title = The return address is missing
error-no-redirect-uri-text =
    The application did not say where to send you back to, so we cannot go on. The people who run the application must send
    the <code>redirect_uri</code> that they registered with every request.
error-logout-redirect-uri-title = The return address is not allowed
error-logout-redirect-uri-text =
    The application asked us to send you, after signing out, to an address that it has not registered, so we stopped
    here. The people who run the application must register exactly the <code>post_logout_redirect_uri</code> that it
    sends.
error-invalid-request-title = The request is not valid
error-invalid-request-text =
    Part of the request is missing or wrong. Go back to the application and start again. If that does not help, tell
    the people who run it.
error-expired-form-title = This page has expired
error-expired-form-text =
    The page was open for too long, or it belongs to another browser. Nothing was changed. Go back to the application
    and start again.
error-cookie-missing-title = A cookie is missing
error-cookie-missing-text =
    Signing in needs one cookie, and your browser did not send it. Allow cookies for this site, then go back to the
    application and start again.
error-nothing-to-do-title = Start from the application
error-nothing-to-do-text =
    No sign-in is in progress in this browser. Open the application that you want to use; it will bring you
    here when needed.
error-not-found-title = Page not found
error-not-found-text = There is no page at this address. Check the address, or go back to where you came from.
error-too-many-requests-title = Too many requests
error-too-many-requests-seconds =
    { $seconds ->
        [one] Too many requests came from your network. Wait one second, then reload this page.
       *[other] Too many requests came from your network. Wait { $seconds } seconds, then reload this page.
    }
error-too-many-requests-minutes =
    { $minutes ->
        [one] Too many requests came from your network. Wait one minute, then reload this page.
       *[other] Too many requests came from your network. Wait { $minutes } minutes, then reload this page.
    }
error-sign-in-loop-title = Signing in does not succeed
error-sign-in-loop-text =
    You were sent back and forth several times, so we stopped. Allow cookies for this site and for the application,
    then open the application again. If that does not help, tell your administrator.
error-upstream-title = The application does not answer
error-upstream-text =
    You did nothing wrong: the application behind this address cannot be reached just now. Try again in a few minutes.
error-unavailable-title = Not available just now
error-unavailable-text = You did nothing wrong: the service is overloaded or being maintained. Try again in a moment.
error-form-of-another-title = The form is somebody else’s
error-form-of-another-text =
    The form that was sent from this browser belongs to another account than the one you have signed in with. It was
    dropped, and nothing was sent.
error-form-not-kept-title = The form is not here any more
error-form-not-kept-text =
    A form waits for 15 minutes and is shown once. Nothing was sent from here. Go back to the application and fill it in
    again.
error-internal-title = Something went wrong
error-internal-text =
    The fault is ours, not yours. Try again; if it happens again, tell your administrator.
error-reference = If you ask for help, give this reference:

## The account pages

skip-to-content = Skip to the content
moment =
    { $month ->
        [1] { $day } January { $year }, { $time } UTC
        [2] { $day } February { $year }, { $time } UTC
        [3] { $day } March { $year }, { $time } UTC
        [4] { $day } April { $year }, { $time } UTC
        [5] { $day } May { $year }, { $time } UTC
        [6] { $day } June { $year }, { $time } UTC
        [7] { $day } July { $year }, { $time } UTC
        [8] { $day } August { $year }, { $time } UTC
        [9] { $day } September { $year }, { $time } UTC
        [10] { $day } October { $year }, { $time } UTC
        [11] { $day } November { $year }, { $time } UTC
       *[12] { $day } December { $year }, { $time } UTC
    }
device = { $browser } on { $system }
device-unknown = Unknown browser

menu-account = Your account
menu-profile = Profile
menu-password = Password
menu-sessions = Devices
menu-applications = Applications
menu-sign-out = Sign out
menu-switch = Use another account

done-profile = Your profile was saved.
done-password = Your password was changed. Every other session has ended, and applications have to ask you to sign in again.
done-session = The session has ended.
done-other-sessions = Every other session has ended.
done-withdrawn = The access was withdrawn.

profile-title = Your profile
profile-lead = Applications see these details when you let them.
profile-email = Email address
profile-email-hint = You sign in with it. Only your administrator can change it.
profile-username = Username
profile-username-hint = You can sign in with it too, and applications may call you by it. Only your administrator can change it.
profile-name = Full name
profile-phone = Phone number (optional)
profile-phone-hint = With the country code, such as +90 555 111 22 33.
profile-picture = Picture (optional)
profile-picture-hint = The address of an image, starting with https://.
profile-save = Save
profile-updated = Last changed on { $moment }.
profile-problem = Nothing was saved. Put the marked fields right and save again.
profile-name-wrong = Type a name of 1 to 200 characters.
profile-phone-wrong = Type the number with a plus sign and the country code, such as +90 555 111 22 33, or leave the field empty.
profile-picture-wrong = Type an address that starts with https://, or leave the field empty.

password-title = Change your password
password-lead = Afterwards you stay signed in here. Every other session ends, and applications have to ask you to sign in again.
password-current = Current password
password-new = New password
password-new-hint = At least 15 characters. A few words that only you would put together are easy to remember and hard to guess.
password-again = New password, once more
password-submit = Change password
password-wrong-current = The current password is not right. Check it and try again. Your password was not changed.
password-too-short = The new password is too short. Choose one with at least 15 characters: a few words are enough.
password-too-long = The new password is too long. Choose a shorter one.
password-personal = The new password contains your name, your username or your email address. Whoever wants to guess it tries those first. Choose another.
password-common = The new password is easy to guess: it is a common one, a row of keys or a repetition. Choose a few words that do not belong together.
password-unchanged = The new password is the same as the current one. Choose another.
password-different = The two new passwords are not the same. Type both again.
password-throttled-seconds =
    { $seconds ->
        [one] Too many wrong passwords. Wait one second, then try again.
       *[other] Too many wrong passwords. Wait { $seconds } seconds, then try again.
    }
password-throttled-minutes =
    { $minutes ->
        [one] Too many wrong passwords. Wait one minute, then try again.
       *[other] Too many wrong passwords. Wait { $minutes } minutes, then try again.
    }
password-busy = Many people are signing in just now, so nothing was changed. Wait a few seconds, then try again.

sessions-title = Where you are signed in
sessions-lead = If you do not know one of these, end it and change your password.
sessions-this = This browser
sessions-signed-in = Signed in on { $moment } from <bdi>{ $address }</bdi>
sessions-last-seen = Last used on { $moment }
sessions-end = End
sessions-end-named = End the session: { $device }, { $address }
sessions-end-others = End every other session
sessions-only = You are signed in nowhere else.

applications-title = Applications with access
applications-lead = You have let these applications know who you are.
applications-none = You have not given any application access yet.
applications-since = Since { $moment }
applications-sees = It may see:
applications-withdraw = Withdraw access
applications-withdraw-named = Withdraw access: { $client }
applications-effect = Without access, an application has to ask you again. What it has stored already stays with it.

## The console

menu-console = Console
menu-clients = Clients
menu-users = People
menu-keys = Signing keys
menu-limits = Limits
copy = Copy
copied = Copied
next-page = Next page
state-disabled = Disabled
state-unapproved = Not approved
form-problem = Nothing was saved. Put the marked fields right and send the form again.
error-console-title = No access to the console
error-console-text = Your account may not use this part of the console. Ask your administrator, or sign in with another account.

done-client = The client was saved.
done-client-deleted = The client was deleted, and everything that it held has ended.
done-client-state = The client's state was changed.
done-user = The changes were saved.
done-user-revoked = All of this person's sessions and tokens have ended.

clients-title = Clients
clients-lead = A client is an application that signs people in here.
clients-none = There is no client yet.
client-new = Register a client
client-new-title = Register a client
client-register = Register
client-name = Name
client-name-hint = People read it when they sign in and when they are asked for consent.
client-name-wrong = Type a name of 1 to 200 characters, all of them visible.
client-description = What it is, in a sentence (optional)
client-description-wrong = Type at most 500 characters on one line, all of them visible.
client-type = Type
client-type-confidential = Confidential
client-type-confidential-hint = It runs on a server and can keep a secret.
client-type-public = Public
client-type-public-hint = It runs in a browser or on people's devices. It has no secret and uses PKCE.
client-redirect-uris = Redirect URIs
client-redirect-uris-hint = One a line, exactly as the client sends them: https, or http on localhost, 127.0.0.1 or [::1].
client-logout-uris = Redirect URIs after signing out (optional)
client-logout-uris-hint = One a line, by the same rules.
client-uris-wrong = Write at least one redirect URI, and at most 20.
client-scopes = Scopes that it may ask for, beside openid
scope-profile = Name and picture
scope-email = Email address
scope-phone = Phone number
scope-offline-access = A refresh token, for work while people are away
client-auth-method = How it sends its secret
client-auth-basic = HTTP Basic (client_secret_basic)
client-auth-post = In the form (client_secret_post)
client-auth-hint = A public client has none.
uri-long = Line { $line }: a redirect URI has at most 2000 characters.
uri-characters = Line { $line }: a redirect URI has no spaces, quotes, backslashes or letters beyond ASCII.
uri-absolute = Line { $line }: write the whole address, such as https://app.example.com/callback.
uri-wildcard = Line { $line }: a redirect URI has no wildcard. Write each address on a line of its own.
uri-fragment = Line { $line }: a redirect URI has no fragment. Take out the # and what follows it.
uri-user = Line { $line }: a redirect URI has no user name. Take out what stands before the @.
uri-scheme = Line { $line }: write https, or http on localhost, 127.0.0.1 or [::1].
uri-host = Line { $line }: the host is not one. Write it with letters, digits, dots and hyphens.

client-id = Client ID
client-issuer = Issuer
client-since = Registered on
client-settings = Settings
client-secret-once = This is the client's secret. Copy it now: it is not shown again.
client-secrets = Secrets
client-secret-since = Made on { $made }
client-secret-until = Made on { $made }, works until { $end }
client-overlap = When a new secret is made, the one before it works for
client-overlap-none = no longer
client-overlap-hour = one more hour
client-overlap-day = one more day
client-overlap-week = one more week
client-rotate = Make a new secret
client-approval = Approval
client-approved = Approved: its tokens open every application that has no list of clients.
client-unapproved = Not approved: its tokens open only the applications that have it on their list of clients.
client-approval-hint = The approval ends when the developer, or the client itself, changes its name, adds a redirect URI or a scope, or makes it public.
client-approve = Approve
client-withdraw-approval = Withdraw the approval
client-disabled-by-administrator = An administrator has disabled this client. Only an administrator can enable it again.
client-end = Disable or delete
client-end-hint = A disabled client is refused everywhere, and its tokens end at once. A deleted one is gone for good.
client-disable = Disable
client-enable = Enable
client-delete = Delete
client-delete-sure = Yes, delete this client and end everything that it holds.
client-delete-wrong = Nothing was deleted. Tick this first: a deleted client does not come back.
client-snippets = Code, ready to paste

trial-title = Try it
trial-link = Try this client
trial-lead = Run a sign-in through <bdi>{ $client }</bdi> and see what it would receive about you.
trial-off = The sign-in comes back to the console, so the client needs one more redirect URI: <code>{ $uri }</code>. Switch it on while you try, and off again for production.
trial-on = The client has the redirect URI <code>{ $uri }</code>. Switch it off when you have finished.
trial-switch-on = Switch on
trial-switch-off = Switch off
trial-start = Sign in
trial-back = Back to the client
trial-succeeded = It works. No token was kept; these are the claims that the client would have received.
trial-id-token = ID token
trial-access-token = Access token
trial-userinfo = UserInfo
trial-refused = The provider answered with the error <code>{ $error }</code>. Change the client's settings, or try again and allow the access.
trial-unknown = This answer belongs to no sign-in that was started here, or it was used before. Start again.

users-title = People
users-find = Find by email address, username or name
users-find-submit = Find
users-find-hint = The beginning is enough.
users-none = Nobody was found.
users-none-yet = Nobody was found so far. There are more people to look through: go on to the next page.
user-new = Add a person
user-new-title = Add a person
user-add = Add
user-email-wrong = Type an address such as name@example.com.
user-email-taken = Somebody has this address already. Find them in the list instead.
user-username = Username (optional)
user-username-hint = The letters a to z, digits, dots, hyphens and underscores, a letter first. It cannot be changed here afterwards: applications know the person by it.
user-username-wrong = Type 1 to 64 of the letters a to z, digits, dots, hyphens and underscores, a letter first, a letter or a digit last.
user-username-taken = Somebody has this username already. Choose another.
user-groups = Groups
user-groups-hint = One a line, without commas, at most 100 characters each. Applications see them.
user-roles = In this console
user-role-developer = Developer: registers clients
user-role-admin = Administrator: sees and changes everything
user-own-role = You cannot take this role away from yourself. Ask another administrator.
user-password-made = A password is made for them. You see it once, on the next page.
user-password-once = This is the new password. Hand it over now: it is not shown again. They can change it on their account page.
user-subject = User ID
user-since = Added on
user-sessions = Where this person is signed in
user-sessions-none = Nowhere.
user-access = Access
user-access-hint = Ending everything signs the person out of every browser and application at once. A disabled person cannot sign in.
user-revoke = End everything
user-reset-password = Make a new password

keys-title = Signing keys
keys-lead = The keys stay in the token device. Rotate them on the command line.
keys-next-change = A key next changes its state on { $moment }.
keys-no-change = No change is planned.
key-pre-published = Published, does not sign yet
key-active = Signs
key-retired = Retired: what it signed still verifies
key-removed = Removed: what it signed is refused
key-published-at = Published on { $moment }
key-activate-at = Signs from { $moment }
key-retire-at = Another key signs from { $moment }
key-remove-at = Removed on { $moment }

limits-title = Limits in force
limits-lead = The configuration file sets them. Whoever goes beyond is answered 429 and told how long to wait.
limits-sign-ins = Sign-ins to the applications
limits-pages = Pages and everything else
limits-by-address =
    { $limit ->
        [one] One request a minute from an address
       *[other] { $limit } requests a minute from an address
    }
limits-by-credential =
    { $limit ->
        [one] One request a minute by a client or token
       *[other] { $limit } requests a minute by a client or token
    }
limits-passwords = Wrong passwords
limits-failures = At most { $account } for an account and { $address } from an address, in { $minutes } minutes

## The audit trail

menu-activity = Activity
menu-audit = Audit trail
activity-title = Recent activity
activity-lead = What has happened to your account. If you do not know something here, change your password.
activity-none = Nothing was noted yet.
activity-by-administrator = Done by an administrator
audit-title = Audit trail
audit-kind = What
audit-kind-any = Everything
audit-person = Person: email address, username or user ID
audit-person-wrong = Nobody is known by this. Type a whole email address, a username or a user ID.
audit-client = Application: client ID
audit-from = From
audit-to = To, that day included
audit-day-wrong = Type a day such as 2026-11-21.
audit-show = Show
audit-none = Nothing was found here.
audit-of-person = What the audit trail says of this person
audit-of-client = What the audit trail says of this client
event-subject = Person
event-actor = By
event-party = Application
event-address = From
event-detail = Detail
event-request = Request
event-from = from <bdi>{ $address }</bdi>
event-with = Application: <bdi>{ $party }</bdi>
event-count = { $count } times
actor-stranger = Somebody who was not signed in
actor-person = The person
actor-client = The client
actor-operator = Somebody on the command line
actor-server = The server by itself
event-signed-in = Signed in
event-sign-in-failed = A sign-in failed
event-app-signed-in = Signed in to a protected application
event-signed-out = Signed out
event-consent-given = Access was allowed
event-consent-withdrawn = Access was withdrawn
event-tokens-issued = Tokens were issued
event-tokens-refreshed = Tokens were renewed
event-reuse-detected = A used code or token was presented again; the access ended
event-token-revoked = A token was revoked
event-grants-ended = Access of applications was ended
event-sessions-ended = Sessions were ended
event-person-revoked = All sessions and tokens were ended
event-client-registered = A client was registered
event-client-changed = A client was changed
event-client-deleted = A client was deleted
event-user-created = A person was added
event-user-changed = Account details were changed
event-user-disabled = The account was disabled
event-user-enabled = The account was enabled
event-user-deleted = A person was deleted
event-password-changed = The password was changed
event-keys-changed = The signing keys' times were changed
event-configuration-reloaded = The configuration was reloaded
