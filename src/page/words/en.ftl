# Every word that a person reads, in English. The build makes a method of each message (build.rs), and fails when tr.ftl
# lacks one or gives it other arguments. A method takes its arguments in alphabetical order.
# A message is markup, and its arguments are escaped. A name goes into a sentence whole, inside <bdi>, so that its writing
# direction stays its own. What stands in a title or in an attribute holds no tag.

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
    Incorrect account or password. Check both and try again. If you have forgotten your password, ask your
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
login-forgot = Forgot your password?
login-create-account = Create an account
login-wrong-credentials-reset = Incorrect account or password. Check both and try again. If you have forgotten your password, reset it below.
login-busy = Many people are signing in right now, so your password was not checked. Wait a few seconds and try again.

## A forgotten password

forgot-title = Forgotten password
forgot-lead = Enter what you sign in with. If it belongs to a <bdi>{ $operator }</bdi> account, we will email you a link with which you choose a new password.
forgot-submit = Send me a link
forgot-sign-in = Back to sign-in
forgot-asked-title = Check your email
forgot-asked-lead = If there is an account, an email is on its way to its address. The link in it works once, for 30 minutes.
forgot-asked-late = If nothing arrives within a few minutes, look in your spam folder.
forgot-asked-other = You may also have an account under another address or username.
forgot-again = Try another one
forgot-asked-administrator = If there is still nothing, ask your administrator: your address may not be verified yet, or you may have asked too often.
reset-title = Choose a new password
reset-lead = For the <bdi>{ $operator }</bdi> account <bdi>{ $account }</bdi>. If this is not your account, close this page.
reset-submit = Set new password
reset-ends = You will be signed out everywhere, and applications will ask you to sign in again. Your second step stays as it is.
reset-done-title = Your password was changed
reset-done-lead = You were signed out everywhere. Sign in with your new password.
reset-done-second-step = If you have a second step, you will be asked for it as usual. If you have lost it too, ask your administrator.
error-reset-link-title = This link no longer works
error-reset-link-text = A reset link works once, for 30 minutes, and only until the password, the email address or the account is changed. Go to the sign-in page and ask for a new one.
error-undo-link-text = A link that takes a change of address back works once, for up to 14 days. If somebody else uses your account, tell your administrator.

## An account that somebody makes for themselves

create-title = Create an account
create-lead = Make your own account at <bdi>{ $operator }</bdi>. First, show that mail to your address reaches you.
create-email = Email address
create-hint = We will send a verification code to it.
create-hint-domains = We will send a verification code to it. Addresses at these domains can be used: <bdi>{ $domains }</bdi>
create-domain = No account can be made with this address. Enter one at <bdi>{ $domains }</bdi>, or ask your administrator.
create-busy = Too many people are creating accounts right now. Try again in a few minutes.
create-over = No code is expected in this browser: it has expired, was wrong too often, or was requested in another browser. Enter your address again.
create-taken = There is an account with this address by now. Go back to sign-in and use it; if you do not know its password, you can reset it there.
create-code-lead = We sent a message to the address that you entered. If an account can be made with it, the message has a verification code. Enter it here, in this browser, within 15 minutes.
create-code-none = No message? Check the address, wait a few minutes, then enter it again. After several attempts, no more messages are sent for an hour. Only the newest code works.
create-finish-title = Set up your account
create-finish-lead = This will be the address of your account at <bdi>{ $operator }</bdi>: <bdi>{ $address }</bdi>
create-finish-submit = Create account and go on

## Invitations

invitation-title = Accept the invitation
invitation-lead = An account for <bdi>{ $account }</bdi> was made for you at <bdi>{ $operator }</bdi>. If this is not your address, close this page.
invitation-lead-inviter = <bdi>{ $inviter }</bdi> invites you to <bdi>{ $operator }</bdi>. The account is for <bdi>{ $account }</bdi>. If this is not your address, close this page.
invitation-shared = Somebody else is signed in in this browser. Your account is not mixed with theirs: you will be asked to sign in with yours.
invitation-password = Choose a password
invitation-submit = Set password and go on
invitation-passkey = Use a passkey instead
invitation-passkey-name = Name of the passkey (optional)
invitation-passkey-only = Your account will have no password then. Use a passkey that you also have on your other devices, or add another one later.
invitation-password-instead = Choose a password instead
invitation-then = Next, you sign in with what you have chosen here.
invitation-then-app = Next, you sign in with what you have chosen here, and go on to <bdi>{ $app }</bdi>.
error-invitation-link-title = This invitation no longer works
error-invitation-link-text = If you have accepted it already, sign in with what you chose then. Otherwise it was withdrawn, replaced by a newer one, or is older than 7 days: ask whoever invited you for a new one.

## Passkeys, and the second step of a sign-in

passkey-login = Sign in with a passkey
login-passkey-refused =
    The passkey was not accepted, so you are not signed in. Try it again, or sign in with your password.
# What a browser says of a key. These stand in attributes.
ceremony-waiting = Follow the instructions of your browser. Touch your security key when it blinks.
ceremony-cancelled = Nothing was confirmed: it was cancelled, or this device has no key for your account. Try again or choose another way.
ceremony-not-made = Nothing was added: it was cancelled, or the key cannot do this. A passkey needs a PIN, a fingerprint or a face. Try again or choose another way.
ceremony-late = You did not confirm in time. Try again.
ceremony-known = This device or key has already been added to your account. Use a different one.
ceremony-security = Keys do not work at this address. Open the site at its usual address, or tell your administrator.
ceremony-unsupported = This browser or key cannot do that. Choose another key, another browser or another way.
ceremony-failed = The key gave no usable answer. Try again or choose another way.

factor-title = Confirm that it is you
factor-account = You are signing in as <bdi>{ $account }</bdi>.
factor-account-client = You are signing in to <bdi>{ $client }</bdi> as <bdi>{ $account }</bdi>.
factor-app-code = Code from your authenticator app
factor-app-hint = The app shows six digits, which change every 30 seconds.
factor-recovery-code = Recovery code
factor-recovery-hint = One of the codes that you saved when you set up your second step. Each works once.
factor-key-text = Plug in your security key or hold it to this device, then press the button. A passkey works here too.
factor-key-start = Use the key
factor-key-scripts = A security key works only with JavaScript, which is switched off or did not load. Switch it on and reload this page.
factor-key-scripts-others = Or choose another way below.
factor-submit = Continue
factor-ways = Ways to confirm
factor-way-app = Authenticator app
factor-way-key = Security key
factor-way-recovery = Recovery code
factor-lost = If you have none of these at hand, ask your administrator for help.
factor-start-over = Use another account
factor-wrong-code = The code is not right. Wait for the next one in your app and enter it. Each code works only once.
factor-wrong-recovery = The recovery code is not right. Check it and try again. Each code works only once.
factor-clock = The code belongs to another time: the clock of your device is wrong. Set it to automatic, then enter the next code.
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
factor-blocked = This way is blocked after too many wrong attempts. Confirm in another way to unblock it, or ask your administrator.
factor-key-refused = The key was not accepted. Use a key that you have added to your account, or choose another way.
factor-key-copied =
    The key was not accepted this time: somebody may have copied it. If you have just used it in another window, try again.
    Otherwise confirm in another way and remove the key from your account.
factor-busy = Nothing was checked, because the service is busy. Wait a few seconds and try again.

factor-kind-app = Authenticator app
factor-kind-security-key = Security key
factor-kind-passkey = Passkey
factor-kind-recovery = Recovery codes
factor-named = { $kind }: <bdi>{ $name }</bdi>

enrol-title = Set up a second step
enrol-lead = A second step protects your account even if somebody learns your password.
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
enrol-name-hint = A name by which you will recognize it later, such as “my phone”.
enrol-key-title = Set up a security key or passkey
enrol-key-security = Add a security key
enrol-key-security-hint = A security key is asked for after your password.
enrol-key-passkey = Create a passkey
enrol-key-passkey-hint = A passkey signs you in without your password: your device asks for your PIN, fingerprint or face.
enrol-key-scripts = Keys work only with JavaScript. Add an authenticator app too, so that you can sign in where it is off, or when the key is lost.
enrol-later = Not now
enrol-later-until = You can put this off until { $moment }.
enrol-wrong-code = The code is not right. Enter the one that the app shows now. If it is refused again, remove the entry from the app and scan the code anew.
enrol-expired = The time to confirm has run out, so a new code was made. Remove the old entry from your app and scan this one.
enrol-key-known = This key has already been added to an account. Use a different one.
enrol-key-refused = The key was not added, because its answer could not be verified. Try again or use a different one.
enrol-key-unverified = The passkey was not added: the device did not ask for your PIN, fingerprint or face. Add it as a security key, or use a different device.
enrol-full = You have reached the maximum number of second steps. Remove one that you no longer use, then try again.

codes-title = Save your recovery codes
codes-lead = If your second step is not at hand, each of these codes takes its place once. Keep them where only you can find them. They will not be shown again.
codes-replaced = The codes that you were given before no longer work.
codes-of = Recovery codes for <bdi>{ $account }</bdi> at <bdi>{ $operator }</bdi>
codes-download = Download
codes-print = Print
codes-kept = I have saved them

unmet-title = A stronger sign-in is needed
unmet-two = <bdi>{ $client }</bdi> can only be used after a sign-in with a second step.
unmet-two-own = This page can only be used after a sign-in with a second step.
unmet-resistant = <bdi>{ $client }</bdi> can only be used after a sign-in with a security key or a passkey.
unmet-resistant-own = This page can only be used after a sign-in with a security key or a passkey.
unmet-account = Your account <bdi>{ $account }</bdi> does not have what this needs.
unmet-way-self = Add it on the page “Security” of your account, then open the application again.
unmet-way-administrator = Ask your administrator to set it up for you, then open the application again.
unmet-security = Go to “Security”
unmet-back = Go back to <bdi>{ $client }</bdi>
unmet-back-own = Go back
error-factors-reset-title = Open the link from your administrator
error-factors-reset-text =
    Your account has no second step. Open the link that an administrator gave you to set one up. The link works once, for
    24 hours. If you do not have it, ask your administrator for one.
error-enrolment-link-title = This link no longer works
error-enrolment-link-text = The link works once, for 24 hours, and only until a newer one is made. Ask your administrator for a new one.

## Consent

consent-title = Allow access
consent-heading = <bdi>{ $client }</bdi> wants access to your <bdi>{ $operator }</bdi> account
consent-account = You are signed in as <bdi>{ $account }</bdi>.
consent-self-registered =
    <bdi>{ $client }</bdi> registered itself here, under a name of its own choosing. No one at <bdi>{ $operator }</bdi> has
    reviewed it. Allow it only if you know it and have just started this yourself.
consent-shares = If you allow this, <bdi>{ $client }</bdi> will receive:
consent-scope-openid = Your user ID
consent-scope-profile = Your profile
consent-scope-email = Your email address
consent-scope-phone = Your phone number
consent-scope-groups = The groups that you are in
consent-scope-offline-access = Access while you are away
consent-nothing-stored = Nothing is stored here yet.
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
signed-out-close-client = You can close this page or go back to <bdi>{ $client }</bdi>.
signed-out-others = You may still be signed in to some applications until you sign out of them too.
signed-out-sign-in = Sign in again

## Not allowed into an application

forbidden-title = You do not have access
forbidden-text = <bdi>{ $account }</bdi> does not have access to <bdi>{ $app }</bdi>.
forbidden-advice = Ask your administrator for access, or sign in with an account that has it.
forbidden-switch = Use another account

## A form that was kept while its sender signed in

return-form-title = One moment
return-form-text = You are on your way back to <bdi>{ $host }</bdi>. If nothing happens, press the button.
return-form-submit = Continue

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
error-cookie-missing-title = Cookies are needed to sign in
error-cookie-missing-text =
    Your browser did not send the cookie that signing in needs. Allow cookies for this site, then go back to the
    application and start again.
error-nothing-to-do-title = Start from the application
error-nothing-to-do-text =
    No sign-in is in progress in this browser. Open the application that you want to use; it will bring you here when you
    need to sign in.
error-signed-in-already-title = You are already signed in
error-signed-in-already-text = This step is done; there is nothing left to do on this page.
error-unknown-host-title = There is nothing at this address
error-unknown-host-text = No application uses this host name. Check the address for typing mistakes.
error-for-programs-title = This address is for applications
error-for-programs-text = Applications use it to talk to each other. There is nothing to see here.
way-again = Try again
way-application = Go to <bdi>{ $name }</bdi>
way-start = Go to the start page
way-account = Go to your account
way-another-account = Use another account
error-not-found-title = Page not found
error-not-found-text = There is no page at this address. Check the address for typing mistakes.
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
error-internal-title = Something went wrong
error-internal-text =
    This is our fault, not yours. Try again; if it keeps happening, tell your administrator.
error-reference = If you ask for help, quote this reference:

## The account pages

skip-to-content = Skip to content
# How a time is written, in the signs of strftime: with the month in letters, since 05/11 is May to some and November to others.
moment-pattern = %-d %b %Y, %H:%M UTC
moment-pattern-seconds = %-d %b %Y, %H:%M:%S UTC
device = { $browser } on { $system }
device-unknown = Unknown browser

menu-account = Your account
menu-home = Home
menu-profile = Profile
menu-password = Password
menu-security = Security
menu-sessions = Devices
menu-applications = Applications
menu-app-passwords = Application passwords
menu-sign-out = Sign out
menu-switch = Use another account

done-profile = Your profile was saved.
done-password = Your password was changed. You were signed out everywhere else, and applications will ask you to sign in again.
done-address-verified = Your address is verified.
done-address-changed = Your address was changed. A message about this was sent to the old address as well; from there it can be undone for up to 14 days.
done-address-returned = Your address was changed. A message about this was sent to the old address as well.
done-session = The session was ended.
done-other-sessions = You were signed out everywhere else.
done-withdrawn = The application’s access was removed.
done-app-password = The application password was revoked. It no longer works.
done-factor-added = The second step was added. You will be asked for it when you sign in with your password.
done-factor-renamed = The name was changed.
done-factor-removed = The second step was removed. It can no longer be used to sign in.

profile-title = Your profile
profile-lead = Applications see these details when you allow it.
profile-email = Email address
profile-email-hint = You sign in with this address. Only your administrator can change it.
profile-username = Username
profile-username-hint = You can sign in with it too, and applications may call you by it. Only your administrator can change it.
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
address-lead = You sign in with this address, and messages about your account go to it.
address-verified = Verified
address-unverified = Not verified
address-change = Change address
address-verify-or-change = Verify or change
address-verify-lead =
    Applications can rely on your address only after you have shown that its mail reaches you. We will send a verification
    code to it.
address-verify = Send verification code
address-code-title = Enter the verification code
address-code-lead = We sent a verification code to <bdi>{ $address }</bdi>. Enter it here, in this browser, within 15 minutes.
address-code-lead-new =
    We sent a message to <bdi>{ $address }</bdi>. If you can use this address, the message has a verification code. Enter it
    here, in this browser, within 15 minutes. Until then your address stays as it is.
address-code = Verification code
address-code-hint = Eight digits. The message may take a few minutes; look in the spam folder too.
address-code-submit = Confirm
address-code-again-lead = No message? Check the address, wait a few minutes, then have another code sent. Only the newest code works.
address-code-again = Send another code
address-code-again-new = Enter the address again
address-code-cancel = Cancel
address-wrong-code = The code is not right. Enter the code of the newest message. After five wrong codes you need a new one.
address-over =
    No code is expected in this browser: it has expired, was wrong too often, or was requested in another browser. Have a new
    one sent.
address-too-many = Too many codes were sent. Use the newest one, or try again later.
address-busy = No messages can be sent right now. Try again in a few minutes.
address-undeliverable = No mail can be sent to your address as it is written. Change it, or ask your administrator.
address-taken = Somebody else has this address by now, so yours was not changed.
new-address-title = Change address
new-address-lead = Your address is <bdi>{ $address }</bdi>.
new-address-label = New email address
new-address-hint = We will send a verification code to it. Your address changes only when you enter the code.
new-address-effects =
    You sign in with the new address then, and links and codes that were sent to the old one no longer work. You stay signed
    in. An application that knows you by your address may take you for somebody new; ask its administrator first.
new-address-keep = Keep the present address
new-address-malformed = Mail cannot be sent to this address. Enter one such as anna@example.com.
new-address-not-ascii = Many mail servers do not accept letters such as ş or ı before the @. Enter an address without them.
new-address-unchanged = This is your address already.
undo-title = Take the change of address back?
undo-lead = The address of a <bdi>{ $operator }</bdi> account was changed from <bdi>{ $old }</bdi> to <bdi>{ $new }</bdi>. If it was not you, take it back here.
undo-effects =
    The old address becomes the account’s again. Everybody is signed out of the account, applications lose their access, and its
    password no longer works: you will choose a new one. Second steps stay as they are.
undo-submit = This was not me: take it back
undo-keep = If it was you, close this page. Nothing happens.
undone-title = The account is safe
undone-lead = Your old address is the account’s again. Everybody was signed out, and the password no longer works.
undone-closed =
    Your old address is the account’s again, and everybody was signed out. Around the time of the change a passkey was added, with
    which somebody could sign in. So the account is disabled until your administrator has looked at it.
undone-taken =
    Everybody was signed out of the account. Another account has your old address by now, so it could not be given back, and the
    account is disabled.
undone-reset = We have sent a reset link to your old address. Use it within 30 minutes to choose a new password.
undone-passkey = The account has no password. Sign in with your passkey.
undone-administrator = Ask your administrator for help, and say that somebody else changed your address.
undone-added = These second steps were added since the day before the change. Any that is not yours has to be removed:

password-title = Change your password
password-lead = You will stay signed in here. You will be signed out everywhere else, and applications will ask you to sign in again.
password-current = Current password
password-new = New password
password-new-hint = At least 15 characters. A few words that only you would put together are easy to remember and hard to guess.
password-again = Confirm new password
password-submit = Change password
password-wrong-current = The current password is incorrect. Check it and try again. Your password was not changed.
password-too-short = The new password is too short. Choose one with at least 15 characters: a few words are enough.
password-too-long = The new password is too long. Choose a shorter one.
password-personal = The new password contains your name, your username or your email address, which anyone guessing it tries first. Choose another.
password-common = The new password is easy to guess: it is a common one, a row of keys or a repetition. Choose a few words that do not belong together.
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
password-too-many-changes = This password was changed five times within a day. Try again tomorrow. If it was not you, sign out and reset your password, or ask your administrator.
password-busy = Many people are signing in right now, so nothing was changed. Wait a few seconds and try again.

security-title = Security
security-none = You sign in with your password only. Add a second step: it protects your account even if somebody learns your password.
security-none-link = You sign in with your password only. To add a second step, ask your administrator for a link.
security-lead = What you sign in with besides your password. If you do not recognize one of these, remove it and change your password.
security-added = Added: { $moment }
security-used = Last used: { $moment }
security-unused = Never used
security-synced = Synced: other devices of yours have it too
security-bound = On one device only
security-manage = Manage
security-manage-named = Manage: { $name }
security-add-app = Add an authenticator app
security-add-key = Add a security key or passkey
security-back = Back to “Security”
security-last-demanded = Nothing was removed: your account needs a second step like this one, and you have no other. Add another one first.
security-last-passkey = Nothing was removed: you have no password, and this is your only passkey. Add another passkey first.
factor-settings-title = Your second step: { $kind }
factor-settings-name = Name
factor-settings-rename = New name
factor-settings-remove-title = Remove it
factor-settings-remove-hint = It can no longer be used to sign in. You stay signed in where you are.
factor-settings-remove-last = It is your only one: you will sign in with your password only, and your recovery codes are removed too.
factor-settings-remove = Remove
recovery-title = Recovery codes
recovery-unavailable = Recovery codes take the place of a second step that you have lost. Add a second step to your password first.
recovery-none = You have no recovery codes. Make some and keep them safe: without them, only an administrator can help you if you lose your second step.
recovery-left =
    { $count ->
        [one] One recovery code is left.
       *[other] { $count } recovery codes are left.
    }
recovery-few = Make new ones before they run out.
recovery-made = Made: { $moment }
recovery-make = Make recovery codes
recovery-remake = Make new codes
recovery-used-title = You used a recovery code
recovery-used-lead = You are signed in as <bdi>{ $account }</bdi>. The code does not work again.
recovery-used-lost = If you have lost your app or key, remove it on the page “Security” and add another one, so that nobody signs in with it.
recovery-ask = You will be shown ten codes, once. Have a place ready to keep them: a password manager, or paper.
recovery-ask-replaces = Your present codes will no longer work.

sessions-title = Where you are signed in
sessions-lead = If you do not recognize one of these, sign it out and change your password.
sessions-this = This browser
sessions-signed-in = Signed in: { $moment } from <bdi>{ $address }</bdi>
sessions-signed-in-with = Signed in with: { $methods }
method-password = Password
method-recovery = Recovery code
sessions-last-seen = Last used: { $moment }
sessions-end = Sign out
sessions-end-named = Sign out: { $device }, { $address }
sessions-end-others = Sign out everywhere else
sessions-only = You are not signed in anywhere else.

applications-title = Applications with access
applications-lead = You have allowed these applications to access your account.
applications-none = You have not given any application access yet.
applications-since = Allowed: { $moment }
applications-sees = It can see:
applications-withdraw = Remove access
applications-withdraw-named = Remove access: { $client }
applications-effect = An application whose access you remove has to ask you again. It keeps what it has already stored.

home-title = Your applications
home-none = You do not have access to any application yet. If one is missing, ask your administrator.

app-passwords-title = Application passwords
app-passwords-lead = For programs that cannot show a sign-in page, such as git, a calendar or a network drive. Each password opens one application, and you can revoke it at any time. Changing your own password revokes all of them.
app-passwords-full = You have reached the maximum number of application passwords. Revoke one that you no longer use, then try again.
app-passwords-nowhere = No application accepts application passwords.
app-password-once = This is your new application password. Copy it now: it will not be shown again.
app-password-use = Enter it in the program that you use with <bdi>{ $app }</bdi>. The username is <bdi>{ $user }</bdi>.
app-password-made = For <bdi>{ $app }</bdi>. Created: { $moment }
app-password-used = Last used: { $moment }
app-password-unused = Never used
app-password-revoke = Revoke
app-password-revoke-named = Revoke: { $name }
app-password-new = Create an application password
app-password-app = Application
app-password-name = Name
app-password-name-hint = A name by which you will recognize it later, such as “git on my laptop”.
app-password-name-wrong = Enter a name of 1 to 60 characters.
app-password-weak-two = You can create one after a sign-in with a second step.
app-password-weak-resistant = You can create one after a sign-in with a security key or a passkey.
app-password-make = Create password

## The console

menu-console = Console
menu-clients = Clients
menu-users = People
menu-keys = Signing keys
menu-apps = Applications
menu-settings = Settings
apps-lead = The applications behind the gate, as the configuration file names them. Each server is checked every few seconds.
apps-none = The configuration file names no application.
apps-address = Address
apps-servers = Servers
server-up = Up
server-down = Down
server-unknown = Not checked yet
settings-provider = Provider
copy-named = Copy: { $name }
endpoint-discovery = Discovery document
endpoint-authorize = Authorization endpoint
endpoint-token = Token endpoint
endpoint-userinfo = UserInfo endpoint
endpoint-keys = Public keys (JWKS)
endpoint-logout = Logout endpoint
client-connect = Connect
client-sections = Sections of this page
copy = Copy
copied = Copied
next-page = Next page
state-disabled = Disabled
state-unapproved = Not approved
form-problem = Nothing was saved. Correct the marked fields and submit the form again.
error-console-title = No access to the console
error-console-text = Your account is not allowed to use this part of the console. Ask your administrator, or sign in with another account.

done-client = The client was saved.
done-client-deleted = The client was deleted, and all of its access has ended.
done-client-state = The client was updated.
done-shown-before = This was shown once and cannot be shown again. If you did not keep it, generate a new one.
done-user = The changes were saved.
done-user-revoked = All of this person’s sessions and tokens were ended.
done-user-invited = The invitation was sent.
done-user-invitation-withdrawn = The invitation was withdrawn. Nobody can sign in to this account until you send another one.

clients-title = Clients
clients-lead = Clients are the applications that let people sign in here.
clients-none = There are no clients yet.
client-new = Register a client
client-new-title = Register a client
client-register = Register
client-name = Name
client-name-hint = People see this name when they sign in and when they are asked for consent.
client-name-wrong = Enter a name of 1 to 200 visible characters.
client-description = Description (optional)
client-description-wrong = Enter one line of at most 500 visible characters.
client-type = Type
client-type-confidential = Confidential
client-type-confidential-hint = Runs on a server and can keep a secret.
client-type-public = Public
client-type-public-hint = Runs in a browser or on people’s devices. Has no secret and uses PKCE.
client-redirect-uris = Redirect URIs
client-redirect-uris-hint = One per line, exactly as the client sends them: https, or http on localhost, 127.0.0.1 or [::1].
client-logout-uris = Post-logout redirect URIs (optional)
client-logout-uris-hint = One per line, following the same rules.
client-uris-wrong = Enter at least one redirect URI, and no more than 20.
client-scopes = Scopes it may request, in addition to openid
scope-profile = Name and picture
scope-email = Email address
scope-phone = Phone number
scope-offline-access = Refresh token, for access while people are away
client-auth-method = Client authentication method
client-auth-basic = HTTP Basic (client_secret_basic)
client-auth-post = In the request body (client_secret_post)
client-auth-hint = Public clients do not use one.
uri-long = Line { $line }: a redirect URI can have at most 2000 characters.
uri-characters = Line { $line }: a redirect URI cannot contain spaces, quotes, backslashes or non-ASCII characters.
uri-absolute = Line { $line }: enter the full address, for example https://app.example.com/callback.
uri-wildcard = Line { $line }: wildcards are not allowed. Enter each address on a line of its own.
uri-fragment = Line { $line }: fragments are not allowed. Remove the # and everything after it.
uri-user = Line { $line }: user names are not allowed. Remove the @ and what stands before it.
uri-scheme = Line { $line }: use https, or http on localhost, 127.0.0.1 or [::1].
uri-host = Line { $line }: the host name is not valid. Use letters, digits, dots and hyphens.

client-id = Client ID
client-issuer = Issuer
client-since = Registered
client-token-limit = Limit at the token endpoint
client-token-limit-is =
    { $limit ->
        [one] One request per minute
       *[other] { $limit } requests per minute
    }
client-settings = Settings
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
client-secrets-full = Five secrets still work, which is the most. Wait until one of them expires, or choose “stops working at once” to end all of them.
client-level = Required sign-in
client-level-choice = What people must do to sign in
client-level-hint = The client gets tokens, and later refreshes them, only for people who have signed in like this. Its own requests can ask for more, but not for less.
client-level-one = 1: password
client-level-two = 2: password and a second step
client-level-three = 3: passkey, or password and security key
client-approval = Approval
client-approved = Approved: every application that does not list its clients accepts its tokens.
client-unapproved = Not approved: only applications that list this client accept its tokens.
client-approval-hint = Approval is withdrawn when the developer, or the client itself, changes its name, home page or sign-in address, adds a redirect URI or a scope, or makes it public.
client-approve = Approve
client-withdraw-approval = Withdraw approval
client-disabled-by-administrator = An administrator has disabled this client. Only an administrator can enable it again.
client-end = Disable or delete
client-end-hint = A disabled client is refused everywhere, and its tokens stop working at once. A deleted client cannot be restored.
client-disable = Disable
client-enable = Enable
client-delete = Delete
client-delete-sure = Yes, delete this client and end all of its access.
client-delete-wrong = Nothing was deleted. Tick this box first: a deleted client cannot be restored.
client-snippets = Ready-to-use code

trial-title = Test sign-in
trial-link = Test sign-in
trial-lead = Sign in through <bdi>{ $client }</bdi> and see what it would learn about you.
trial-off = The sign-in returns to the console, so the client needs one more redirect URI: <code>{ $uri }</code>. Turn it on while you test, and off again for production.
trial-on = The client has the redirect URI <code>{ $uri }</code>. Turn it off when you are done.
trial-switch-on = Turn on
trial-switch-off = Turn off
trial-start = Sign in
trial-back = Back to the client
trial-succeeded = It works. No token was kept; these are the claims that the client would have received.
trial-id-token = ID token
trial-access-token = Access token
trial-userinfo = UserInfo
trial-refused = The provider returned the error <code>{ $error }</code>. Change the client’s settings, or try again and allow access.
trial-unknown = This response does not belong to a test that was started here, or it has already been used. Start again.

users-title = People
users-find = Search by email address, username or name
users-find-submit = Search
users-find-hint = The first few letters are enough.
user-column-person = Person
user-state = State
user-signed-in = Last sign-in
user-role-admin-short = Administrator
user-role-developer-short = Developer
state-enabled = Active
users-none = No one was found.
users-none-yet = No one was found so far. There are more people to search: go to the next page.
user-new = Add a person
user-new-title = Add a person
user-add = Add
user-email-wrong = Enter an address such as name@example.com.
user-email-taken = Someone already has this address. Look for them in the list.
user-username = Username (optional)
user-username-hint = The letters a to z, digits, dots, hyphens and underscores, beginning with a letter. It cannot be changed here later: applications know the person by it.
user-username-wrong = Enter 1 to 64 of the letters a to z, digits, dots, hyphens and underscores, beginning with a letter and ending with a letter or a digit.
user-username-taken = Someone already has this username. Choose another.
user-groups = Groups
user-groups-hint = One per line, without commas, at most 100 characters each. Applications see them.
user-roles = Console role
user-role-developer = Developer: can register clients
user-role-admin = Administrator: can see and change everything
user-own-role = You cannot remove this role from yourself. Ask another administrator.
user-password-made = A password will be generated. It is shown once, on the next page.
user-invite = Send invitation
user-invite-hint = The person gets a link by email, good for 7 days, and chooses a password or a passkey. You need not tell them a password.
user-invite-app = Application to go to afterwards (optional)
user-invite-app-none = None: the page of applications
user-add-password = Add with a generated password
user-invitation = Invitation
user-invited-short = Invited
user-invitation-expired-short = Invitation expired
user-invitation-open = Sent on { $sent }. Good until { $until }.
user-invitation-expired = Sent on { $sent }. It has expired.
user-invitation-accepted = Accepted on { $moment }.
user-invitation-none = This person has neither a password nor a passkey, and no invitation that works.
user-invitation-resend = Send a new link
user-invitation-resend-hint = A link that was sent before stops working.
user-invitation-withdraw = Withdraw the invitation
user-password-once = This is the new password. Pass it on now: it will not be shown again. It can be changed on the account page.
user-subject = User ID
user-since = Added
user-sessions = Where this person is signed in
user-sessions-none = Not signed in anywhere.
user-factors = Second step
user-factors-unused = None. This person cannot sign in yet.
user-factors-none = None. This person signs in with the password only.
user-factors-reset-open = All second steps were removed. Until the person sets up a new one with the link, they cannot sign in. The link works until { $moment }.
user-factors-reset-late = All second steps were removed, and the link has expired. Make a new one below.
user-factors-blocked = Codes are no longer checked after too many wrong ones.
user-factors-unblock = Let them try again
user-factors-hint = First make sure that it is really this person who asks. Removing all second steps signs them out everywhere and gives you a link with which they set up a new one. Until then their password alone is not enough.
user-factors-sure = Yes, remove all second steps of this person.
user-factors-sure-wrong = Nothing was removed. Tick this box first: what is removed cannot be restored.
user-factors-reset = Remove all and make a link
user-link-once = This link works once, within 24 hours. Give it to this person only, and now: it will not be shown again.
user-factor-none = None
user-factor-reset = Waiting for the link
users-without-factor = Without a second step: { $without } of { $people } people who can sign in. Counted: { $moment }
user-access = Access
user-access-hint = Ending all sessions and access signs the person out of every browser and application at once. A disabled person cannot sign in.
user-revoke = End all sessions and access
user-reset-password = Generate a new password

keys-title = Signing keys
keys-lead = The private keys never leave the security token. Rotate them on the command line.
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

limits-title = Rate limits
limits-lead = These are set in the configuration file. A request over its limit gets a 429 response that says how long to wait.
limits-sign-ins = Sign-ins that applications start
limits-pages = Pages and all other addresses
limits-none = No limit
limits-by-address =
    { $limit ->
        [one] One request per minute per address
       *[other] { $limit } requests per minute per address
    }
limits-by-credential =
    { $limit ->
        [one] One request per minute per client or token
       *[other] { $limit } requests per minute per client or token
    }
limits-passwords = Wrong passwords
limits-failures = At most { $account } per account and { $address } per address within { $minutes } minutes

## The audit trail

menu-activity = Activity
menu-audit = Audit log
activity-title = Recent activity
activity-lead = Recent events on your account. If you do not recognize something here, change your password.
activity-none = Nothing has been recorded yet.
activity-by-administrator = By an administrator
audit-title = Audit log
audit-kind = Event
audit-kind-any = All events
audit-person = Person (email, username or ID)
audit-person-wrong = No one was found. Enter a full email address, a username or a user ID.
audit-client = Application (client ID)
audit-from = From
audit-to = To (inclusive)
audit-day-wrong = Enter a date such as 2026-11-21.
audit-show = Show
audit-none = No events were found.
audit-at = Time
audit-export = Export these events:
audit-export-hint = Up to { $count } of the newest. “sealgate audit export” on the server writes them all.
audit-newer = Newer events
audit-older = Older events
audit-pages = Pages of the audit log
event-subject-id = User ID
event-party-id = Client or application ID
event-name = Name in the log
audit-of-person = Audit log for this person
audit-of-client = Audit log for this client
event-subject = Person
event-actor = By
event-party = Application
event-address = IP address
event-detail = Details
event-request = Request ID
event-from = from <bdi>{ $address }</bdi>
event-with = Application: <bdi>{ $party }</bdi>
event-count = { $count } times
actor-stranger = Someone who was not signed in
actor-person = The person
actor-developer = Developer
actor-client = The client itself
actor-operator = An operator on the command line
actor-server = The server
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
event-user-created = Person added
event-self-registered = Account created by its owner
event-user-changed = Account details changed
event-user-disabled = Account disabled
event-user-enabled = Account enabled
event-user-deleted = Person deleted
event-password-changed = Password changed
event-password-reset-asked = Password reset asked for
event-password-reset = Password reset by a mailed link
event-address-verified = Address verified
event-address-changed = Address changed
event-address-restored = Change of address undone
event-app-password-created = Application password made
event-app-password-revoked = Application password revoked
event-factor-added = Second step added
event-factor-removed = Second step removed
event-factor-renamed = Second step renamed
event-recovery-codes-made = New recovery codes made
event-recovery-code-used = Signed in with a recovery code
event-factor-failed = Second step failed, after the right password
event-factor-blocked = Second step blocked after too many wrong attempts
event-key-may-be-copied = A key was refused, because somebody may have copied it
event-factors-reset = All second steps were removed
event-invitation-sent = Invitation sent
event-invitation-accepted = Invitation accepted
event-invitation-withdrawn = Invitation withdrawn
event-keys-changed = Signing key schedule changed
event-configuration-reloaded = Configuration reloaded

# What stands beside an event in the trail, where it is one of the program's own words.
detail-wrong-password = Wrong password
detail-throttled = Too many attempts
detail-at-password-change = while changing the password
detail-link-mailed = a reset link was mailed
detail-has-passkeys-only = signs in with passkeys only; a mail says so
detail-account-disabled = the account is disabled; nothing was mailed
detail-address-not-verified = the email address is not verified; nothing was mailed
detail-no-password = the account has no password; nothing was mailed
detail-of-many = Several accounts or addresses together
detail-groups-and-roles = Groups and roles
detail-address = Email address
detail-address-verification = Verification of the email address
detail-username = Username
detail-roles = Roles
detail-groups = Groups
detail-app-password = Application password
detail-blocked-factors = second steps unblocked
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
detail-approval-lost = approval withdrawn by the change
detail-new-secret = New client secret
detail-disabled = Disabled
detail-enabled = Enabled
detail-approved = Approved
detail-approval-withdrawn = Approval withdrawn
detail-trials-on = Test sign-in turned on
detail-trials-off = Test sign-in turned off
detail-nothing-changed = No setting changed

## Mails
# What stands in a subject holds no tag. A mail is text and HTML, both of the same messages; in the text the tags are left out.

mail-subject = { $title } – { $operator }
mail-footer = This email was sent automatically by <bdi>{ $operator }</bdi> ({ $host }).
mail-time = Time: { $moment }
mail-moment = { $day } { $month } { $year }, { $time } UTC
mail-from-address = IP address: { $address }
mail-from-browser = Browser: { $browser }
mail-copy-link = If the button does not work, copy this address into your browser:
mail-keep-link = Do not pass this email on: whoever has the link can use it.

mail-reset-title = Reset your password
mail-reset-lead = Someone asked to reset the password of your <bdi>{ $operator }</bdi> account. If it was you, choose a new password here:
mail-reset-button = Choose a new password
mail-reset-life = The reset link works once, within { $minutes } minutes of the request. If you use a second step to sign in, it stays as it is.
mail-reset-not-you = If it was not you, you need not do anything: your password stays as it is.

mail-passkeys-title = Your account has no password
mail-passkeys-lead = Someone asked to reset the password of your <bdi>{ $operator }</bdi> account. It has no password: you sign in with a passkey.
mail-passkeys-how = To sign in, open the sign-in page and choose “Sign in with a passkey”. If you no longer have a device with your passkey, ask your administrator for help.
mail-passkeys-not-you = If it was not you, you need not do anything: your account stays as it is.

mail-invitation-title = Your invitation
mail-invitation-lead = You have been invited to <bdi>{ $operator }</bdi>.
mail-invitation-lead-inviter = <bdi>{ $inviter }</bdi> has invited you to <bdi>{ $operator }</bdi>.
mail-invitation-app = With your account you will be able to use <bdi>{ $app }</bdi>.
mail-invitation-do = Accept the invitation and set up your account here:
mail-invitation-button = Accept the invitation
mail-invitation-life = The link works once, within { $days } days. After that, ask for a new invitation.
mail-invitation-not-you = If you were not expecting this invitation, you need not do anything: nothing happens unless you accept it.

mail-code-title = Confirm your email address
mail-code-title-new = Confirm your new email address
mail-code-lead-address = To confirm that this is the address of your <bdi>{ $operator }</bdi> account, type this verification code:
mail-code-lead-new = To make this the address of your <bdi>{ $operator }</bdi> account, type this verification code:
mail-code-lead-registration = To create an account at <bdi>{ $operator }</bdi>, type this verification code:
mail-code-how = Type it in the browser window in which you started. It is good for { $minutes } minutes.
mail-code-never = Never tell this code to anyone, not even to someone who says they are calling from <bdi>{ $operator }</bdi>.
mail-code-not-you = If it was not you, you need not do anything: without the code nothing happens.

mail-exists-title = You already have an account
mail-exists-lead = Someone wanted to create an account at <bdi>{ $operator }</bdi> with this address. It already has one. If it was you, sign in; if you have forgotten your password, the sign-in page lets you reset it:
mail-exists-title-new = Your email address was entered for another account
mail-exists-lead-new = Someone wanted to make this the address of another <bdi>{ $operator }</bdi> account. It is the address of your account, so nothing was changed. If it was you, sign in to the account that has this address; to use the address elsewhere, change it there first:
mail-exists-not-you-new = If it was not you, you need not do anything: your account and its address stay as they are.
mail-exists-button = Sign in
mail-exists-not-you = If it was not you, you need not do anything: no account was created and nothing was changed.

mail-undo-title = Your email address was changed
mail-undo-lead = The address of your <bdi>{ $operator }</bdi> account was changed from this one to <bdi>{ $address }</bdi>. If it was you, you need not do anything.
mail-undo-do = If it was not you, take the change back here. This restores the address and signs everyone out of your account:
mail-undo-button = This was not me
mail-undo-life = The link works once, for up to { $days } days.

mail-notice-count =
    { $count ->
        [one] It happened once.
       *[other] It happened { $count } times since the last email about it.
    }
mail-notice-button = Check your account
mail-notice-not-you = If it was you, you need not do anything. If it was not you, change your password, end all other sessions and tell your administrator:
mail-notice-not-you-password = If it was not you, someone knows your password. Change it now and tell your administrator:
mail-notice-remove-key = If you did not just use the key in two windows at once, remove it from your account, add another one and tell your administrator:
mail-notice-administrator = If you did not expect this, ask your administrator. Here you can see what your account looks like now:
mail-notice-locked-out = Until you set up a new second step with the link that your administrator gives you, you cannot sign in. If you did not ask for this, tell your administrator at once.

notice-password-changed-title = Your password was changed
notice-password-changed = The password of your <bdi>{ $operator }</bdi> account was changed.
notice-password-reset-title = Your password was reset
notice-password-reset = The password of your <bdi>{ $operator }</bdi> account was reset with a link that was sent to this address. All sessions were ended.
notice-factor-added-title = A second step was added
notice-factor-added = A second step for signing in was added to your <bdi>{ $operator }</bdi> account.
notice-factor-removed-title = A second step was removed
notice-factor-removed = A second step for signing in was removed from your <bdi>{ $operator }</bdi> account.
notice-factor-blocked-title = A second step was blocked
notice-factor-blocked = After too many wrong attempts, a second step of your <bdi>{ $operator }</bdi> account no longer works. Signing in with another one unblocks it.
notice-factor-failed-title = Failed sign-in attempts
notice-factor-failed = Someone entered the right password of your <bdi>{ $operator }</bdi> account, and then failed the second step several times.
notice-recovery-used-title = A recovery code was used
notice-recovery-used = Someone signed in to your <bdi>{ $operator }</bdi> account with a recovery code.
notice-recovery-made-title = New recovery codes were made
notice-recovery-made = New recovery codes were made for your <bdi>{ $operator }</bdi> account. The previous ones no longer work.
notice-key-copied-title = A key may have been copied
notice-key-copied = A key of your <bdi>{ $operator }</bdi> account was refused, because its usage counter went back. Someone may have a copy of it.
notice-app-password-title = An application password was made
notice-app-password = An application password was made for your <bdi>{ $operator }</bdi> account. Whoever knows it can use one application as you, without a second step.
notice-address-changed-title = Your email address was changed
notice-address-changed = This is now the email address of your <bdi>{ $operator }</bdi> account.
notice-address-replaced-title = Your email address was changed
notice-address-replaced = This is no longer the email address of your <bdi>{ $operator }</bdi> account.
notice-administrator-title = An administrator changed your account
notice-administrator = An administrator changed your <bdi>{ $operator }</bdi> account.
notice-factors-reset-title = All second steps were removed
notice-factors-reset = An administrator removed all second steps of your <bdi>{ $operator }</bdi> account and ended all sessions.

mail-test-title = Test email
mail-test-lead = Emails of <bdi>{ $operator }</bdi> arrive here. This one was sent by an administrator to test that.

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
