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
login-email = Email address
login-password = Password
login-submit = Sign in
login-wrong-credentials =
    The email address or the password is not right. Check both and try again. If you forgot your password, ask your
    administrator for a new one.
login-throttled-seconds =
    { $seconds ->
        [one] Too many attempts to sign in. Wait one second, then try again.
       *[other] Too many attempts to sign in. Wait { $seconds } seconds, then try again.
    }
login-throttled-minutes =
    { $minutes ->
        [one] Too many attempts to sign in. Wait one minute, then try again.
       *[other] Too many attempts to sign in. Wait { $minutes } minutes, then try again.
    }
login-busy = Many people are signing in just now, so your password was not checked. Wait a few seconds, then try again.

## Consent

consent-title = Allow access
consent-heading = <bdi>{ $client }</bdi> wants access to your <bdi>{ $operator }</bdi> account
consent-account = You are signed in as <bdi>{ $account }</bdi>.
consent-shares = If you allow this, <bdi>{ $client }</bdi> will receive:
consent-scope-openid = Your user ID
consent-scope-profile = Your profile
consent-scope-email = Your email address
consent-scope-phone = Your phone number
consent-scope-other = The permission <bdi>{ $scope }</bdi>
consent-nothing-stored = Nothing is stored here at present.
consent-offline = Keep access while I am away
consent-offline-hint =
    <bdi>{ $client }</bdi> can then go on using your account without you signing in again. You can untick this and
    still allow the rest.
consent-remembered = If you allow this, you will not be asked again for the same access.
consent-allow = Allow
consent-deny = Deny

## Choosing an account

chooser-title = Choose an account
chooser-lead = Which account do you want to continue to <bdi>{ $client }</bdi> with?
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

## Errors: what happened, and what to do next

error-unknown-client-title = This application is not registered
error-unknown-client-text =
    The application that sent you here is not registered with <bdi>{ $operator }</bdi>, or it has been turned off. Go
    back to the application and tell the people who run it.
error-redirect-uri-title = The return address is not allowed
error-redirect-uri-text =
    The application asked us to send you back to an address that it has not registered, so we stopped here to keep
    you safe. The people who run the application must register exactly the <code>redirect_uri</code> that it sends.
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
error-internal-title = Something went wrong
error-internal-text =
    The fault is ours, not yours. Try again; if it happens again, tell your administrator.
error-reference = If you ask for help, give this reference:
