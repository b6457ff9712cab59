//! Forms that users submitted after their sign-in had ended. They are stored until the user has
//! signed in.
//!
//! A form can contain anything, so it is sealed. Unauthenticated clients can create forms, so their
//! number is limited, and old forms are evicted.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::engine::{Changes, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, Sealer};
use crate::{Committed, Sealing, Store, StoreError};
use sealgate_domain::secret::Sealed;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum size of a stored form's body, in bytes.
pub const MAX_FORM_BYTES: usize = 64 * 1024;

/// Maximum length of a target in bytes. This is the gateway's limit for path and query.
const MAX_TARGET_BYTES: usize = 8 * 1024;

/// Number of oldest forms from which one is chosen for eviction.
///
/// If the oldest were always evicted, concurrent evictions would conflict.
const CANDIDATES: usize = 32;

/// Form that a user has submitted to an application.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    /// User who submitted the form, if known. Only this user can fetch it.
    pub user: Option<Subject>,
    pub app: String,
    /// Path and query of the request, unchanged.
    pub target: String,
    /// Body (`application/x-www-form-urlencoded`), unchanged.
    pub body: Vec<u8>,
}

/// Omits the values, which may be passwords.
impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Form({} bytes for {})", self.body.len(), self.app)
    }
}

impl Drop for Form {
    fn drop(&mut self) {
        self.target.zeroize();
        self.body.zeroize();
    }
}

#[derive(PartialEq, Serialize, Deserialize)]
struct FormRecord {
    expires_at: UnixTime,
    form: Sealed,
}

/// Parts of a form except the body. They are written before the body, so that the body needs no
/// escaping.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(rename = "person")]
    user: Option<Subject>,
    app: String,
    target: String,
}

impl Store {
    /// Sets the sealer and the maximum number of stored forms.
    pub async fn sealing_with(mut self, sealer: Sealer, most_forms: usize) -> Result<Self, StoreError> {
        if !self.forms.is_followed() {
            self.forms.set(self.count(Table::Form).await?);
        }
        self.sealing = Some(Arc::new(Sealing { sealer, most_forms }));
        Ok(self)
    }

    /// Returns whether forms can be stored: there is a data key and the maximum is not zero.
    pub fn keeps_forms(&self) -> bool {
        self.sealing.as_ref().is_some_and(|sealing| sealing.most_forms > 0)
    }

    /// Returns the number of stored forms.
    pub fn kept_forms(&self) -> usize {
        self.forms.total()
    }

    /// Stores a form for the browser with this id.
    ///
    /// `id` is the hash of the token with which the browser can fetch the form. `nonce` must be
    /// random. Returns false if the form is too long, or if forms cannot be stored.
    ///
    /// # Errors
    /// [`StoreError::TooManyForms`] if the limit is reached and no form can be evicted. Other
    /// errors if the store fails.
    pub async fn keep_form(
        &self,
        browser: &SecretHash,
        id: &SecretHash,
        form: &Form,
        expires_at: UnixTime,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<bool, StoreError> {
        let Some(sealing) = self.sealing.as_ref().filter(|sealing| sealing.most_forms > 0) else { return Ok(false) };
        if form.body.len() > MAX_FORM_BYTES || form.target.len() > MAX_TARGET_BYTES {
            return Ok(false);
        }
        let key = table::form(browser, id);
        let sealed = sealing.sealer.seal(&key, nonce, &plain(form)?)?;
        // Increment the total before writing the record. Otherwise concurrent requests could all
        // pass the limit.
        let reservation = self.forms.reserve(1);
        if reservation.before >= sealing.most_forms
            && let Err(error) = self.drop_an_old_form(sealing.most_forms, usize::from(nonce[0])).await
        {
            reservation.cancel();
            return Err(error);
        }
        let written = async {
            let mut changes = record::create(key.clone(), &FormRecord { expires_at, form: sealed })?;
            changes.put.extend(entries(expires_at, &key).map(|entry| (entry, Vec::new())));
            self.write(changes).await
        };
        let written = written.await;
        if written.is_err() {
            reservation.cancel();
        }
        written.map(|()| true)
    }

    /// Returns and deletes the form that was stored for this browser under this id.
    ///
    /// Of two concurrent requests, only one gets the form.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] if the form cannot be unsealed. The form is deleted nevertheless.
    /// Other errors if the store fails.
    pub async fn take_form(
        &self,
        browser: &SecretHash,
        id: &SecretHash,
        now: UnixTime,
    ) -> Result<Option<Form>, StoreError> {
        let Some(sealing) = &self.sealing else { return Ok(None) };
        let key = table::form(browser, id);
        let Some(loaded) = self.load::<FormRecord>(key.clone()).await? else { return Ok(None) };
        let expires_at = loaded.value.expires_at;
        let mut delete = vec![key.clone()];
        delete.extend(entries(expires_at, &key));
        let changes = Changes { expect: vec![loaded.unchanged()], put: Vec::new(), delete, ..Changes::default() };
        if self.commit(changes).await? == Committed::Conflict {
            return Ok(None);
        }
        self.form_gone();
        if expires_at <= now {
            return Ok(None);
        }
        let plain = sealing.sealer.open(&key, &loaded.value.form)?;
        let broken = || StoreError::Broken("a saved form cannot be read".to_owned());
        let at = plain.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
        let (head, body) = plain.split_at(at);
        let Head { user, app, target } = serde_json::from_slice(head).map_err(|_| broken())?;
        Ok(Some(Form { user, app, target, body: body.get(1..).unwrap_or_default().to_vec() }))
    }

    /// Deletes all forms of a browser.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn drop_forms(&self, browser: &SecretHash) -> Result<(), StoreError> {
        if self.sealing.is_none() {
            return Ok(());
        }
        loop {
            let page: Vec<Loaded<FormRecord>> = self.page(&table::forms(browser), None, CANDIDATES).await?;
            if page.is_empty() {
                return Ok(());
            }
            for loaded in page {
                let mut delete = vec![loaded.key().clone()];
                delete.extend(entries(loaded.value.expires_at, loaded.key()));
                let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
                // A conflict means that another request has fetched the form, because forms do not
                // change.
                if self.commit(changes).await? == Committed::Yes {
                    self.form_gone();
                }
            }
        }
    }

    /// Evicts one of the oldest forms.
    async fn drop_an_old_form(&self, most: usize, choice: usize) -> Result<(), StoreError> {
        let candidates = (most / 8).clamp(1, CANDIDATES);
        let ages = self.engine.scan(&table::form_ages(), None, candidates).await?;
        let start = choice % ages.len().max(1);
        for (age, _) in ages.iter().cycle().skip(start).take(ages.len()) {
            let Some((key, expires_at)) = table::form_of_age(age) else { continue };
            let Some(loaded) = self.load::<FormRecord>(key.clone()).await? else {
                // The form has been fetched, or its index entry was left over by mistake. Delete
                // the entry, so that it does not prevent evictions.
                self.write(Changes { delete: vec![age.clone()], ..Changes::default() }).await?;
                continue;
            };
            let delete = vec![key.clone(), age.clone(), table::expiry(expires_at, &key)];
            let changes = Changes { expect: vec![loaded.unchanged()], put: Vec::new(), delete, ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                self.form_gone();
                return Ok(());
            }
        }
        Err(StoreError::TooManyForms)
    }

    pub(crate) fn form_gone(&self) {
        self.forms.subtract_one();
    }
}

/// Returns the index entries of a form: by expiry and by age.
pub(crate) fn entries(expires_at: UnixTime, key: &Key) -> [Key; 2] {
    [table::expiry(expires_at, key), table::form_age(expires_at, key)]
}

fn plain(form: &Form) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let head = Head { user: form.user, app: form.app.clone(), target: form.target.clone() };
    let mut plain = Zeroizing::new(serde_json::to_vec(&head).map_err(|error| StoreError::Broken(error.to_string()))?);
    plain.push(b'\n');
    plain.extend_from_slice(&form.body);
    Ok(plain)
}
