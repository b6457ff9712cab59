# All texts for users, in English. The build generates a method for each message (build.rs). It fails if tr.ftl lacks a
# message or uses other arguments. A method takes its arguments in alphabetical order.
# A message is markup, and its arguments are escaped. A name is inside <bdi>, so that its writing direction does not affect
# the sentence. Messages for titles and attributes contain no tag.

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
login-show = Show
login-show-password = Show password
login-caps-lock = Caps Lock is on.
login-keep = Keep me signed in on this device
login-keep-hint = You stay signed in when you close the browser. Do not select this on a device that others use.
login-submit = Sign in
login-wrong-credentials =
    Incorrect email address, username or password. Check them and try again. If you have forgotten your password, ask your
    administrator for a new one.
login-throttled-seconds =
    { $seconds ->
        [one] Too many sign-in attempts. Wait one second and try again. Each wrong attempt makes the next wait longer.
       *[other] Too many sign-in attempts. Wait { $seconds } seconds and try again. Each wrong attempt makes the next wait longer.
    }
login-throttled-minutes =
    { $minutes ->
        [one] Too many sign-in attempts. Wait one minute and try again. Each wrong attempt makes the next wait longer.
       *[other] Too many sign-in attempts. Wait { $minutes } minutes and try again. Each wrong attempt makes the next wait longer.
    }
login-forgot = Forgot password?
login-create-account = No account? Create one
login-or = or
login-wrong-credentials-reset = Incorrect email address, username or password. Check them and try again. If you have forgotten your password, reset it below.
login-directory-away = You are not signed in, because your organization’s directory does not answer. Check your input, wait a few seconds and try again.
login-account-disabled = Your account is disabled in your organization’s directory. Ask your administrator to enable it.
login-account-expired = Your account in your organization’s directory has expired. Ask your administrator to extend it.
login-password-expired = Your password has expired. Change it where you sign in to your organization’s computers, then sign in here with the new password.
login-name-taken = Another account here already has your email address or username. Ask your administrator to link the accounts.
login-nameless = Your account in your organization’s directory has neither an email address nor a username that can be used here. Ask your administrator to add one.
login-upstream = Continue with <bdi>{ $label }</bdi>
login-local = Sign in with a password of this service
login-upstream-denied = The sign-in at <bdi>{ $label }</bdi> was cancelled or denied. Try again, or choose another way to sign in.
login-upstream-error = <bdi>{ $label }</bdi> reported an error, so you were not signed in. Try again. If it happens again, tell your administrator.
login-upstream-away = <bdi>{ $label }</bdi> does not answer, so you were not signed in. Wait a few seconds and try again.
login-upstream-invalid = The answer of <bdi>{ $label }</bdi> could not be accepted, so you were not signed in. Try again. If it happens again, tell your administrator.
login-upstream-groups = You are in so many groups at <bdi>{ $label }</bdi> that it does not list them. Tell your administrator.
login-upstream-not-allowed = Your account at <bdi>{ $label }</bdi> may not be used here. Sign in with another account there, or ask your administrator.
login-upstream-not-linked = Your account at <bdi>{ $label }</bdi> is not linked to an account here. Ask your administrator to link it.
login-upstream-name-taken = Another account here already has the email address or username of your account at <bdi>{ $label }</bdi>. Ask your administrator to link the accounts.
login-upstream-nameless = Your account at <bdi>{ $label }</bdi> has neither an email address nor a username that can be used here. Ask your administrator to add one.
login-upstream-disabled = Your account is disabled. Ask your administrator to enable it.
login-upstream-not-recent = This page needs a new sign-in, but <bdi>{ $label }</bdi> did not ask you to sign in again. Sign out there and try again. If it happens again, tell your administrator.
login-upstream-other-origin = The settings for <bdi>{ $label }</bdi> have changed since your last sign-in, so your account here is not used. Ask your administrator to link it again.
login-busy = Many people are signing in right now, so your password was not checked. Wait a few seconds and try again.

## Leaving for an OpenID provider

leave-title = Continue the sign-in
leave-text = You sign in at <bdi>{ $label }</bdi> and then return here.
leave-submit = Continue
leave-out-title = Signing out
leave-out-text = You are signed out here. Next, you will be signed out at <bdi>{ $label }</bdi>, too.

## A forgotten password

forgot-title = Forgot your password?
forgot-lead = Enter your email address or username. If it belongs to a <bdi>{ $operator }</bdi> account, we will email you a link to choose a new password.
forgot-submit = Send link
forgot-sign-in = Back to sign-in
forgot-asked-title = Check your email
forgot-asked-lead = If the account exists, we have sent it an email. The link in it works once, for 30 minutes.
forgot-asked-late = If nothing arrives within a few minutes, look in your spam folder.
forgot-asked-other = You may also have an account under another address or username.
forgot-again = Try another address or username
forgot-asked-administrator = If no email arrives, ask your administrator: your address may not be verified yet, or you may have asked too often.
reset-title = Choose a new password
reset-lead = Choose a new password for the <bdi>{ $operator }</bdi> account <bdi>{ $account }</bdi>. If this is not your account, close this page.
reset-submit = Set new password
reset-ends = You will be signed out everywhere, and applications will ask you to sign in again. Two-factor authentication stays on.
reset-done-title = Your password was changed
reset-done-lead = You were signed out everywhere. Sign in with your new password.
reset-done-second-step = If you use two-factor authentication, you will be asked for it as usual. If you have lost your two-factor method too, ask your administrator.
error-reset-link-title = This link no longer works
error-reset-link-text = A reset link works once, for 30 minutes. It stops working when the password, the email address or the account changes. Go to the sign-in page and ask for a new one.
error-undo-link-text = A link that undoes a change of address works once, for up to 14 days. If someone else is using your account, tell your administrator.

## Registration

create-title = Create an account
create-lead = Create your <bdi>{ $operator }</bdi> account. We’ll verify your email address first.
create-email = Email address
create-hint = We will send a verification code to it.
create-hint-domains = We will send a verification code to it. Addresses at these domains can be used: <bdi>{ $domains }</bdi>
create-domain = This address cannot be used for an account. Enter an address at <bdi>{ $domains }</bdi>, or ask your administrator.
create-busy = Too many people are creating accounts right now. Try again in a few minutes.
create-over = This browser is not waiting for a code: the code expired, was entered incorrectly too often, or was requested in another browser. Enter your address again.
create-taken = This address already belongs to an account. Go back and sign in with it. If you have forgotten its password, you can reset it there.
create-code-lead = We sent an email to the address that you entered. If the address can be used for an account, the email contains a verification code. Enter it here, in this browser, within 15 minutes.
create-code-none = No email? Check the address, wait a few minutes, then enter it again. After several attempts, no more emails are sent for an hour. Only the newest code works.
create-finish-title = Set up your account
create-finish-lead = Your <bdi>{ $operator }</bdi> account will have this address: <bdi>{ $address }</bdi>
create-finish-submit = Create account and continue
create-finish-then = You are signed in right away.

## Invitations

invitation-title = Accept the invitation
invitation-lead = <bdi>{ $operator }</bdi> has created an account for <bdi>{ $account }</bdi>. If this is not your address, close this page.
invitation-lead-inviter = <bdi>{ $inviter }</bdi> invites you to <bdi>{ $operator }</bdi>. The account is for <bdi>{ $account }</bdi>. If this is not your address, close this page.
invitation-shared = Another user is signed in to this browser. Your account stays separate: you will be asked to sign in with it.
invitation-password = Choose a password
invitation-submit = Set password and continue
invitation-passkey = Use a passkey instead
invitation-passkey-name = Name of the passkey (optional)
invitation-passkey-only = Your account will have no password. Use a passkey that is also on your other devices, or add another one later.
invitation-password-instead = Choose a password instead
invitation-then = Next, sign in with the password or passkey that you choose here.
invitation-then-app = Next, sign in with the password or passkey that you choose here, and continue to <bdi>{ $app }</bdi>.
error-invitation-link-title = This invitation no longer works
error-invitation-link-text = If you have already accepted the invitation, sign in with the password or passkey that you chose. Otherwise the invitation was withdrawn, replaced by a newer one, or is older than 7 days: ask for a new one.

## Passkeys and two-factor authentication

passkey-login = Sign in with a passkey
login-passkey-refused =
    The passkey was not accepted, so you are not signed in. Try it again, or sign in with your password.
# Results of a browser's request for a key. These messages are used in attributes.
ceremony-waiting = Follow the instructions of your browser. Touch your security key when it blinks.
ceremony-cancelled = Nothing was confirmed: the request was cancelled, or this device has no key for your account. Try again or choose another way.
ceremony-not-made = Nothing was added: the request was cancelled, or the key does not support it. A passkey needs a PIN, a fingerprint or a face. Try again or choose another way.
ceremony-late = You did not confirm in time. Try again.
ceremony-known = This device or key has already been added to your account. Use a different one.
ceremony-security = Keys do not work at this address. Open the site at its usual address, or tell your administrator.
ceremony-unsupported = This browser or key cannot do that. Choose another key, another browser or another way.
ceremony-failed = The key gave no usable answer. Try again or choose another way.

factor-title = Verify it’s you
factor-account = You are signing in as <bdi>{ $account }</bdi>.
factor-account-client = You are signing in to <bdi>{ $client }</bdi> as <bdi>{ $account }</bdi>.
factor-app-code = Code from your authenticator app
factor-app-hint = The app shows six digits, which change every 30 seconds.
factor-recovery-code = Recovery code
factor-recovery-hint = One of the codes that you saved when you set up two-factor authentication. Each works once.
factor-key-text = Plug in your security key or hold it to this device, then press the button. A passkey works here too.
factor-key-start = Use security key or passkey
factor-key-scripts = A security key works only with JavaScript, which is switched off or did not load. Switch it on and reload this page.
factor-key-scripts-others = Or choose another way below.
factor-submit = Continue
factor-ways = Ways to verify
factor-way-app = Authenticator app
factor-way-key = Security key
factor-way-recovery = Recovery code
factor-lost = If you have none of these at hand, ask your administrator for help.
factor-start-over = Use another account
factor-wrong-code = The code is incorrect. Enter the next code that your app shows. Each code works only once.
factor-wrong-recovery = The recovery code is incorrect. Check it and try again. Each code works only once.
factor-clock = The code could not be verified because the clock of your device is wrong. Set it to automatic, then enter the next code.
factor-wait-seconds =
    { $seconds ->
        [one] Too many wrong attempts. Wait one second and try again. Each wrong attempt makes the next wait longer.
       *[other] Too many wrong attempts. Wait { $seconds } seconds and try again. Each wrong attempt makes the next wait longer.
    }
factor-wait-minutes =
    { $minutes ->
        [one] Too many wrong attempts. Wait one minute and try again. Each wrong attempt makes the next wait longer.
       *[other] Too many wrong attempts. Wait { $minutes } minutes and try again. Each wrong attempt makes the next wait longer.
    }
factor-blocked = This method is blocked after too many wrong attempts. Verify in another way to unblock it, or ask your administrator.
factor-key-refused = The key was not accepted. Use a key that you have added to your account, or choose another way.
factor-key-copied =
    The key was not accepted this time: it may have been copied. If you have just used it in another window, try again.
    Otherwise verify in another way and remove the key from your account.
factor-busy = The service is busy, so nothing was checked. Wait a few seconds and try again.

factor-kind-app = Authenticator app
factor-kind-security-key = Security key
factor-kind-passkey = Passkey
factor-kind-recovery = Recovery codes
factor-in-browser = Passkey in { $browser } on { $system }
factor-named = { $kind }: <bdi>{ $name }</bdi>

enrol-title = Set up two-factor authentication
enrol-lead = Two-factor authentication protects your account even if someone learns your password.
enrol-account = You are setting it up for <bdi>{ $account }</bdi>.
enrol-choose-app = Authenticator app
enrol-choose-app-hint = An app on your phone shows a code that you type after your password.
enrol-choose-key = Security key or passkey
enrol-choose-key-hint = A key that you plug in, or the screen lock of your phone or computer. It protects you from fake sign-in pages too.
enrol-strong = Only a security key or a passkey is strong enough here.
enrol-other = Set up in another way
enrol-app-title = Set up an authenticator app
enrol-app-scan = Scan this code with your authenticator app:
enrol-app-link = Open the app on this device
enrol-app-secret = If you cannot scan it, enter this secret in the app:
enrol-app-code = Code that the app shows now
enrol-app-confirm = Confirm
enrol-name = Name (optional)
enrol-name-hint = A name that helps you recognize it later, such as “my phone”.
enrol-key-title = Set up a security key or passkey
enrol-key-security = Add a security key
enrol-key-security-hint = A security key is asked for after your password.
enrol-key-passkey = Create a passkey
enrol-key-passkey-hint = A passkey signs you in without your password: your device asks for your PIN, fingerprint or face.
enrol-key-scripts = Keys work only with JavaScript. Add an authenticator app too: with it you can sign in on devices where JavaScript is off, and after you have lost the key.
enrol-later = Not now
enrol-later-until = You can postpone this until { $moment }.
enrol-wrong-code = The code is incorrect. Enter the one that the app shows now. If it is refused again, remove the entry from the app and scan the code again.
enrol-expired = The time to confirm has expired, so a new code was created. Remove the old entry from your app and scan this one.
enrol-key-known = This key has already been added to an account. Use a different one.
enrol-key-refused = The key was not added, because its answer could not be verified. Try again or use a different one.
enrol-key-unverified = The passkey was not added: the device did not ask for your PIN, fingerprint or face. Add it as a security key, or use a different device.
enrol-full = You have reached the maximum number of two-factor methods. Remove one that you no longer use, then try again.

codes-title = Save your recovery codes
codes-lead = If you cannot use your two-factor method, each of these codes replaces it once. Keep them where only you can find them. They will not be shown again.
codes-replaced = Your previous codes no longer work.
codes-of = Recovery codes for <bdi>{ $account }</bdi> at <bdi>{ $operator }</bdi>
codes-download = Download
codes-print = Print
codes-kept = I have saved them

unmet-title = A stronger sign-in is needed
unmet-two = <bdi>{ $client }</bdi> requires a sign-in with two-factor authentication.
unmet-two-own = This page requires a sign-in with two-factor authentication.
unmet-resistant = <bdi>{ $client }</bdi> requires a sign-in with a security key or a passkey.
unmet-resistant-own = This page requires a sign-in with a security key or a passkey.
unmet-account = Your account <bdi>{ $account }</bdi> has no suitable method yet.
unmet-way-self = Add it on the page “Security” of your account, then open the application again.
unmet-way-administrator = Ask your administrator to set it up for you, then open the application again.
unmet-security = Go to “Security”
unmet-back = Go back to <bdi>{ $client }</bdi>
unmet-back-own = Go back
error-factors-reset-title = Open the link from your administrator
error-factors-reset-text =
    Your account has no two-factor method. Open the link that an administrator gave you to set one up. The link works once,
    for 24 hours. If you do not have it, ask your administrator for one.
error-enrolment-link-title = This link no longer works
error-enrolment-link-text = The link works once, for 24 hours, and only until a newer one is created. Ask your administrator for a new one.

## Consent

consent-title = Allow access
consent-heading = <bdi>{ $client }</bdi> wants access to your <bdi>{ $operator }</bdi> account
consent-account = You are signed in as <bdi>{ $account }</bdi>.
consent-self-registered =
    <bdi>{ $client }</bdi> registered itself here and chose its own name. <bdi>{ $operator }</bdi> has not reviewed it.
    Allow it only if you know it and have just started this yourself.
consent-on-device =
    <bdi>{ $client }</bdi> is a program on this device. Other programs here could use its name. Allow this only if you have
    just started it yourself.
consent-needs-approval =
    An administrator of <bdi>{ $operator }</bdi> has to approve <bdi>{ $client }</bdi> before it can use the protected
    applications for you. Until then they refuse it.
consent-resource = If you allow this, <bdi>{ $client }</bdi> can use <bdi>{ $app }</bdi> on your behalf:
consent-resource-address = Address of the application
consent-shares = If you allow this, <bdi>{ $client }</bdi> will receive:
consent-scope-openid = Your user ID
consent-scope-profile = Your profile
consent-scope-email = Your email address
consent-scope-phone = Your phone number
consent-scope-groups = The groups that you are in
consent-scope-offline-access = Access while you are away
consent-nothing-stored = Nothing is stored here yet.
consent-no-address = Your account has no email address.
consent-offline = Keep access while I am away
consent-offline-hint =
    <bdi>{ $client }</bdi> can then keep using your account without you signing in again. You can clear this box and
    still allow the rest.
consent-publisher = Published by
consent-publisher-operator = <bdi>{ $operator }</bdi>
consent-publisher-developer = <bdi>{ $developer }</bdi>. Not reviewed by <bdi>{ $operator }</bdi>.
consent-publisher-nobody = Unknown. Not reviewed by <bdi>{ $operator }</bdi>.
consent-publisher-itself = Unknown: it registered itself
consent-new = New
consent-website = Website
consent-terms = Terms of use
consent-policy = Privacy policy
consent-return = Sends you back to
consent-remembered = If you allow this, you will not be asked again for the same access.
consent-allow = Allow
consent-deny = Deny

## Choosing an account

chooser-title = Choose an account
chooser-lead = Choose the account to continue to <bdi>{ $client }</bdi> with.
chooser-lead-own = Choose the account that you want to manage.
chooser-other = Use another account

## Signing out

logout-title = Sign out?
logout-asked-by = <bdi>{ $client }</bdi> is asking to sign you out.
logout-account = You are signed in as <bdi>{ $account }</bdi>.
logout-effect = This ends your session with <bdi>{ $operator }</bdi> in this browser.
logout-confirm = Sign out
logout-stay = Stay signed in
signed-out-title = You are signed out
signed-out-close = You can close this page.
signed-out-upstream = You are still signed in at <bdi>{ $label }</bdi>. On a shared device, sign out there, too.
signed-out-close-client = You can close this page or go back to <bdi>{ $client }</bdi>.
signed-out-app-login = You are signed out of <bdi>{ $app }</bdi> too.
signed-out-others = You may still be signed in to some applications until you sign out of them too.
signed-out-sign-in = Sign in again

## No access to an application

forbidden-title = You do not have access
forbidden-text = <bdi>{ $account }</bdi> does not have access to <bdi>{ $app }</bdi>.
forbidden-advice = Ask your administrator for access, or sign in with an account that has it.
forbidden-switch = Use another account

app-login-title = <bdi>{ $app }</bdi> has its own sign-in
app-login-missing = <bdi>{ $app }</bdi> has usernames and passwords of its own. Enter yours once; after that you are signed in automatically.
app-login-refused = <bdi>{ $app }</bdi> did not accept your stored username or password. Enter them again.
app-login-service = <bdi>{ $app }</bdi> did not accept its service account. Ask your administrator to correct the password.
app-login-enter = Enter username and password

## A form that was kept while its sender signed in

return-form-title = One moment
return-form-text = You are on your way back to <bdi>{ $host }</bdi>. If nothing happens, press the button.
return-form-submit = Continue

kept-form-title = Show your form?
kept-form-text =
    Your sign-in at <bdi>{ $app }</bdi> had ended when you sent a form. The form is kept for 15 minutes and shown once.
kept-form-submit = Show the form
send-again-title = Send the form now?
send-again-text =
    You had been signed out when you submitted a form to <bdi>{ $app }</bdi>. What you entered was saved, but it has not
    been sent yet.
send-again-account = It will be sent as <bdi>{ $account }</bdi>.
send-again-submit = Send the form
send-again-instead = Continue without sending
send-again-once = This page is shown only once. If you leave it, what you entered is lost.

## Errors: what happened, and what to do next

error-unknown-client-title = This application is not registered
error-unknown-client-text =
    The application that sent you here is not registered with <bdi>{ $operator }</bdi>, or it has been disabled. Go back
    to the application and tell the people who run it.
error-redirect-uri-title = Redirect address not allowed
error-redirect-uri-text =
    The application asked us to send you to an address that it has not registered, so we stopped here to keep you safe.
    The people who run the application need to register the exact <code>redirect_uri</code> that it sends.
error-no-redirect-uri-title = Redirect address missing
error-no-redirect-uri-text =
    The application did not say where to send you back to, so we cannot continue. The people who run the application need
    to send their registered <code>redirect_uri</code> with every request.
error-logout-redirect-uri-title = Redirect address not allowed
error-logout-redirect-uri-text =
    The application asked us to send you, after signing out, to an address that it has not registered, so we stopped here.
    The people who run the application need to register the exact <code>post_logout_redirect_uri</code> that it sends.
error-invalid-request-title = This request is not valid
error-invalid-request-text =
    Part of the request is missing or incorrect. Go back to the application and start again. If that does not help, tell
    the people who run it.
error-expired-form-title = This page has expired
error-expired-form-text =
    The page was open for too long, or it was opened in another browser. Nothing was changed. Go back to the application
    and start again.
error-cookie-missing-title = Start the sign-in in this browser
error-cookie-missing-text =
    This sign-in was started in another browser, or your browser did not keep its cookie. Go to the application and sign in
    from there. If this page comes back, allow cookies for this site.
error-nothing-to-do-title = Start from the application
error-nothing-to-do-text =
    No sign-in is in progress in this browser. Open the application that you want to use; it will bring you here when you
    need to sign in.
error-signed-in-already-title = You are already signed in
error-signed-in-already-text = This step is done; there is nothing left to do on this page.
error-unknown-host-title = There is nothing at this address
error-unknown-host-text = No application uses this host name. Check the address for typos.
error-for-programs-title = This address is for applications
error-for-programs-text = Applications use it to talk to each other. There is nothing to see here.
error-link-trip-title = The accounts were not linked
error-link-trip-text = This link was already added or cancelled, has expired, or was started in another browser or another session. Nothing was changed. Open “Security” in your account to start again.
error-upstream-trip-title = This sign-in is over
error-upstream-trip-text = Your sign-in at another provider was already completed, has expired, or was started in another browser. You were not signed in by it. Start again.
way-again = Try again
way-application = Go to <bdi>{ $name }</bdi>
way-start = Go to the start page
way-account = Go to your account
way-another-account = Use another account
error-not-found-title = Page not found
error-not-found-text = There is no page at this address. Check the address for typos.
maintenance-title = Under maintenance
maintenance-text = <bdi>{ $app }</bdi> is under maintenance and cannot be used right now.
maintenance-until = It is expected to be available again on { $moment }.
maintenance-switch = Use another account
error-network-title = Not available from here
error-network-text = This page can only be opened from certain networks, such as the office or a VPN. Connect to one of them, then reload this page.
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
error-sign-in-loop-title = Sign-in could not be completed
error-sign-in-loop-text =
    You were redirected back and forth several times, so we stopped. Allow cookies for this site and for the application,
    then open the application again. If that does not help, tell your administrator.
error-upstream-title = The application is not responding
error-upstream-text =
    This is not your fault: the application at this address cannot be reached right now. Try again in a few minutes.
error-unavailable-title = Temporarily unavailable
error-unavailable-text = This is not your fault: the service is busy or under maintenance. Try again in a moment.
error-form-of-another-title = This form belongs to another account
error-form-of-another-text =
    The form was submitted from this browser with a different account than the one that you are signed in with now. It was
    deleted, and nothing was sent.
error-form-not-kept-title = The form is no longer available
error-form-not-kept-text =
    A form is kept for 15 minutes and shown once. Nothing was sent from here. Go back to the application and fill it in
    again.
error-sign-in-needed-title = Sign in to continue
error-sign-in-needed-text =
    You are signed out, or the application asks for a new sign-in. Nothing that you sent has reached it. Sign in, then come
    back to this page: with Back, your browser may still show what you entered.
error-internal-title = Something went wrong
error-internal-text =
    This is our fault, not yours. Try again; if it keeps happening, tell your administrator.
error-reference = If you ask for help, quote this reference:

## The account pages

skip-to-content = Skip to content
# Format of a time (strftime). The month is a word, because 05/11 is in May for some readers and in November for others.
moment-pattern = %-d %b %Y, %H:%M UTC
moment-pattern-seconds = %-d %b %Y, %H:%M:%S UTC
device = { $browser } on { $system }
device-unknown = Unknown browser

menu-account = Your account
menu-profile = Profile
menu-password = Password
menu-security = Security
menu-sessions = Devices and access
menu-app-passwords = Application passwords
menu-app-logins = Sign-in data
menu-sign-out = Sign out
menu-switch = Use another account

done-profile = Your profile was saved.
done-password = Your password was changed. You were signed out everywhere else, and applications will ask you to sign in again.
done-address-verified = Your address is verified.
done-address-changed = Your address was changed. We also notified your old address; the change can be undone from there for up to 14 days.
done-address-returned = Your address was changed. We also notified your old address.
done-address-added = Your address was added. You can also sign in with it from now on.
done-session = The session was ended.
done-other-sessions = You were signed out everywhere else. Applications have no access to your account until you sign in to them again.
done-withdrawn = The application’s access was removed.
done-app-password = The application password was revoked. It no longer works.
done-app-login = Your sign-in data was saved.
done-app-login-removed = Your sign-in data was removed.
done-factor-added = The two-factor method was added. You will be asked for it when you sign in with your password.
done-factor-renamed = The name was changed.
done-factor-removed = The two-factor method was removed. It can no longer be used to sign in.

profile-title = Your profile
profile-lead-managed = Your name, phone number and address come from your organization’s directory. You can add a picture here.
profile-lead-upstream = Your name, phone number and address come from your account at <bdi>{ $label }</bdi>. You can add a picture here.
profile-lead = Applications see these details when you allow it.
profile-email = Email address
profile-email-hint = You sign in with this address. Only your administrator can change it.
profile-email-hint-none = Only your administrator can add an address.
profile-username = Username
profile-username-hint = You can also sign in with it, and applications may show it. Only your administrator can change it.
profile-username-hint-only = You sign in with it, and applications may show it. Only your administrator can change it.
profile-name = Full name
profile-phone = Phone number (optional)
profile-phone-hint = Include the country code, for example +90 555 111 22 33.
profile-picture = Profile picture (optional)
profile-picture-hint = The address of an image, starting with https://.
profile-picture-alt = Your profile picture
profile-save = Save
profile-updated = Last changed: { $moment }
profile-problem = Nothing was saved. Correct the marked fields and save again.
profile-name-wrong = Enter a name of 1 to 200 characters.
profile-phone-wrong = Enter the number with a plus sign and the country code, for example +90 555 111 22 33, or leave the field empty.
profile-picture-wrong = Enter an address that starts with https://, or leave the field empty.

address-title = Email address
address-lead = You sign in with this address, and emails about your account are sent to it.
address-lead-none = You sign in with your username. Without an address you receive no emails about your account, and cannot reset a forgotten password.
address-verified = Verified
address-unverified = Not verified
address-none = No address
address-change = Change address
address-add = Add an address
address-verify-or-change = Verify or change
address-verify-lead = Applications can rely on your address only after you have verified it. We will send a verification code to it.
address-verify = Send verification code
address-code-title = Enter the verification code
address-code-lead = We sent a verification code to <bdi>{ $address }</bdi>. Enter it here, in this browser, within 15 minutes.
address-code-lead-new =
    We sent an email to <bdi>{ $address }</bdi>. If you can use this address, the email contains a verification code. Enter
    it here, in this browser, within 15 minutes. Until then your address does not change.
address-code = Verification code
address-code-hint = Eight digits. The email may take a few minutes; check your spam folder too.
address-code-submit = Confirm
address-code-again-lead = No email? Check the address, wait a few minutes, then request another code. Only the newest code works.
address-code-again = Send another code
address-code-again-new = Enter the address again
address-code-cancel = Cancel
address-wrong-code = The code is incorrect. Enter the code from the newest email. After five wrong codes you need a new one.
address-over =
    This browser is not waiting for a code: the code expired, was entered incorrectly too often, or was requested in another
    browser. Request a new one.
address-too-many = Too many codes were sent. Use the newest one, or try again later.
address-busy = No emails can be sent right now. Try again in a few minutes.
address-undeliverable = Emails cannot be sent to your address as it is written. Change it, or ask your administrator.
address-taken = This address now belongs to another account, so yours was not changed.
new-address-title = Change address
new-address-title-added = Add an address
new-address-lead = Your address is <bdi>{ $address }</bdi>.
new-address-lead-none = Your account has no email address.
new-address-label = New email address
new-address-hint = We will send a verification code to it. Your address changes only when you enter the code.
new-address-hint-added = We will send a verification code to it. The address is added only when you enter the code.
new-address-effects =
    From then on you sign in with the new address, and links and codes that were sent to the old address stop working. You
    stay signed in. An application that identifies you by your address may treat you as a new user; ask its administrator
    first.
new-address-effects-added =
    From then on you can also sign in with the address, reset a forgotten password with it, and receive emails about your
    account. Applications see the address when you allow it.
new-address-keep = Keep current address
new-address-keep-none = Continue without an address
new-address-malformed = Emails cannot be sent to this address. Enter one such as anna@example.com.
new-address-not-ascii = Many mail servers do not accept letters such as ş or ı before the @. Enter an address without them.
new-address-domain = You cannot change to this address. Enter one at <bdi>{ $domains }</bdi>, or ask your administrator.
new-address-unchanged = This is already your address.
undo-title = Undo the change of address?
undo-lead = The address of a <bdi>{ $operator }</bdi> account was changed from <bdi>{ $old }</bdi> to <bdi>{ $new }</bdi>. If this wasn’t you, undo the change here.
undo-effects =
    The account gets its old address back. Everyone is signed out of the account, applications lose their access, and its
    password stops working: you will choose a new one. Two-factor methods stay.
undo-submit = This wasn’t me: undo the change
undo-keep = If this was you, close this page. Nothing changes.
undone-title = The account is safe
undone-lead = Your old address has been restored. Everyone was signed out, and the password no longer works.
undone-closed =
    Your old address has been restored, and everyone was signed out. Around the time of the change a passkey was added that
    someone else could use to sign in. The account is disabled until your administrator has reviewed it.
undone-taken =
    Everyone was signed out of the account. Your old address now belongs to another account, so it could not be restored,
    and the account is disabled.
undone-reset = We have sent a reset link to your old address. Use it within 30 minutes to choose a new password.
undone-passkey = The account has no password. Sign in with your passkey.
undone-administrator = Ask your administrator for help, and tell them that someone else changed your address.
undone-added = These two-factor methods were added since the day before the change. Remove any that is not yours:

password-title = Change your password
password-upstream = You sign in at <bdi>{ $label }</bdi>, which keeps your password. Change it there.
password-managed = Your organization’s directory keeps your password. Change it where you sign in to your organization’s computers.
password-lead = You will stay signed in here. You will be signed out everywhere else, and applications will ask you to sign in again.
password-current = Current password
password-new = New password
password-new-hint = At least 15 characters. A few unrelated words are easy to remember and hard to guess.
password-again = Confirm new password
password-submit = Change password
password-wrong-current = The current password is incorrect. Check it and try again. Your password was not changed.
password-too-short = The new password is too short. Choose one with at least 15 characters: a few words are enough.
password-too-long = The new password is too long. Choose a shorter one.
password-personal = The new password contains your name, your username or your email address, which attackers try first. Choose another.
password-common = The new password is easy to guess: it is a common password, a row of keys or a repetition. Choose a few unrelated words.
password-unchanged = The new password is the same as the current one. Choose a different one.
password-different = The new passwords do not match. Enter both again.
password-throttled-seconds =
    { $seconds ->
        [one] Too many wrong passwords. Wait one second and try again.
       *[other] Too many wrong passwords. Wait { $seconds } seconds and try again.
    }
password-throttled-minutes =
    { $minutes ->
        [one] Too many wrong passwords. Wait one minute and try again.
       *[other] Too many wrong passwords. Wait { $minutes } minutes and try again.
    }
password-too-many-changes = This password was changed five times within a day. Try again tomorrow. If this wasn’t you, sign out and reset your password, or ask your administrator.
password-busy = Many people are signing in right now, so nothing was changed. Wait a few seconds and try again.

security-title = Sign-in methods
security-none = You sign in with only your password. Add a two-factor method: it protects your account even if someone learns your password.
security-none-link = You sign in with only your password. To set up two-factor authentication, ask your administrator for a link.
security-lead = The methods that you use in addition to your password. If you do not recognize one, remove it and change your password.
security-added = Added: { $moment }
security-used = Last used: { $moment }
security-unused = Never used
security-synced = Synced: also on your other devices
security-bound = On one device only
security-manage = Manage
security-manage-named = Manage: { $name }
security-add-app = Add an authenticator app
security-add-key = Add a security key or passkey
security-back = Back to “Security”
security-last-demanded = Nothing was removed: your account needs a two-factor method like this one, and you have no other. Add another one first.
security-last-passkey = Nothing was removed: you have no password, and this is your only passkey. Add another passkey first.
linked-title = Linked accounts
linked-none = Link your account at another provider to sign in with it. Your password here is then no longer used.
linked-at = Linked: { $moment }
linked-created = Your account here was created by the first sign-in with this account.
linked-confirmed = Last confirmed by the provider: { $moment }
linked-by-administrator = Only an administrator can remove this link.
linked-add = Link
linked-add-named = Link: { $label }
linked-remove = Unlink
linked-remove-named = Unlink: { $label }
link-title = Link { $label }
link-lead-provider = You now sign in at <bdi>{ $label }</bdi>. When you return, you see both accounts, and nothing is changed before you confirm.
link-lead-directory = Enter your username and password at <bdi>{ $label }</bdi>. Then you see both accounts, and nothing is changed before you confirm.
link-account = Username or email address
link-password = Password
link-check = Continue
link-away = <bdi>{ $label }</bdi> does not answer, so nothing was linked. Wait a few seconds and try again.
link-denied = The sign-in at <bdi>{ $label }</bdi> was cancelled or denied, so nothing was linked.
link-invalid = The answer of <bdi>{ $label }</bdi> could not be accepted, so nothing was linked. Try again. If it happens again, tell your administrator.
link-confirm-title = Link these accounts?
link-account-here = Account here
link-account-there = Account at <bdi>{ $label }</bdi>
link-effects = What changes
link-effect-provider = From now on, you sign in at <bdi>{ $label }</bdi>.
link-effect-directory = From now on, you sign in with your username and password at <bdi>{ $label }</bdi>.
link-effect-password = Your password here is removed.
link-effect-profile = Your name, email address, username and phone number come from <bdi>{ $label }</bdi>.
link-effect-groups = Your groups at <bdi>{ $label }</bdi> are added. Your groups, roles and two-factor methods here stay.
link-effect-disabled = If your account at <bdi>{ $label }</bdi> is disabled or deleted, you can no longer sign in here.
link-effect-sessions = You are signed out on all devices, and your application passwords end.
link-administrator = You are an administrator. While <bdi>{ $label }</bdi> does not answer, you cannot sign in. Make sure that another administrator has a password here.
link-confirm = Link accounts
link-cancel = Cancel
link-wrong-account = Is this the wrong account? Cancel, sign out at <bdi>{ $label }</bdi>, and link again.
link-refused-title = The accounts were not linked
link-taken = Your account at <bdi>{ $label }</bdi> already belongs to another account here, for example because you have signed in with it before. Ask an administrator to delete that account, and to link the two (<code>sealgate user link</code>).
link-name-taken = Another account here has the email address or username of your account at <bdi>{ $label }</bdi>. Ask an administrator to change or delete that account.
link-nameless = Your account would have neither a verified email address nor a username. Ask your administrator to add one of them.
link-has-source = Your account is already linked to <bdi>{ $label }</bdi>. An account has one link. Remove this link first, or ask an administrator to remove it.
link-done-title = Accounts linked
link-done-text = You have been signed out everywhere. From now on, sign in with your account at <bdi>{ $label }</bdi>.
unlink-title = Remove the link
unlink-lead = Your account here will no longer belong to your account at <bdi>{ $label }</bdi>.
unlink-effect-sign-in = You can no longer sign in with <bdi>{ $label }</bdi>. You have no password here, so you sign in with your passkey.
unlink-effect-groups = Your groups at <bdi>{ $label }</bdi> are removed. Your groups, roles and two-factor methods here stay.
unlink-confirm = Remove the link
unlink-refused-title = The link was not removed
unlink-no-way-left = You have neither a password nor a passkey here, so you could not sign in without the link. Add a passkey first, or ask an administrator to remove the link and to give you a password.
unlink-only-administrator = Only an administrator can remove this link, because an administrator or the first sign-in created it, or because the settings of this service require it.
unlink-done-title = Link removed
unlink-done-text = You have been signed out everywhere. <bdi>{ $label }</bdi> no longer signs you in. Sign in with your passkey.
factor-settings-title = Two-factor method: { $kind }
factor-settings-name = Name
factor-settings-rename = New name
factor-settings-remove-title = Remove it
factor-settings-remove-hint = It can no longer be used to sign in. Your open sessions stay signed in.
factor-settings-remove-last = This is your only two-factor method. Without it you sign in with only your password, and your recovery codes are removed too.
factor-settings-remove = Remove
recovery-title = Recovery codes
recovery-unavailable = Recovery codes replace a two-factor method that you have lost. Set up a two-factor method first.
recovery-none = You have no recovery codes. Generate some and keep them safe: without them, only an administrator can help you if you lose your two-factor method.
recovery-left =
    { $count ->
        [one] One recovery code is left.
       *[other] { $count } recovery codes are left.
    }
recovery-few = Generate new ones before they run out.
recovery-made = Created: { $moment }
recovery-make = Generate recovery codes
recovery-remake = Generate new codes
recovery-used-title = You used a recovery code
recovery-used-lead = You are signed in as <bdi>{ $account }</bdi>. This code cannot be used again.
recovery-used-lost = If you have lost your app or key, remove it on the page “Security” so that no one else can sign in with it, and add another one.
recovery-ask = Ten codes will be shown only once. Have a safe place ready for them: a password manager, or paper.
recovery-ask-replaces = Your current codes will stop working.

sessions-title = Devices and access
sessions-lead = Everything that can use your account now. If you do not recognize an entry, end it and change your password.
sessions-this = This browser
sessions-signed-in-with = Signed in with: { $methods }
method-password = Password
method-upstream = Account at another provider
method-upstream-named = Account at <bdi>{ $name }</bdi>
method-recovery = Recovery code
sessions-kept-until = Stays signed in until: { $moment }
sessions-end = Sign out
sessions-end-named = Sign out: { $device }, { $address }
sessions-end-others = Sign out everywhere else
sessions-end-others-hint = This also ends the access of all connected applications to your account; you can sign in to them again. Application passwords and sign-in data stay. It helps as well if someone else used this browser.
sessions-everything = End everything
sessions-everything-hint = You are signed out in every browser, including this one. All connected applications lose their access, and all application passwords stop working. Sign-in data stays; it is used only while you are signed in.
access-column = Access
access-since = Since
access-used = Last used
access-from = From
access-end = End
access-session = Browser
access-app-session = Open application
access-client = Connected application
access-app-login = Its own sign-in at the application ends too.
access-consent = Allowed, without access at present
access-offline = Has access while you are away, too
access-for = For <bdi>{ $app }</bdi>
access-refused = The application did not accept this username or password.
access-place-in = <bdi>{ $address }</bdi>, { $device }
access-end-app-session-named = Sign out: { $app }, { $device }, { $address }
sessions-only = You are not signed in anywhere else.
sessions-lasting = Recently added
sessions-lasting-hint = These were added in the last 30 days and keep working after you sign out everywhere else. Remove what you did not add yourself.
sessions-app-password = Application password
sessions-remove = Remove
sessions-remove-named = Remove: { $name }

applications-title = Applications with access
applications-lead = You have allowed these applications to access your account.
applications-none = You have not given any application access yet. An application asks you when you sign in to it for the first time.
applications-open = Open your applications
applications-since = Allowed: { $moment }
applications-sees = It can see:
applications-uses = It can use these on your behalf:
applications-withdraw = Remove access
applications-withdraw-named = Remove access: { $client }
applications-effect = If you remove access, the application has to ask you again. It keeps what it has already stored.

home-title = Your applications
home-passkey = Next time, sign in with the fingerprint, face or screen lock of this device instead of your password.
home-passkey-add = Add a passkey
home-passkey-later = Not now
home-maintenance = Under maintenance
home-login-missing = Enter your username and password once
home-login-refused = Your username or password was not accepted. Enter them again.
home-none = You do not have access to any application yet. If one is missing, ask your administrator.
home-search = Search applications
home-search-submit = Search
home-search-none = No application matches “<bdi>{ $text }</bdi>”.
home-search-all = Show all applications
home-unavailable = Unavailable
home-add = Add an application

app-passwords-title = Application passwords
app-passwords-lead = For programs that cannot show a sign-in page, such as git, a calendar or a network drive. Each password opens one application, and you can revoke it at any time. Changing your own password revokes all of them.
app-passwords-full = You have reached the maximum number of application passwords. Revoke one that you no longer use, then try again.
app-passwords-nowhere = No application accepts application passwords.
app-password-once = This is your new application password. Copy it now: it will not be shown again.
app-password-use = Enter it in the program that you use with <bdi>{ $app }</bdi>. The username is <bdi>{ $user }</bdi>.
app-password-use-header = In the program that you use with <bdi>{ $app }</bdi>, add an HTTP header with the name <code>{ $header }</code>. As its value, enter your username (<bdi>{ $user }</bdi>), a colon (:) and this password, without spaces.
app-password-made = For <bdi>{ $app }</bdi>. Created: { $moment }
app-password-used = Last used: { $moment }
app-password-unused = Never used
app-password-revoke = Revoke
app-password-revoke-named = Revoke: { $name }
app-password-new = Create an application password
app-password-app = Application
app-password-name = Name
app-password-name-hint = A name that helps you recognize it later, such as “git on my laptop”.
app-password-name-wrong = Enter a name of 1 to 60 characters.
app-password-weak-two = To create one, sign in with two-factor authentication.
app-password-weak-resistant = To create one, sign in with a security key or a passkey.
app-password-make = Create password

app-logins-title = Sign-in data for applications
app-logins-lead = Some applications have a sign-in form of their own. Enter your username and password for such an application once, and <bdi>{ $operator }</bdi> signs you in to it from then on. The password is stored in encrypted form and is not shown again.
app-logins-all = All applications
app-logins-nowhere = No application needs sign-in data from you.
app-logins-unavailable = Passwords cannot be stored at present. Contact your administrator.
app-logins-full = You have stored sign-in data for the maximum number of applications. Remove what you no longer need, then try again.
app-logins-open = Open <bdi>{ $app }</bdi>
app-logins-form = Sign-in data for <bdi>{ $app }</bdi>
app-logins-username = Username at the application
app-logins-username-wrong = Enter a username of 1 to 200 characters.
app-logins-password = Password at the application
app-logins-password-hint = The password of your account at <bdi>{ $app }</bdi>, not of your <bdi>{ $operator }</bdi> account.
app-logins-password-wrong = Enter a password of at most 1,000 characters.
app-logins-user = Username: <bdi>{ $name }</bdi>
app-logins-changed = Last changed: { $moment }
app-logins-none = No sign-in data stored
app-logins-refused = The application did not accept this username or password. Enter them again.
app-logins-enter = Enter
app-logins-enter-named = Enter sign-in data: { $app }
app-logins-change = Change
app-logins-change-named = Change sign-in data: { $app }
app-logins-remove = Remove
app-logins-remove-named = Remove sign-in data: { $app }
user-app-login-hint = Save a username and password with which this user is signed in to an application. They replace the saved ones. No page shows a saved password.
user-app-logins-full = Sign-in data is saved for the maximum number of applications. Remove what the user no longer needs, then try again.
app-logins-weak-two = To enter sign-in data, sign in with two-factor authentication.
app-logins-weak-resistant = To enter sign-in data, sign in with a security key or a passkey.

## The console

menu-console = Console
menu-clients = Clients
menu-users = Users
menu-keys = Signing keys
menu-apps = Applications
menu-settings = Settings
apps-lead = The applications that Sealgate protects, as named in the configuration file. Each server is checked every few seconds.
apps-none = The configuration file contains no applications.
apps-address = Address
apps-servers = Servers
server-up = Up
server-down = Down
server-unknown = Not checked yet
settings-provider = Identity provider
copy-named = Copy: { $name }
endpoint-discovery = Discovery document
endpoint-authorize = Authorization endpoint
endpoint-token = Token endpoint
endpoint-userinfo = UserInfo endpoint
endpoint-keys = Public keys (JWKS)
endpoint-logout = Logout endpoint
client-connect = Connect
client-secrets-and-keys = Secrets and keys
client-rules = Approval and rules
client-logo = Logo
client-logo-lead = Users see the logo in the list of applications with access to their account and, if the client is approved, on the consent page.
client-logo-approval = A new logo ends the approval of the client. An administrator can approve the client again.
client-logo-current = Current logo
client-logo-file = Picture
client-logo-hint = PNG, JPEG or WebP, at most 32 KiB, 16 to 1024 pixels wide and high. Square pictures look best.
client-logo-save = Upload
client-logo-remove = Remove the logo
client-logo-missing = Choose a file.
client-logo-large = The file is larger than 32 KiB. Choose a smaller picture.
client-logo-format = The file is not a PNG, JPEG or WebP picture.
client-logo-animated = The picture is animated. Choose one that is not.
client-logo-pixels = The picture has { $width } × { $height } pixels. A logo must be 16 to 1024 pixels wide and high.
client-grants = Access given by users
client-grants-none = No user has given this client access at present.
client-grants-lead = Ending an access withdraws the user’s consent too, so the client asks again.
client-grant-end = End the access of { $user }
client-grants-end = End all accesses
client-rules-more = Consent, limit and owner
client-rules-wrong = Nothing was saved. Enter a number from 1 to 1000000 or “none” as the limit, and an existing user as the owner.
client-consent = Consent
client-consent-ask = Users are asked
client-consent-implied = Given by the operator for all users
client-token-limit-hint = Requests per minute, or “none”. Empty: the default.
client-owner-hint = Email address or username of a developer. Empty: the client belongs to the operator.
confirm-client-rules-title = Change the client’s rules?
confirm-client-rules-effect = The new values apply at once. If users are not asked for consent, they do not see which data the client receives. A new owner can change the client.
confirm-client-grants-title = End all accesses of the client?
confirm-client-grants-effect = All tokens of the client stop working at once. Consents stay, so users can sign in again without being asked.
client-sections = Sections of this page
copy = Copy
copied = Copied
next-page = Next page
state-disabled = Disabled
state-unapproved = Not approved
state-no-owner = No owner
state-configured = In the configuration file
form-problem = Nothing was saved. Correct the marked fields and submit the form again.
error-console-title = No access to the console
error-console-text = Your account is not allowed to use this part of the console. Ask your administrator, or sign in with another account.

done-client = The client was saved.
done-client-deleted = The client was deleted, and all of its access has ended.
done-client-state = The client was updated.
done-shown-before = This was shown once and cannot be shown again. If you did not save it, generate a new one.
done-user = The changes were saved.
done-user-revoked = All sessions and tokens of this user were ended.
done-user-invited = The invitation was sent.
done-users-invited = The invitations were sent.
done-users-imported = The users were imported.
done-user-deleted = The user was deleted.
done-users = The selected users were changed.
done-user-reset-link-sent = A link to set a new password was sent.
done-user-invitation-withdrawn = The invitation was withdrawn. No one can sign in to this account until you send another one.

clients-title = Clients
clients-lead = Clients are the applications that users sign in to here.
clients-show-without-owner = Show clients without an owner
clients-show-all = Show all clients
clients-none = There are no clients yet.
client-new = Register a client
client-new-title = Register a client
client-register = Register
client-name = Name
client-name-hint = Users see this name when they sign in and when they are asked for consent.
client-name-wrong = Enter a name of 1 to 200 visible characters.
client-description = Description (optional)
client-description-wrong = Enter one line of at most 500 visible characters.
client-type = Type
client-type-confidential = Confidential
client-type-confidential-hint = Runs on a server and can keep a secret.
client-type-public = Public
client-type-public-hint = Runs in a browser or on users’ devices. Has no secret and uses PKCE.
client-redirect-uris = Redirect URIs
client-redirect-uris-hint = One per line, exactly as the client sends them: https, or http on localhost, 127.0.0.1 or [::1].
client-logout-uris = Post-logout redirect URIs (optional)
client-logout-uris-hint = One per line, following the same rules.
client-uris-wrong = Enter at least one redirect URI, and no more than 20.
client-scopes = Scopes it may request, in addition to openid
scope-profile = Name and picture
scope-email = Email address
scope-phone = Phone number
scope-offline-access = Refresh token, for access while users are away
client-default-scope = Scope of requests that name none (optional)
client-default-scope-hint = For clients that send no scope parameter, for example: openid profile email. Without it, such requests are refused.
client-default-scope-wrong = Enter openid and scopes that are selected above, separated by spaces.
client-auth-method = Client authentication method
client-auth-basic = HTTP Basic (client_secret_basic)
client-auth-post = In the request body (client_secret_post)
client-auth-hint = Public clients do not use one.
uri-long = Line { $line }: a redirect URI can have at most 2000 characters.
uri-characters = Line { $line }: a redirect URI cannot contain spaces, quotes, backslashes or non-ASCII characters.
uri-absolute = Line { $line }: enter the full address, for example https://app.example.com/callback.
uri-wildcard = Line { $line }: wildcards are not allowed. Enter each address on a line of its own.
uri-fragment = Line { $line }: fragments are not allowed. Remove the # and everything after it.
uri-user = Line { $line }: usernames are not allowed. Remove the @ and everything before it.
uri-scheme = Line { $line }: use https, or http on localhost, 127.0.0.1 or [::1].
uri-host = Line { $line }: the host name is not valid. Use letters, digits, dots and hyphens.
uri-own-host = Line { $line }: only an administrator can register an address on this host.

client-id = Client ID
client-id-choice = Client ID (optional)
client-id-hint = Letters, digits and - . _ ~. Empty: a random ID. It cannot be changed later.
client-id-wrong = Enter an ID of at most 100 letters, digits and - . _ ~ that no other client has and that is not reserved.
client-issuer = Issuer
client-since = Registered
client-service = Access without a user
client-service-groups = Groups without a user
client-token-limit = Limit at the token endpoint
client-token-limit-is =
    { $limit ->
        [one] One request per minute
       *[other] { $limit } requests per minute
    }
client-settings = Settings
client-scopes-allowed = Scopes it may request
client-configured = This client is defined in the server’s configuration file. It can only be changed there; the operator then reloads the server.
client-secret-once = This is the client secret. Copy it now: it will not be shown again.
client-secrets = Client secrets
client-secret-since = Created: { $made }
client-secret-until = Created: { $made }; valid until { $end }
client-overlap = When a new secret is generated, the previous one
client-overlap-none = stops working at once
client-overlap-hour = works for one more hour
client-overlap-day = works for one more day
client-overlap-week = works for one more week
client-rotate = Generate a new secret
client-secrets-full = Two secrets are valid, which is the maximum. Remove one of them, wait until one expires, or choose “stops working at once” to end both.
client-secret-add = Add a second secret
client-secret-remove = Remove
client-secret-lifetime = Validity of the second secret
client-secret-forever = until it is removed
client-secret-days =
    { $days ->
        [one] { $days } day
       *[other] { $days } days
    }
client-keys = Public keys
client-keys-hint = A client with public keys signs its requests with a private key (private_key_jwt) and needs no secret. If you set public keys, all secrets stop working at once.
client-keys-in-use = The client signs its requests with a private key (private_key_jwt) and has no secret.
client-keys-label = Public keys: a JWK set, a JWK, or a public key in PEM form
client-keys-save = Set public keys
client-keys-unusable = These keys cannot be used. Enter 1 to 10 public keys: RSA with at least 2048 bits, EC on P-256, or Ed25519. Each of several keys needs its own kid.
client-keys-uri = Key set
client-keys-workload = Workload
client-use-secret = Use a secret instead
client-introspection = Token introspection
client-introspection-own = Its own tokens
client-logout = Back-channel logout
client-logout-hint = When a user’s session ends, Sealgate sends a logout token to this address, so that the client can end its own session too.
client-logout-uri = URI for logout tokens
client-logout-uri-hint = https, or http on localhost. Empty: no logout tokens.
client-logout-uri-wrong = Enter an https URI without a fragment, or http on localhost.
client-logout-session = The client requires “sid”
client-level = Required sign-in
client-level-choice = How users must sign in
client-level-hint = The client gets and refreshes tokens only for users who have signed in like this. Its own requests can ask for a stronger sign-in, not for a weaker one.
client-level-one = 1: password
client-level-two = 2: password and two-factor method
client-level-three = 3: passkey, or password and security key
client-approval = Approval
client-approved = Approved: applications without a list of clients accept its tokens.
client-unapproved = Not approved: only applications that list this client accept its tokens.
client-approval-hint = Approval is revoked when the developer, or the client itself, changes its name, home page or sign-in address, adds a redirect URI or a scope, or makes it public.
client-owner = Owner
client-changed = Nothing was saved, because the client has changed since you opened this page. Check the current values and try again. Changed:
client-part-logout-uris = Post-logout redirect URIs
client-part-links = Home page, sign-in address, terms or privacy policy
client-part-other = Other settings
client-approve = Approve
client-revoke-approval = Revoke approval
client-disabled-by-administrator = An administrator has disabled this client. Only an administrator can enable it again.
client-disabled-by-owner = The owner disabled this client and can enable it again. If you disable it too, only an administrator can enable it.
client-end = Disable or delete
client-end-hint = A disabled client is refused everywhere, and its tokens stop working at once. A deleted client cannot be restored.
client-disable = Disable
client-enable = Enable
client-delete = Delete
client-snippets = Ready-to-use code

client-test-title = Test sign-in
client-test-link = Test sign-in
client-test-lead = Sign in through <bdi>{ $client }</bdi> and see which claims it would receive.
client-test-off = The sign-in returns to the console, so the client needs one more redirect URI: <code>{ $uri }</code>. Turn it on while you test, and off again for production.
client-test-on = The client has the redirect URI <code>{ $uri }</code>. Turn this URI off when you have finished testing.
client-test-switch-on = Turn on
client-test-switch-off = Turn off
client-test-configured = The sign-in returns to the console, so the client needs one more redirect URI: <code>{ $uri }</code>. This client is defined in the server’s configuration file; the operator can add the URI there.
client-test-start = Sign in
client-test-back = Back to the client
client-test-succeeded = It works. No token was kept; these are the claims that the client would have received.
client-test-id-token = ID token
client-test-access-token = Access token
client-test-userinfo = UserInfo
client-test-refused = The provider returned the error <code>{ $error }</code>. Change the client’s settings, or try again and allow access.
client-test-unknown = This response does not belong to a test that was started here, or it has already been used. Start again.

users-title = Users
users-find = Search by email address, username or name
users-find-hint = Any part is enough. Several words can be in any order.
user-column-person = User
user-state = State
user-signed-in = Last sign-in
user-role-admin-short = Administrator
user-role-auditor-short = Auditor
user-role-manager-short = User manager
user-role-developer-short = Developer
state-enabled = Active
state-no-password = No password
users-none = No user was found.
users-filter = Search and filter
users-filter-all = Any
users-filter-group = Group
users-filter-none = None
users-filter-local = Kept here
users-filter-apply = Apply
users-filter-clear = Show all users
users-source = Source
users-order = Sort by
users-order-name = Name
users-order-address = Email address
users-order-signed-in = Last sign-in
users-order-created = Date added
users-sorted = Users, { $first }–{ $last } of { $total }
users-pages = Pages of the list
users-first-read = The audit log is still being read. Some last sign-ins are missing here; reload the page in a few seconds.
users-full = The list contains only the first { $most } users. To find other users, enter the complete email address or username.
previous-page = Previous page
bulk-select = Select: { $name }
bulk-selected = Selected users
bulk-do = Change
bulk-group = Group (to add or remove)
bulk-continue = Continue
bulk-back = Back
bulk-add = Add to group
bulk-remove = Remove from group
bulk-invite = Invite again
bulk-users =
    { $count ->
        [one] One user is changed
       *[other] { $count } users are changed
    }
bulk-skipped = Left out
bulk-nothing = Nothing would change for the selected users.
bulk-no-users = Select at least one user first.
bulk-too-many = Select at most { $most } users at a time.
bulk-group-wrong = Enter the name of a group: up to 100 characters, without commas.
bulk-other-group = You do not manage this group.
bulk-own = This is you.
bulk-unchanged = Nothing to change.
bulk-directory = The directory keeps this membership.
bulk-too-many-groups = Is in the maximum number of groups.
bulk-has-credential = Can sign in already.
bulk-cannot-invite = Is disabled or has no email address.
bulk-unknown = No user has this email address or username.
bulk-deleted = The user was deleted in the meantime.
bulk-not-managed = You do not manage this user.
bulk-last-group = This is the only group of the user that you manage.
user-disabled-by-administrator = An administrator disabled this user. Only an administrator can enable them.
user-disabled-by-manager = A user manager disabled this user and can enable them again. If you disable the user too, only an administrator can enable them.
bulk-refused = The change is not possible, because the user has changed in the meantime.
bulk-failed = Not changed, because the server failed. Try again.
bulk-result-title = Result of the change
bulk-result-lead = Some of the users were not changed.
bulk-result-done = Changed users: { $count }
bulk-disable-title = Disable these users?
bulk-disable-effect = They are signed out of every browser and application at once, and cannot sign in again until an administrator enables them.
bulk-enable-title = Enable these users?
bulk-enable-effect = They can sign in again.
bulk-add-title = Add these users to <bdi>{ $group }</bdi>?
bulk-add-effect = They get the access that the group has.
bulk-add-admin = Members of this group can see and change everything in the console, other accounts included.
bulk-add-auditor = Members of this group can see everything in the console, other accounts included.
bulk-add-manager = Members of this group can manage the users of other groups in the console.
bulk-add-developer = Members of this group can register clients in the console.
bulk-promotion = Sessions, application passwords, access of applications and links of users who get a role end at once. Their passwords and two-factor methods stay: check them on the page of each user first.
bulk-promotion-manager =
    { $count ->
        [one] A user manager set the password or chose the email address of one of these users. The password and the two-factor methods of this user are removed, and an address that a user manager chose is no longer verified. Generate a new password on the page of the user afterwards.
       *[other] A user manager set the password or chose the email address of { $count } of these users. The passwords and two-factor methods of these { $count } users are removed, and an address that a user manager chose is no longer verified. Generate new passwords on the pages of the users afterwards.
    }
bulk-remove-title = Remove these users from <bdi>{ $group }</bdi>?
bulk-remove-effect = They lose the access that only this group gives, at once.
bulk-revoke-title = End all sessions and access of these users?
bulk-revoke-effect = They are signed out of every browser and application at once, and have to sign in again.
bulk-invite-title = Invite these users again?
bulk-invite-effect = Each gets a new link by email. Previous links stop working.
groups-title = Groups
groups-lead = Groups give access to applications and console roles. A group exists while it has members, or while the configuration file names it.
groups-find = Search by name
groups-find-submit = Search
groups-none = There are no groups yet.
groups-none-found = No group was found.
group-title = Group: { $name }
group-name = Name
group-members = Members
group-members-none = This group has no members.
group-uses = Rules
group-uses-none = The configuration file does not name this group.
group-new = Create a group or add users to one
group-new-hint = Applications see the name.
group-who = Users
group-who-hint = Email addresses or usernames, one per line, at most 100.
group-add = Add users
group-open = Open
group-open-user = Open: { $name }
group-change = Rename or delete
group-directory = Memberships that a directory keeps do not change here.
group-own-role = You would lose your own role in the console. Ask another administrator.
group-to = New name
group-to-hint = Up to 100 characters, without commas. If there is a group with this name, the members join it.
group-rename = Rename
group-delete = Delete the group
group-rename-title = Rename <bdi>{ $name }</bdi> to <bdi>{ $to }</bdi>?
group-rename-effect = Members that move to the new name: { $total }
group-delete-title = Delete the group <bdi>{ $name }</bdi>?
group-delete-effect = Members that leave the group: { $total }. They lose the access that only this group gives, at once.
group-named = The configuration file names this group. These rules no longer apply to the members until you change the file:
group-named-new = The configuration file names the new name. These rules apply to the members at once:
group-use-rule = <bdi>{ $app }</bdi>: <code>{ $path }</code>
group-use-methods = <bdi>{ $app }</bdi>: <code>{ $methods } { $path }</code>
group-use-maintenance = <bdi>{ $app }</bdi>: can be used during maintenance
group-use-account = <bdi>{ $app }</bdi>: an account of its own at the application
group-use-admins = Console: members are administrators
group-use-auditors = Console: members are auditors
group-use-managers = Console: members are user managers
group-use-managed = Console: members of <bdi>{ $group }</bdi> manage the members
group-use-developers = Console: members are developers
group-use-factors = Members need two-factor authentication
user-new = Add a user
invite-several = Invite several users
invite-title = Invite several users
invite-users = Users
invite-users-hint = One per line, at most 100: the name and the address with a comma, a semicolon or a tab between them, such as: Ayşe Yılmaz, ayse@example.com. Lines copied from a mail program work too.
invite-hint = Nothing is sent yet. The next page lists the users.
invite-problem = No user was invited. Correct the form and submit it again.
invite-empty = Enter at least one user.
invite-too-many = Enter at most { $most } users.
invite-address-wrong = Line { $line }: the email address is missing or invalid.
invite-name-wrong = Line { $line }: the name is missing, too long, or has invisible characters.
invite-taken = Line { $line }: this address already belongs to a user.
invite-repeated = Line { $line }: this address is already in line { $first }.
invite-groups-wrong = Groups: write one per line, without commas, at most 100 characters each.
invite-not-now = The mail queue has no room for these invitations, or another administrator has just added one of the users. Wait a moment and try again.
invite-confirm-title = Invite these users?
invite-effect = Each gets a link by email, valid for 7 days, and chooses a password or a passkey.
invite-count =
    { $count ->
        [one] One user is invited
       *[other] { $count } users are invited
    }
invite-app = Application to go to afterwards
invite-send = Send invitations
import-title = Import users
import-file = CSV file
import-csv = Or the content of the file
import-csv-hint = CSV with at most { $most } users. The first line names the columns: name, email or username, and any of groups, password_hash, email_verified, phone_number and state.
import-hint = No user is added yet. The next page lists the users.
import-problem = No user was imported. Correct the list and submit it again.
import-more-faults =
    { $count ->
        [one] One more error is not listed.
       *[other] { $count } more errors are not listed.
    }
import-line = Line { $line }:
import-line-column = Line { $line }, <code>{ $column }</code>:
import-not-utf8 = This line and those below it are not UTF-8. Save the file as UTF-8.
import-file-empty = The file is empty. Its first line names the columns.
import-no-users = The file has no users.
import-too-many = At most { $most } users can be imported at once. Split the file, or use <code>sealgate user import</code>.
import-column-repeated = Column { $number } has the name of an earlier column. Remove one of them.
import-column-unknown = Column { $number } has an unknown name. Remove it, or give it one of these names: { $known }
import-column-missing = The file needs one of these columns: { $names }
import-field-count = The number of fields is { $found } in this line and { $expected } in the first line. Put fields that contain a separator in double quotes.
import-not-boolean = Enter <code>true</code> or <code>false</code>.
import-not-state = Enter <code>enabled</code> or <code>disabled</code>.
import-no-identifier = Enter an email address, or a username in its column. Users sign in with one of them.
import-no-address-to-verify = The user has no email address. Enter <code>false</code>.
import-too-many-groups = A user can be in at most { $most } groups.
import-group-wrong = The name of a group has 1 to 100 characters.
import-repeated = Line { $first } has the same value. Remove one of the lines.
import-address-taken = This address belongs to another user. Remove the line.
import-others-added = Other users were added at the same time. Submit the list again.
import-hash-weak = Password hashes of the type { $scheme } are not secure. Leave the field empty and invite the user afterwards.
import-hash-slow = Verifying a password with this hash takes too long. Leave the field empty and invite the user afterwards.
import-hash-of-nothing = This is the hash of the empty password. Leave the field empty and invite the user afterwards.
import-hash-malformed = The hash begins like { $scheme }, but is incomplete or changed. Export it again, or leave the field empty and invite the user afterwards.
import-hash-unknown = Only hashes of argon2, bcrypt, SHA-crypt ($5$, $6$), PBKDF2, SSHA and SHA are accepted, and no passwords. Leave the field empty and invite the user afterwards.
import-confirm-title = Import these users?
import-effect = The users are added with the password hashes of the list. No message is sent.
import-count =
    { $count ->
        [one] One user is imported
       *[other] { $count } users are imported
    }
import-more = And { $count } more.
import-without-password =
    { $count ->
        [one] One user has no password and cannot sign in until you send an invitation.
       *[other] { $count } users have no password and cannot sign in until you send invitations.
    }
import-verified = Email addresses that count as verified without a message to the user: { $count }
import-disabled = Disabled users: { $count }
import-now = Import
users-export = Export all users:
users-export-found = Export these users:
user-new-title = Add a user
user-add = Add
user-email-hint = A user with a username can do without an address.
user-email-hint-invited = An invitation needs an address. A user with a generated password can have only a username.
user-email-wrong = Enter an address such as name@example.com.
user-email-taken = This address belongs to another user. Look for them in the list.
user-email-taken-elsewhere = This address is in use. Look for it in the list; if it is not there, ask an administrator.
user-username = Username (optional)
user-username-hint = The letters a to z, digits, dots, hyphens and underscores, beginning with a letter. It cannot be changed here later, because applications identify the user by it.
user-username-wrong = Enter 1 to 64 of the letters a to z, digits, dots, hyphens and underscores, beginning with a letter and ending with a letter or a digit.
user-username-taken = This username belongs to another user. Choose another.
user-groups = Groups
user-groups-hint = One per line, without commas, at most 100 characters each. Applications see them.
user-managed-hint = You manage these groups. The user needs at least one of them.
user-managed-wrong = Choose at least one group.
user-other-groups = Other groups
user-roles = Console role
user-role-developer = Developer: can register clients
user-role-auditor = Auditor: can see everything, and change nothing
user-role-admin = Administrator: can see and change everything
user-own-role = You cannot remove this role from yourself. Ask another administrator.
user-password-made = A password will be generated. It is shown once, on the next page.
user-invite = Send invitation
user-invite-hint = The user gets a link by email, valid for 7 days, and chooses a password or a passkey. You do not need to pass on a password.
user-invite-app = Application to go to afterwards (optional)
user-invite-app-none = None: the list of applications
user-add-password = Add with a generated password
user-invitation = Invitation
user-invited-short = Invited
user-invitation-expired-short = Invitation expired
user-invitation-open = Sent on { $sent }. Valid until { $until }.
user-invitation-expired = Sent on { $sent }. It has expired.
user-invitation-accepted = Accepted on { $moment }.
user-invitation-none = This user has no password, no passkey and no valid invitation.
user-invitation-resend = Send a new link
user-invitation-resend-hint = The previous link stops working.
user-invitation-withdraw = Withdraw the invitation
user-password-once = This is the new password. Pass it on now: it will not be shown again. It can be changed on the account page.
user-upstream = OpenID provider
user-upstream-groups = Groups of the provider
user-directory = Directory
user-directory-changed = Last change: { $moment }
user-upstream-confirmed = Confirmed by the provider: { $moment }
user-directory-groups = Groups of the directory
user-directory-no-groups = None
directory-state-disabled = Disabled in the directory
directory-state-expired = Expired in the directory
upstream-state-disabled = Disabled at the provider
upstream-state-expired = Expired at the provider
upstream-state-gone = No longer at the provider
directory-state-gone = No longer in the directory
user-subject = User ID
user-groups-and-role = Groups and role
user-phone = Phone number
user-profile-kept = The directory <bdi>{ $source }</bdi> keeps the name, the addresses and the phone number of this user. Change them there.
user-devices = Sessions and devices
user-grants = Applications with access
user-danger = Danger zone
user-since = Added
user-sessions-none = Nothing has access to this account.
user-applications-none = No application has access to this account.
user-factors = Two-factor authentication
user-factors-unused = None. This user cannot sign in yet.
user-factors-none = None. This user signs in with only a password.
user-factors-reset-open = All two-factor methods were removed. The user cannot sign in until they set up a new one with the link. The link works until { $moment }.
user-factors-reset-late = All two-factor methods were removed, and the link has expired. Create a new one below.
user-factors-blocked = Codes are no longer checked after too many wrong attempts.
user-factors-unblock = Unblock
user-factors-hint = First make sure that the request really comes from this user. Removing all two-factor methods signs them out everywhere and gives you a link to set up a new one. Until then their password alone is not enough.
user-factors-reset = Reset two-factor and create link
user-link-once = This link works once, within 24 hours. Give it only to this user, and now: it will not be shown again.
user-factor-none = None
user-factor-reset = Waiting for the link
users-without-factor = Without two-factor authentication: { $without } of { $people } users who can sign in (as of { $moment })
confirm-cancel = Cancel
confirm-password-title = Generate a new password?
confirm-password-effect = The current password stops working, all sessions of this user end, and the new password is shown to you once.
confirm-disable-title = Disable this user?
confirm-address-title = Change the email address?
confirm-address-effect = The user signs in with <bdi>{ $address }</bdi> from now on, and links to set a new password go there. Anyone who can read that mailbox can take over the account.
confirm-address-removed = The user has no email address any more and signs in only with the username. No messages and no links to set a new password can be sent.
confirm-delete-title = Delete this user?
confirm-delete-effect = The account is removed with its sessions, access of applications, two-factor methods, passwords and pending messages, and cannot be restored. Entries in the audit log stay.
confirm-disable-effect = The user is signed out of every browser and application at once, and cannot sign in again until an administrator enables the account.
confirm-revoke-title = End all sessions and access?
confirm-revoke-effect = The user is signed out of every browser and application at once, and has to sign in again.
confirm-factors-title = Remove all two-factor methods?
confirm-factors-effect = All two-factor methods are removed permanently, the user is signed out everywhere, and you get a link to set up a new one.
confirm-role-title = Change the console role?
confirm-role-admin = The user will be able to see and change everything in the console, other accounts included.
confirm-role-auditor = The user will be able to see everything in the console, other accounts included, and to change nothing.
confirm-role-manager = The user will be able to manage the users of other groups in the console.
confirm-role-developer = The user will be able to register clients in the console.
confirm-role-none = The user will not be able to use the console.
confirm-promotion = All sessions, application passwords and access of applications end at once, and so do links that were sent to the user. The password and the two-factor methods stay. Someone else may know or have set them: check the lists below, and generate a new password or remove the methods first if in doubt.
confirm-promotion-manager = All sessions, application passwords and access of applications end at once, and so do links that were sent to the user. A user manager set the password or chose the email address of this user. The password and all two-factor methods are therefore removed too, and an address that a user manager chose is no longer verified. Afterwards, generate a new password for the user. If the address stays verified, you can send a link to reset the password instead.
confirm-promotion-verified = verified
confirm-promotion-unverified = not verified
confirm-promotion-no-sessions = The user is not signed in.
confirm-promotion-changes = Changes of the password, address and two-factor methods in the audit log
confirm-promotion-no-changes = The audit log has none.
confirm-add-title = Add a user with a console role?
confirm-client-disable-title = Disable this client?
confirm-client-disable-effect = The client is refused everywhere, and its tokens stop working at once.
confirm-client-delete-title = Delete this client?
confirm-client-delete-effect = The client and all of its access are removed, and cannot be restored.
confirm-client-secret-add-title = Add a second secret?
confirm-client-secret-add-effect = The new secret is shown to you once. The current one keeps working.
confirm-client-secret-remove-title = Remove this secret?
confirm-client-secret-remove-effect = Applications that use this secret get no more tokens. Tokens that were issued stay valid.
confirm-client-keys-title = Set public keys?
confirm-client-keys-effect = The client then authenticates only with these keys. All its secrets and earlier keys stop working at once.
confirm-client-use-secret-title = Use a secret instead of public keys?
confirm-client-use-secret-effect = The new secret is shown to you once. The client’s public keys stop working at once.
confirm-client-rotate-title = Generate a new secret?
confirm-client-rotate-effect = The new secret is shown to you once, and the current one stops working at the time that you chose. Tokens that were issued before stay valid. If the secret has leaked, end them too: <code>sealgate grant revoke-all --client { $client }</code>
confirm-username-title = Set the username?
confirm-username-effect = The user can also sign in with it, and applications may identify the user by it. It cannot be changed here later.
confirm-enable-title = Enable this user?
confirm-enable-effect = The user can sign in again, with the same groups and roles as before.
confirm-unblock-title = Accept codes again?
confirm-unblock-effect = The user can enter codes again. If the user did not cause the wrong attempts, someone else knows the password.
confirm-groups-title = Change the groups?
confirm-groups-effect = The user gets the access of the added groups, and loses the access that only the removed groups give, at once.
confirm-groups-added = Added groups
confirm-groups-removed = Removed groups
confirm-uris-added = Added redirect URIs
confirm-post-logout-added = Added post-logout redirect URIs
confirm-scopes-added = Added scopes
confirm-client-widen-title = Save these settings?
confirm-client-widen-effect = Added redirect URIs receive sign-ins of users, and added scopes give the client more of their data.
confirm-client-enable-title = Enable this client?
confirm-client-enable-effect = Users can sign in to the client again, and it can get tokens.
confirm-client-level-title = Change the required sign-in?
confirm-client-level-effect = Users of the client must sign in like this: { $level }
confirm-client-approve-title = Approve this client?
confirm-client-unapprove-title = Revoke the approval?
confirm-client-unapprove-effect = Applications without a list of clients refuse its tokens with the next request.
confirm-clients =
    { $count ->
        [one] The user owns an enabled client. It keeps working without an owner; only administrators can change it then:
       *[other] The user owns { $count } enabled clients. They keep working without an owner; only administrators can change them then:
    }
confirm-clients-disable = Disable these clients too, and end their tokens
confirm-mail-title = Delete this message?
confirm-mail-effect = It is not sent. Links and codes in it stay valid, but no one receives them.
confirm-mail-message = Message
user-access-hint = A disabled user cannot sign in, and loses all sessions and access.
user-revoke = End all sessions and access
user-send-reset-link = Send a password reset link
user-reset-password = Generate a new password

keys-title = Signing keys
keys-lead = The private keys never leave the security token.
keys-next-change = Next change: { $moment }
keys-no-change = No change is scheduled.
key-pre-published = Published, not signing yet
key-active = Signing
key-retired = Retired: its signatures are still accepted
key-removed = Removed: its signatures are rejected
key-published-at = Published: { $moment }
key-activate-at = Signs from: { $moment }
key-retire-at = Replaced by another key: { $moment }
key-remove-at = Removed: { $moment }


## The audit log

menu-activity = Activity
menu-audit = Audit log
activity-title = Recent activity
activity-lead = Recent events on your account. If you do not recognize something here, change your password.
activity-none = Nothing has been recorded yet.
activity-by-administrator = By an administrator
audit-title = Audit log
audit-kind = Event
audit-kind-any = All events
audit-result = Result
audit-result-failed = Failed or suspicious
audit-result-succeeded = All others
audit-person = User (email, username or ID)
audit-person-wrong = No user was found. Enter a full email address, a username or a user ID.
audit-client = Application (client ID)
audit-from = From
audit-to = To (inclusive)
audit-day-wrong = Enter a date such as 2026-11-21.
audit-address-wrong = Enter an IP address such as 192.0.2.7 or 2001:db8::7.
audit-reload = Reload
audit-reload-hint = The address of this page contains the filter and can be saved as a bookmark.
audit-show = Show
audit-none = No events were found.
audit-at = Time
audit-export = Export these events:
audit-export-hint = Exports all events of the selection. The export itself is recorded.
audit-newer = Newer events
audit-older = Older events
audit-pages = Pages of the audit log
event-subject-id = User ID
event-party-id = Client or application ID
event-name = In the log
audit-of-person = Audit log for this user
audit-of-client = Audit log for this client
event-subject = User
event-actor = By
event-party = Application
event-address = IP address
event-detail = Details
event-request = Request ID
event-from = from <bdi>{ $address }</bdi>
event-with = Application: <bdi>{ $party }</bdi>
event-count = { $count } times
actor-stranger = Someone who was not signed in
actor-person = The user
actor-developer = Developer
actor-client = The client itself
actor-operator = An operator on the command line
actor-server = The server
actor-configuration = The configuration file
actor-api-token = An API token
event-signed-in = Signed in
event-sign-in-failed = Sign-in failed
event-app-signed-in = Signed in to a protected application
event-signed-out = Signed out
event-consent-given = Access allowed
event-consent-withdrawn = Access removed
event-tokens-issued = Tokens issued
event-tokens-refreshed = Tokens refreshed
event-reuse-detected = Used code or token presented again; access ended
event-token-revoked = Token revoked
event-grants-ended = Applications’ access ended
event-sessions-ended = Sessions ended
event-person-revoked = All sessions and access ended
event-client-registered = Client registered
event-client-changed = Client changed
event-client-deleted = Client deleted
event-user-created = User added
event-self-registered = User registered
event-user-changed = Account details changed
event-user-disabled = Account disabled
event-user-enabled = Account enabled
event-user-deleted = User deleted
event-password-changed = Password changed
event-password-reset-asked = Password reset requested
event-password-reset = Password reset with an emailed link
event-address-verified = Address verified
event-address-changed = Address changed
event-address-restored = Change of address undone
event-app-password-created = Application password created
event-app-password-revoked = Application password revoked
event-app-credential-set = Sign-in data for an application saved
event-app-credential-removed = Sign-in data for an application removed
event-factor-added = Two-factor method added
event-factor-removed = Two-factor method removed
event-factor-renamed = Two-factor method renamed
event-recovery-codes-made = New recovery codes generated
event-recovery-code-used = Signed in with a recovery code
event-factor-failed = Two-factor authentication failed after the correct password
event-factor-blocked = Two-factor method blocked after too many wrong attempts
event-key-may-be-copied = Key refused because it may have been copied
event-factors-reset = All two-factor methods removed
event-account-linked = Account linked
event-account-unlinked = Account link removed
event-invitation-sent = Invitation sent
event-invitation-accepted = Invitation accepted
event-invitation-withdrawn = Invitation withdrawn
event-keys-changed = Signing key schedule changed
event-directory-loss-accepted = Loss of directory accounts accepted
event-mail-changed = Email queue changed
event-logout-not-accepted = Client did not accept a sign-out
event-configuration-reloaded = Configuration reloaded
event-api-token-created = API token created
event-api-token-revoked = API token removed
event-registration-token-created = Registration token created
event-registration-token-revoked = Registration token revoked
event-app-changed = Application changed

# Details of an event in the audit log, if the detail is one of the program's own words.
detail-wrong-password = Wrong password
detail-throttled = Too many attempts
detail-at-password-change = while changing the password
detail-at-linking = when linking an account
detail-link-mailed = a reset link was sent
detail-has-passkeys-only = signs in with passkeys only; an email explains it
detail-password-elsewhere = the directory keeps the password; an email explains it
detail-account-disabled = the account is disabled; no email was sent
detail-address-not-verified = the email address is not verified; no email was sent
detail-no-password = the account has no password; no email was sent
detail-of-many = Several accounts or addresses together
detail-groups-and-roles = Groups and roles
detail-address = Email address
detail-address-verification = Verification of the email address
detail-username = Username
detail-roles = Roles
detail-groups = Groups
detail-group-added = added to the group <bdi>{ $group }</bdi>
detail-group-removed = removed from the group <bdi>{ $group }</bdi>
detail-role-added = got the role { $role }
detail-role-removed = lost the role { $role }
detail-more = further changes: { $count }
detail-app-password = Application password
detail-blocked-factors = two-factor methods unblocked
detail-manager-data-removed = password and two-factor methods removed, because a user manager could use them
detail-name = Name
detail-phone-number = Phone number
detail-picture = Profile picture
detail-all-others = All other sessions
detail-one-session = One session
detail-sessions = Sessions ended: { $count }
detail-grants = Grants ended: { $count }
detail-refresh-token = Refresh token
detail-access-token = Access token
detail-code = Authorization code
detail-never-used = It was never used
detail-settings = Settings
detail-approval-lost = approval revoked by the change
detail-new-secret = New client secret
detail-secret-removed = Client secret removed
detail-disabled = Disabled
detail-enabled = Enabled
detail-approved = Approved
detail-approval-revoked = Approval revoked
detail-client-test-on = Test sign-in turned on
detail-client-test-off = Test sign-in turned off
detail-nothing-changed = No setting changed

## Mails
# Messages for subjects contain no tag. The text and the HTML of a mail use the same messages; the text omits the tags.

mail-subject = { $title } – { $operator }
mail-footer = This email was sent automatically by <bdi>{ $operator }</bdi> ({ $host }).
mail-time = Time: { $moment }
mail-moment = { $day } { $month } { $year }, { $time } UTC
mail-from-address = IP address: { $address }
mail-from-browser = Browser: { $browser }
mail-copy-link = If the button does not work, copy this address into your browser:
mail-keep-link = Don’t forward this email: anyone with the link can use it.

mail-reset-title = Reset your password
mail-reset-lead = Someone asked to reset the password of your <bdi>{ $operator }</bdi> account. If this was you, choose a new password here:
mail-reset-button = Choose a new password
mail-reset-life = The reset link works once, within { $minutes } minutes of the request. Two-factor authentication stays on.
mail-reset-not-you = If this wasn’t you, you can ignore this email: your password stays the same.

mail-passkeys-title = Your account has no password
mail-passkeys-lead = Someone asked to reset the password of your <bdi>{ $operator }</bdi> account. It has no password: you sign in with a passkey.
mail-passkeys-how = To sign in, open the sign-in page and choose “Sign in with a passkey”. If you no longer have a device with your passkey, ask your administrator for help.
mail-elsewhere-title = Change your password at your organization
mail-elsewhere-lead = Someone asked to reset the password of your <bdi>{ $operator }</bdi> account. It cannot be changed here.
mail-elsewhere-help = If you have forgotten it, ask your organization’s administrator for a new one.
mail-passkeys-not-you = If this wasn’t you, you can ignore this email: your account stays the same.

mail-invitation-title = You have been invited
mail-invitation-lead = You have been invited to <bdi>{ $operator }</bdi>.
mail-invitation-lead-inviter = <bdi>{ $inviter }</bdi> has invited you to <bdi>{ $operator }</bdi>.
mail-invitation-app = With your account you will be able to use <bdi>{ $app }</bdi>.
mail-invitation-do = Accept the invitation and set up your account here:
mail-invitation-button = Accept the invitation
mail-invitation-life = The link works once, within { $days } days. After that, ask for a new invitation.
mail-invitation-not-you = If you were not expecting this invitation, you can ignore this email: nothing happens unless you accept it.

mail-code-title = Confirm your email address
mail-code-title-new = Confirm your new email address
mail-code-lead-address = To confirm that this is the address of your <bdi>{ $operator }</bdi> account, enter this verification code:
mail-code-lead-new = To make this the address of your <bdi>{ $operator }</bdi> account, enter this verification code:
mail-code-lead-registration = To create an account at <bdi>{ $operator }</bdi>, enter this verification code:
mail-code-how = Enter it in the browser window in which you started. It is valid for { $minutes } minutes.
mail-code-never = Never give this code to anyone, not even to someone who says they are calling from <bdi>{ $operator }</bdi>.
mail-code-not-you = If this wasn’t you, you can ignore this email: without the code nothing happens.

mail-exists-title = You already have an account
mail-exists-lead = Someone tried to create an account at <bdi>{ $operator }</bdi> with this address, which already has one. If this was you, sign in. If you have forgotten your password, you can reset it on the sign-in page:
mail-exists-title-new = Your email address was entered for another account
mail-exists-lead-new = Someone tried to make this the address of another <bdi>{ $operator }</bdi> account. It is the address of your account, so nothing was changed. If this was you, sign in to the account that has this address; to use the address elsewhere, change it there first:
mail-exists-not-you-new = If this wasn’t you, you can ignore this email: your account and its address stay the same.
mail-exists-button = Sign in
mail-exists-not-you = If this wasn’t you, you can ignore this email: no account was created and nothing was changed.

mail-undo-title = Your email address was changed
mail-undo-lead = The address of your <bdi>{ $operator }</bdi> account was changed from this one to <bdi>{ $address }</bdi>. If this was you, you can ignore this email.
mail-undo-do = If this wasn’t you, undo the change here. This restores the address and signs everyone out of your account:
mail-undo-button = This wasn’t me
mail-undo-life = The link works once, for up to { $days } days.

mail-notice-count =
    { $count ->
        [one] It happened once.
       *[other] It happened { $count } times since the last email about it.
    }
mail-notice-button = Check your account
mail-notice-not-you = If this was you, you can ignore this email. If it wasn’t, change your password, end all other sessions and tell your administrator:
mail-notice-not-you-password = If this wasn’t you, someone knows your password. Change it now and tell your administrator:
mail-notice-remove-key = If you did not just use the key in two windows at once, remove it from your account, add another one and tell your administrator:
mail-notice-administrator = If you did not expect this, ask your administrator. You can review your account here:
mail-notice-linked = If this wasn’t you, someone else can now sign in to your account. Tell your administrator at once. You can review your account here:
mail-notice-client = Approve it only if you know it. It is tagged as not approved in the list of clients:
mail-notice-client-button = Open the list of clients
mail-notice-locked-out = You cannot sign in until you set up a new two-factor method with the link that your administrator gives you. If you did not ask for this, tell your administrator at once.

notice-password-changed-title = Your password was changed
notice-password-changed = The password of your <bdi>{ $operator }</bdi> account was changed.
notice-password-reset-title = Your password was reset
notice-password-reset = The password of your <bdi>{ $operator }</bdi> account was reset with a link that was sent to this address. All sessions were ended.
notice-factor-added-title = A two-factor method was added
notice-factor-added = A two-factor method was added to your <bdi>{ $operator }</bdi> account.
notice-factor-removed-title = A two-factor method was removed
notice-factor-removed = A two-factor method was removed from your <bdi>{ $operator }</bdi> account.
notice-factor-blocked-title = A two-factor method was blocked
notice-factor-blocked = After too many wrong attempts, a two-factor method of your <bdi>{ $operator }</bdi> account no longer works. Sign in with another one to unblock it.
notice-factor-failed-title = Failed sign-in attempts
notice-factor-failed = Someone entered the correct password of your <bdi>{ $operator }</bdi> account, and then failed two-factor authentication several times.
notice-recovery-used-title = A recovery code was used
notice-recovery-used = Someone signed in to your <bdi>{ $operator }</bdi> account with a recovery code.
notice-recovery-made-title = New recovery codes were generated
notice-recovery-made = New recovery codes were generated for your <bdi>{ $operator }</bdi> account. The previous ones no longer work.
notice-key-copied-title = A key may have been copied
notice-key-copied = A key of your <bdi>{ $operator }</bdi> account was refused, because its usage counter went back. Someone may have a copy of it.
notice-app-password-title = An application password was created
notice-app-password = An application password was created for your <bdi>{ $operator }</bdi> account. Anyone who knows it can use one application as you, without two-factor authentication.
notice-account-linked-title = Your account was linked
notice-account-linked = Your <bdi>{ $operator }</bdi> account was linked to an account at another provider or in a directory. From now on, that account signs in instead of your password.
notice-account-unlinked-title = An account link was removed
notice-account-unlinked = The link of your <bdi>{ $operator }</bdi> account to an account at another provider or in a directory was removed.
notice-app-credential-title = Sign-in data for an application was saved
notice-app-credential = A username and password for an application were saved in your <bdi>{ $operator }</bdi> account. You will be signed in to the application with them.
notice-address-changed-title = Your email address was changed
notice-address-changed = This is now the email address of your <bdi>{ $operator }</bdi> account.
notice-address-replaced-title = Your email address was changed
notice-address-replaced = This is no longer the email address of your <bdi>{ $operator }</bdi> account.
notice-administrator-title = An administrator changed your account
notice-administrator = An administrator changed your <bdi>{ $operator }</bdi> account.
notice-factors-reset-title = All two-factor methods were removed
notice-factors-reset = An administrator removed all two-factor methods of your <bdi>{ $operator }</bdi> account and ended all sessions.
notice-client-title = An application needs your approval
notice-client = A user has allowed an application that registered itself at <bdi>{ $operator }</bdi> to access their account. The protected applications refuse it until an administrator approves it.

mail-test-title = Test email
mail-test-lead = Emails from <bdi>{ $operator }</bdi> arrive at this address. An administrator sent this one as a test.

month-january = January
month-february = February
month-march = March
month-april = April
month-may = May
month-june = June
month-july = July
month-august = August
month-september = September
month-october = October
month-november = November
month-december = December

## The console: overview, applications, keys and email

menu-overview = Overview
menu-mail = Email
overview-fine = Everything works. There is nothing to do.
overview-warnings = Needs attention
overview-show = Open: { $page }
overview-sessions = Signed-in browsers
overview-hours = Sign-ins, last 24 hours
overview-days = Sign-ins, last 30 days
overview-signed-in = Successful: { $count }
overview-failed = Failed: { $count }
overview-axis = From { $moment }. Highest bar: { $most }
overview-counted = Counted: { $moment }. Days and hours are in UTC.
overview-counting = The numbers are being counted. Reload the page in a moment.
overview-state = State
overview-servers = { $up } of { $all } reachable.
overview-key = Signing key
overview-token-ready = Token signs
overview-token-away = Token does not sign
overview-certificates = Certificates
overview-certificate-until = <code>{ $file }</code>: valid until { $moment }
overview-database = PostgreSQL
overview-mail = { $waiting } in the queue, { $dead } undeliverable.
overview-mail-off = Sealgate sends no email: the configuration file has no mail server.
overview-store = Size of the store
overview-mebibytes = { $size } MiB
overview-version = Version
overview-loaded = Configuration loaded: { $moment }
overview-token-down = The security token does not sign, so no one can sign in. Check the device and its connection.
overview-no-key = No key signs.
overview-rotation-fails = The signing key is due for rotation, but the rotation fails.
overview-untrusted = This node does not trust some keys of other nodes.
overview-servers-down = Servers of applications that do not answer: { $count }.
overview-unapproved = Clients that wait for your approval: { $count }.
overview-undeliverable = Emails that could not be delivered: { $count }.
overview-certificate-expired = The certificate <code>{ $file }</code> has expired, and browsers reject it. Renew it.
overview-certificate-expires = The certificate <code>{ $file }</code> expires soon. Days left: { $days }.
overview-reload-refused = The configuration file has errors, so the last reload changed nothing. Run sealgate check.
overview-configuration = Warning about the configuration:
app-sessions = Open sessions
app-name = Name in the configuration
app-title = Application: { $app }
app-access = Who has access
app-access-public = Everyone, without signing in, to the paths of public rules.
app-access-users = All signed-in users, to the paths of rules without groups and users.
app-access-group = Group: { $group }
app-access-members = Members: { $count }
app-access-user = User: <bdi>{ $user }</bdi>
app-rules = Rules
app-rules-lead = The first rule whose path, method and network match decides.
app-refusals = Recent refusals
app-edit = Change
app-edit-upstreams = Servers
app-edit-upstreams-hint = One URL per line, such as http://127.0.0.1:8080.
app-edit-fixed-hint = Only the operator can change the servers in the file: Sealgate sends them secrets or credentials, or the application has the host of the sign-in pages.
app-edit-preview = Preview the change
app-edit-other = Only the operator can change these keys in the file; they stay as they are: { $keys }
app-edit-input = Nothing was changed. Fill in the required fields, without control characters.
app-edit-socket = Nothing was changed. Only the operator can add a Unix socket as a server.
app-edit-fixed = Nothing was changed. Only the operator can change the servers of this application: Sealgate sends them secrets or credentials, or the application has the host of the sign-in pages.
app-edit-changed = Nothing was changed, because the file has changed since you opened the page. Check the current values and try again.
app-edit-disk = Nothing was changed, because the file of applications cannot be read or written. The log of the server has the reason.
app-edit-last-rule = Nothing was changed. An application without rules is open to all users, so its only rule cannot be removed. Change it instead.
app-remove = Remove the application
app-remove-hint = Its host is no longer served. Users, groups and clients stay.
rule-new = Add a rule
rule-new-title = Add a rule: { $app }
rule-edit-title = Change a rule: { $app }
rule-remove = Remove the rule
rule-path-hint = With a slash at the end, the rule is for all paths below it.
rule-edit-groups = Groups with access
rule-edit-groups-hint = One per line. Empty: all groups.
rule-edit-users = Users with access
rule-edit-users-hint = Email addresses or IDs, one per line. Empty: all users.
rule-edit-methods = Methods
rule-edit-methods-hint = Separated by spaces, such as GET HEAD. Empty: all methods without a rule of their own.
rule-edit-networks = Networks
rule-edit-networks-hint = Separated by spaces, such as 10.0.0.0/8. Empty: all networks.
rule-edit-levels = Levels of the sign-in
rule-edit-levels-hint = 1, 2 or 3. Empty: every sign-in.
rule-edit-max-age = Maximum time since the sign-in, in seconds
app-change-title = Change an application: { $app }
app-change-faults = The change cannot be saved, because the check of the configuration found errors:
app-change-difference = Change of the file
app-change-effect = The check of the whole configuration found no errors. The file is saved, and the server reloads its configuration at once.
app-change-save = Save and reload
app-configured = This application is defined in the configuration file. Only the operator can change it there.
app-sessions-none = No user has a session at this application.
app-session-until = Ends
app-session-end = Sign out: { $user }
app-refusals-lead = The last refusals of this server since its start, without requests that only led to the sign-in page.
app-refusals-none = There are no refusals.
app-request = Request
app-reason = Reason
rule-path = Path
rule-access = Access
rule-conditions = Conditions
rule-public = Everyone
rule-signed-in = Signed-in users and access tokens
rule-bearer = Access tokens
rule-groups = Groups: <bdi>{ $list }</bdi>
rule-users = Users: <bdi>{ $list }</bdi>
rule-scopes = Scopes: <code>{ $list }</code>
rule-networks = Networks: <code>{ $list }</code>
rule-levels = Sign-in level: <code>{ $list }</code>
rule-max-age = Signed in within the last { $minutes } minutes
app-new = Add an application
app-new-lead = This page writes the section for the configuration file and checks it together with the file. It does not change the file.
app-new-host = Public host name
app-new-host-hint = As users type it, for example wiki.example.com.
app-new-upstream = Address of the application’s server
app-new-upstream-hint = As Sealgate reaches it, for example http://127.0.0.1:8081.
app-new-title = Name that users see (optional)
app-new-name-hint = Lower-case letters, digits and hyphens. Without a name, the first part of the host name is used.
app-new-groups = Groups with access (optional)
app-new-groups-hint = One group per line. Without groups, all signed-in users have access.
app-new-check = Check
app-new-input = Enter a host name and the address of a server. Control characters are not allowed.
app-new-editable-lead = The application is added to the file of applications after a preview.
app-new-unreadable = The server cannot read its configuration file <code>{ $file }</code>.
app-new-valid = The section has no errors. Add it at the end of <code>{ $file }</code>, then run <code>sealgate reload</code>.
app-new-faults = With this section, the configuration file would have these errors:
app-new-section = Section for the configuration file
check-title = Check access
check-lead = Shows whether a request would be admitted, which rule decides, and which headers the application would receive. Nothing is sent.
check-problem = The request could not be checked. Correct the marked field.
check-url = URL
check-url-wrong = Enter a full URL, such as https://wiki.example.com/page.
check-url-characters = The path has characters that a URL cannot have. Percent-encode them.
check-method = Method
check-method-wrong = Enter a method, such as GET.
check-user = User
check-user-hint = Email address, username or ID. Leave it empty for a request without a sign-in.
check-user-wrong = Enter an email address, a username or an ID.
check-user-none = There is no such user.
check-client = Client (optional)
check-client-hint = Client ID. Checks a token with every scope that the client may request: the user’s, or its own without a user.
check-client-none = No client has this ID.
check-client-alone = The client gets no tokens in its own name for this application. Enter a user too.
check-level = Sign-in level
check-level-required = As required of the user
check-address = Client’s IP address
check-address-hint = For rules with networks.
check-address-wrong = Enter an IP address, such as 192.0.2.7.
check-token = Access token (optional)
check-token-hint = Instead of a user and a client. The signature is not checked, and the token is not stored.
check-claim = Claim
check-audience = Audience of the token
check-submit = Check
check-find = Find the user
check-find-client = Find the client
check-found-clients = Choose a client:
check-found-some-clients = { $count } of { $total } clients. Type more letters, or choose a client:
check-found-no-client = No client matches. Type a part of the name or the ID.
check-found = Choose a user:
check-found-some = { $count } of { $total } users. Type more letters, or choose a user:
check-found-none = No user matches. Type a part of the name, the email address or the username.
check-choose = Choose { $name }
check-choose-short = Choose
check-again = Check another request
check-allowed = Allowed
check-refused = Refused
check-sign-in = Redirected to the sign-in page
check-own = Answered by Sealgate
check-status = HTTP { $status }
check-rule = Rule
check-groups = Groups: { $groups }
check-login = Sign-in at the application
check-login-own = With the user’s own name and password
check-login-service = With the account <bdi>{ $name }</bdi>
check-headers = Identity headers
check-value = Value
check-from = Source
check-signed = Signed for each request
check-not-sent = Not sent: the user has no such value
check-user-disabled = The user is disabled and cannot sign in. Enable the user first.
check-tokens-only = The rule accepts access tokens only, not the session of a browser.
check-address-missing = The rules of this path depend on the network. Enter the client’s IP address.
check-link = Check access to an application
reason-forwarded = The request meets the conditions of the rule.
reason-own = Sealgate answers this path itself.
reason-no-application = No application has this host name.
reason-unauthenticated = The rule requires a sign-in or an access token.
reason-invalid-token = The access token is invalid, expired, or of another issuer.
reason-audience = The access token is for another audience.
reason-client = The application does not accept tokens of this client. Add the client to clients of the application.
reason-unapproved-client = The client is not approved. Approve it on its page.
reason-scope = The token lacks a scope of the rule.
reason-user = The rule does not list this user.
reason-group = The user is in none of the rule’s groups.
reason-acr = The rule requires a stronger sign-in.
reason-max-age = The sign-in is too old for the rule.
reason-too-many-groups = The user’s groups do not fit into a header. Remove the user from some groups.
reason-unwritable-group = The name of a group cannot be written into a header. Rename the group, or set names of the application to utf8.
reason-destination = The rule of the destination path refuses the request.
reason-below = The request acts on all paths below, and the rule of one of them refuses it.
reason-maintenance = The application is under maintenance, and the user is in none of its groups.
reason-network = No rule of this path is for the client’s network.
reason-unopened = No rule of the application has this path.
reason-method = No rule of this path allows the method.
reason-method-case = Write the method in upper case.
reason-repeated-field = A header field that may occur only once was repeated.
reason-ambiguous = Servers may read this path or method in different ways ({ $reason }). Write it in its normal form.
keys-next-rotation = Next automatic rotation: { $moment }
keys-problem = The key was not rotated.
keys-rotate = Rotate the signing key
keys-rotate-hint = A new key takes over after all applications have fetched it. No one is signed out.
keys-rotating = A rotation is in progress: the published key signs next.
keys-plan = Show the plan
keys-plan-title = Rotate the signing key?
keys-plan-publish = Now: a new key is generated in the security token and published.
keys-plan-waiting = Now: the published key <code>{ $kid }</code> is scheduled.
keys-plan-activate = { $moment }: the new key starts to sign. All applications have fetched it by then.
keys-plan-retire = Until the new key starts, the current key <code>{ $kid }</code> signs.
keys-plan-remove = { $moment }: <code>{ $kid }</code> is removed. Everything that it signed has expired by then.
keys-plan-effect = Users notice nothing. If a key may be compromised, run sealgate key rotate --emergency instead.
outbox-lead = Sealgate sends email through <bdi>{ $server }</bdi>.
outbox-off = Sealgate sends no email. Set up a mail server in the configuration file ([mail]).
outbox-test = Test message
outbox-test-send = Send
outbox-test-sent = The mail server accepted the test message. Its answer:
outbox-test-failed = The test message was not sent.
outbox-test-address-wrong = Enter an address such as name@example.com.
outbox-dead = Undeliverable
outbox-dead-none = There are no undeliverable messages.
outbox-waiting = Queue
outbox-waiting-none = The queue is empty.
outbox-created = Created: { $moment }.
outbox-due = Next attempt: { $moment }.
outbox-attempts = Attempts: { $count }.
outbox-retry = Try again now
outbox-retry-named = Try again now: { $id }
outbox-delete-named = Delete: { $id }
outbox-more = Each list shows up to { $most } messages. sealgate mail list shows all.
outbox-templates = Preview of all messages
outbox-templates-lead = The messages that Sealgate sends, with example values.
outbox-back = Back to the queue
outbox-kind-reset = Password reset
outbox-kind-code = Verification code
outbox-kind-passkeys = Password reset for an account with passkeys only
outbox-kind-elsewhere = Password reset for an account of a directory
outbox-kind-invitation = Invitation
outbox-kind-exists = Account already exists
outbox-kind-address = Email address changed
outbox-kind-notice = Security notice
done-key-rotated = The new key is published.
done-mail-retried = The message will be sent in a few seconds.
done-mail-deleted = The message was deleted.
done-app = The application was saved, and the configuration was reloaded.

## Tokens for the admin API

api-tokens-title = API tokens
api-tokens-lead = Programs manage this installation with a token. A token works only while the administrator who created it has the role.
api-tokens-none = There are no API tokens.
api-tokens-full = There are too many API tokens. Remove one first.
api-token-new = Create a token
api-token-once = Copy the token now. It is not shown again.
api-token-name-hint = The program that uses the token, such as terraform.
api-token-name-wrong = Enter a name of 1 to 100 characters.
api-token-scopes = Scopes
api-token-scopes-wrong = Choose at least one scope.
api-token-lifetime = Lifetime
# $days (number): lifetime in days
api-token-days = { $days } days
api-token-create = Create token
api-token-remove = Remove
# $name: name of the token
api-token-remove-named = Remove { $name }
# $created, $expires: times
api-token-times = Created { $created }, expires { $expires }.
# $at: time
api-token-used = Last used { $at }.
api-token-unused = Never used.
api-scope-users-read = <code>users:read</code> List users
api-scope-users-write = <code>users:write</code> Create, change and delete users, reset their credentials
api-scope-groups-read = <code>groups:read</code> List groups and members
api-scope-groups-write = <code>groups:write</code> Change members, rename and delete groups
api-scope-clients-read = <code>clients:read</code> List clients
api-scope-clients-write = <code>clients:write</code> Create, change and delete clients, generate secrets
api-scope-sessions-read = <code>sessions:read</code> List sessions and other access
api-scope-sessions-write = <code>sessions:write</code> End sessions and other access
api-scope-keys-read = <code>keys:read</code> List signing keys
api-scope-keys-write = <code>keys:write</code> Rotate the signing key
api-scope-mail-read = <code>mail:read</code> List email messages
api-scope-mail-write = <code>mail:write</code> Retry and delete email messages
api-scope-audit-read = <code>audit:read</code> Read the audit log
api-scope-apps-read = <code>apps:read</code> List applications and check access
api-scope-admins-write = <code>admins:write</code> With another write scope: change users with a console role
confirm-api-token-title = Create this token?
confirm-api-token-effect = Every program that has the token can do this in your name, without a password or a second factor. The token is shown to you once.
confirm-api-token-until = Expires
confirm-api-token-remove-title = Remove this token?
confirm-api-token-remove-effect = Programs that use the token stop working at once.
done-api-token-removed = The token was removed.

## Tokens that register clients

registration-tokens-title = Registration tokens
registration-tokens-lead = A program that has a token registers clients at this address (RFC 7591). An administrator approves them.
registration-tokens-off = The configuration does not accept tokens: registration.mode is not token.
registration-tokens-none = There are no registration tokens.
registration-tokens-full = There are too many registration tokens. Revoke one first.
registration-token-usable = Usable
registration-token-used-up = Used up
# $used, $total (number): clients
registration-token-uses = { $used } of { $total } clients registered
registration-token-name-hint = The program or the team that registers clients.
registration-token-number = Number of clients that it can register
registration-token-revoke = Revoke
# $name: name of the token
registration-token-revoke-named = Revoke { $name }
confirm-registration-token-effect = Every program that has the token can register this number of clients. Users can sign in to these clients, and give them access with their consent. The token is shown to you once.
confirm-registration-token-title = Revoke this token?
confirm-registration-token-revoke-effect = The token registers no more clients. The clients that it has registered stay.
confirm-registration-token-number = Clients
done-registration-token-revoked = The token was revoked.

## Settings and reload

settings-file = Configuration file
settings-file-same = The running configuration equals the file.
settings-file-changed = The configuration file differs from the running configuration.
settings-file-restart = These changes need a restart. A reload is refused until then:
settings-file-reloadable = A reload applies these changes:
settings-file-faulty = The configuration file has errors. The server would not start with it:
settings-keys = All settings
settings-search = Name, value or description
settings-search-button = Search
settings-elements =
    { $count ->
        [one] One entry
       *[other] { $count } entries
    }
settings-set =
    { $count ->
        [one] One key is set
       *[other] { $count } keys are set
    }
settings-defaults = Defaults only
settings-back = Back to the settings
settings-found = Found settings
settings-entries = Entries of this section
settings-none = No setting was found.
settings-shown = { $first }–{ $last } of { $total }
settings-pages = Pages of the settings
settings-previous = Previous
settings-next = Next
settings-from-file = Configuration file, line { $line }
settings-from-applications = File of applications, line { $line }
settings-from-default = Default
settings-computed = Derived from other keys or the machine
settings-unset = Not in the configuration file
settings-not-set = not set
settings-hidden = set, not shown
settings-default = Default: <code>{ $value }</code>
settings-restart = Needs a restart
settings-preview = Preview
settings-preview-hint = The sign-in page with the name, logo and colours that are loaded now.
settings-preview-light = Light
settings-preview-dark = Dark
reload-hint = Reads the file and the certificates again, as sealgate reload does. No connection is closed.
reload-plan = Reload the configuration
reload-title = Reload the configuration?
reload-effect = The server applies these changes at once:
reload-nothing = The file has no changes. The server reads the files that it names, such as certificates, again.
reload-node = Only this node, <bdi>{ $node }</bdi>, reloads its file. Reload the other nodes too.
reload-key = Key
reload-before = Now
reload-after = In the file
reload-more =
    { $count ->
        [one] One further change is not shown.
       *[other] { $count } further changes are not shown.
    }
reload-meanwhile = The file has changed since this page was shown. Nothing was reloaded. Check the changes again.
reload-button = Reload
reload-refused = The configuration was not reloaded. The current one stays in use.
reload-changed = Changed settings:
done-reloaded = The configuration was reloaded.
limits-none = No limit
keys-plan-of = Show the plan for { $algorithm }
keys-plan-algorithm = Keys for { $algorithm }:
event-audit-exported = Audit log exported
event-users-exported = List of users exported
audit-filters = Saved filters
audit-filter-name = Name for this filter
audit-filter-save = Save
audit-filter-name-wrong = Enter one line of 1 to 60 visible characters.
audit-filters-full = You have 20 saved filters. Delete one first.
audit-filter-delete-named = Delete the filter { $name }
audit-live-start = Live view
audit-live-stop = Stop the live view
audit-live-on = New events appear every { $seconds } seconds.
audit-live-over = The live view has ended. Start it again if you still need it.
done-filter-saved = The filter was saved.
done-filter-deleted = The filter was deleted.
overview-clock = No time service synchronizes the clock. Install and start chrony or systemd-timesyncd: tokens and codes depend on the clock.
overview-clock-differs = The database’s clock and this machine’s differ by { $difference } ms. Synchronize both. If they differ by two seconds or more, this node refuses requests.
overview-token-slow = A signature of the token takes { $mean } ms on average. Check the device and its network. More hsm.sessions help if the device works in parallel.
overview-file-exposed = Other users of the machine have access to <code>{ $file }</code>. Run sealgate doctor, which shows the right mode.
overview-few-descriptors = The server has { $open } files and connections open and may open { $most }. Raise LimitNOFILE= of the unit, or lower server.max_connections.
overview-mail-server = The mail server <code>{ $server }</code> accepts no connections, so messages are delayed. Check mail.host, mail.port and the firewall.
overview-read-only = The store is on a read-only file system. See the kernel’s log, stop the server and run fsck.
overview-disk-full = The store’s disk is full, so no one can sign in. Free some space.
overview-disk-low = Only { $size } MiB are free on the store’s disk. Free some space.
overview-few-inodes = The store’s file system has hardly any inodes left. Delete files.
overview-never-backed-up = The store was never backed up. Run sealgate backup daily, and copy the backup to another machine.
overview-old-backup =
    { $days ->
        [one] The last backup is one day old. Run sealgate backup daily.
       *[other] The last backup is { $days } days old. Run sealgate backup daily.
    }
