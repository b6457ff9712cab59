//! Names and passwords of users at applications: one small record per user.
//!
//! Each password is sealed with the data key, and bound to its user and to the name and host of its
//! application. So a password cannot be unsealed in another record or for another application, even
//! if the configuration later gives another application the same name.

use std::fmt;

use zeroize::Zeroizing;

use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, SealError};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::app_credential::{AppCredentials, is_app_credential_password, is_app_username};
use sealgate_domain::secret::{Sealed, Secret};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_system::clock::{OsEntropy, random};

/// Application that a name and password are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppSite<'a> {
    /// Name in the configuration.
    pub name: &'a str,
    /// Public host.
    pub host: &'a str,
}

/// Outcome of setting a user's name and password at an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AppCredentialSet {
    Yes,
    /// The user has the maximum number of credentials.
    Full,
    /// There is no such user. Nothing was stored.
    NoUser,
}

/// Name and password of a user at an application, in clear text.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenedAppCredential {
    pub username: String,
    pub password: Secret,
    /// Time of the last change. It identifies this version of the credential: see
    /// [`Store::refuse_app_credential`].
    pub changed_at: UnixTime,
    /// Whether the application has reported a wrong name or password. If so, the password must not
    /// be tried again.
    pub is_refused: bool,
}

/// Omits the name and the password.
impl fmt::Debug for OpenedAppCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changed_at, is_refused) = (self.changed_at, self.is_refused);
        write!(f, "OpenedAppCredential(changed at {changed_at:?}, refused: {is_refused})")
    }
}

impl Store {
    /// Returns the user's name and password at this application, in clear text.
    ///
    /// # Errors
    /// [`StoreError::UnreadableAppCredential`] if the password cannot be unsealed. Other errors if
    /// the store fails.
    pub async fn app_credential(
        &self,
        subject: Subject,
        app: AppSite<'_>,
    ) -> Result<Option<OpenedAppCredential>, StoreError> {
        let credentials = self.app_credentials(subject).await?;
        let Some(credential) = credentials.find(app.name) else { return Ok(None) };
        let unreadable = |why| StoreError::UnreadableAppCredential { app: app.name.to_owned(), why };
        let password = self.unseal_app_password(subject, app, &credential.password).map_err(unreadable)?;
        Ok(Some(OpenedAppCredential {
            username: credential.username.clone(),
            password,
            changed_at: credential.changed_at,
            is_refused: credential.is_refused,
        }))
    }

    /// Returns the user's credentials at applications. The passwords remain sealed. The set is
    /// empty if there is no such user.
    pub async fn app_credentials(&self, subject: Subject) -> Result<AppCredentials, StoreError> {
        let loaded = self.loaded_app_credentials(subject).await?;
        Ok(loaded.map_or_else(|| AppCredentials::none(subject), |loaded| loaded.value))
    }

    /// Sets the user's name and password at this application, and marks them as not refused.
    /// Retries on conflicts.
    ///
    /// The caller must have checked the name with [`is_app_username`], and the password with
    /// [`is_app_credential_password`].
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key. Other errors if the store fails.
    pub async fn set_app_credential(
        &self,
        subject: Subject,
        app: AppSite<'_>,
        username: &str,
        password: &Secret,
        now: UnixTime,
    ) -> Result<AppCredentialSet, StoreError> {
        if !is_app_username(username) || !is_app_credential_password(password.expose()) {
            return Err(StoreError::Broken("an invalid name or password for an application".to_owned()));
        }
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let nonce: [u8; NONCE_BYTES] = random(&OsEntropy);
        let context = table::app_credential_secret(subject, app);
        let sealed = sealing.sealer.seal(&context, nonce, password.expose().as_bytes())?;
        for _ in 0..MAX_CONFLICTS {
            // Expect the user record to be unchanged. Otherwise the credential would remain stored
            // if the user is deleted at the same time.
            let Some(user) = self.user_record(subject).await? else { return Ok(AppCredentialSet::NoUser) };
            let loaded = self.loaded_app_credentials(subject).await?;
            let mut next = loaded.as_ref().map_or_else(|| AppCredentials::none(subject), |loaded| loaded.value.clone());
            if !next.set(app.name, username, sealed.clone(), now) {
                return Ok(AppCredentialSet::Full);
            }
            let mut changes = match &loaded {
                Some(loaded) => record::replace(loaded, &next)?,
                None => record::create(table::app_credentials(subject), &next)?,
            };
            changes.expect.push(user.unchanged());
            if self.commit(changes).await? == Committed::Yes {
                return Ok(AppCredentialSet::Yes);
            }
        }
        Err(StoreError::Contended)
    }

    /// Records that the application has reported a wrong name or password, if they have not changed
    /// since `changed_at`.
    pub async fn refuse_app_credential(
        &self,
        subject: Subject,
        app: &str,
        changed_at: UnixTime,
    ) -> Result<(), StoreError> {
        self.change_app_credentials(subject, |next| next.refuse(app, changed_at)).await.map(drop)
    }

    /// Removes the user's name and password at this application. Returns whether there was a
    /// credential.
    pub async fn remove_app_credential(&self, subject: Subject, app: &str) -> Result<bool, StoreError> {
        self.change_app_credentials(subject, |next| next.remove(app)).await
    }

    /// Changes a stored set. Writes nothing, and returns false, if `change` returns false.
    async fn change_app_credentials(
        &self,
        subject: Subject,
        change: impl Fn(&mut AppCredentials) -> bool + Send,
    ) -> Result<bool, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.loaded_app_credentials(subject).await? else { return Ok(false) };
            let mut next = loaded.value.clone();
            if !change(&mut next) {
                return Ok(false);
            }
            if self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    async fn loaded_app_credentials(&self, subject: Subject) -> Result<Option<Loaded<AppCredentials>>, StoreError> {
        self.load(table::app_credentials(subject)).await
    }

    fn unseal_app_password(&self, subject: Subject, app: AppSite<'_>, sealed: &Sealed) -> Result<Secret, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let plain: Zeroizing<Vec<u8>> = sealing.sealer.open(&table::app_credential_secret(subject, app), sealed)?;
        let text = std::str::from_utf8(&plain).map_err(|_| SealError::Altered)?;
        Ok(Secret::new(text))
    }
}
