//! Links and codes that are e-mailed to users: one record per user.

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::subjects::factors::factors_changes;
use crate::subjects::outbox::{add_mails, removal};
use crate::subjects::registry::{names_changes, user_creation};
use crate::subjects::revocations::{Revocation, opened};
use crate::{AddOutcome, Committed, MAX_CONFLICTS, RenameOutcome, Store, StoreError};
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::factors::Factors;
use sealgate_domain::mail::WaitingMail;
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::user::{Subject, User};

/// Further changes in the commit that changes a user's e-mail address, or gives the user rights.
#[derive(Debug)]
pub struct EndedLinks {
    pub mails: Vec<WaitingMail>,
    /// Changes the user's links.
    pub links: fn(&mut AccountLinks),
    pub promotion: Option<Promotion>,
}

/// Further changes in the commit that gives a user rights in the console. The link to enrol a factor ends
/// too.
#[derive(Debug)]
pub struct Promotion {
    /// Revocation to open.
    pub revocation: Revocation,
    /// Whether all factors of the user are removed.
    pub removes_factors: bool,
    /// Sign-in data of users that a page has shown. The commit requires that those of this user have not
    /// changed since.
    pub shown: Option<ShownSignInData>,
}

impl Store {
    /// Returns the e-mailed links and codes of a user, if there are any.
    pub async fn account_links(&self, subject: Subject) -> Result<Option<Loaded<AccountLinks>>, StoreError> {
        self.load(table::account_links(subject)).await
    }

    /// Changes the e-mailed links of a user, and queues the e-mails that contain them, in one
    /// commit. Retries on conflicts.
    pub async fn change_account_links<T: Send>(
        &self,
        subject: Subject,
        mails: &[WaitingMail],
        mut change: impl FnMut(&mut AccountLinks) -> T + Send,
    ) -> Result<T, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let loaded = self.account_links(subject).await?;
            let mut next = loaded.as_ref().map_or_else(|| AccountLinks::none(subject), |links| links.value.clone());
            let result = change(&mut next);
            let mut changes = links_changes(loaded.as_ref(), &next)?;
            add_mails(&mut changes, mails)?;
            if self.commit_with_mails(changes, mails).await? == Committed::Yes {
                return Ok(result);
            }
        }
        Err(StoreError::Contended)
    }

    /// Replaces an e-mail with `others`, and changes the links that `others` contain, in one
    /// commit.
    ///
    /// Returns `Conflict` if another sender has leased the e-mail.
    pub async fn replace_mail_and_change_links(
        &self,
        mail: &Loaded<WaitingMail>,
        others: &[WaitingMail],
        subject: Subject,
        change: impl Fn(&mut AccountLinks) + Send,
    ) -> Result<Committed, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let loaded = self.account_links(subject).await?;
            let mut next = loaded.as_ref().map_or_else(|| AccountLinks::none(subject), |links| links.value.clone());
            change(&mut next);
            let mut changes = removal(mail);
            changes.merge(links_changes(loaded.as_ref(), &next)?);
            add_mails(&mut changes, others)?;
            if self.commit_without_mail(changes, others).await? == Committed::Yes {
                return Ok(Committed::Yes);
            }
            let now: Option<Loaded<WaitingMail>> = self.load(mail.key().clone()).await?;
            if now.is_none_or(|now| now.value != mail.value) {
                return Ok(Committed::Conflict);
            }
        }
        Err(StoreError::Contended)
    }

    /// Replaces a user and the user's e-mailed links, in one commit with index entries and
    /// notifications.
    ///
    /// Returns `Conflict` if another request used the link first, or if the e-mail address or
    /// username is taken. If there is a revocation, the same commit opens it.
    pub async fn put_user_and_links(
        &self,
        (user, next_user): (&Loaded<User>, &User),
        (links, next_links): (Option<&Loaded<AccountLinks>>, &AccountLinks),
        mails: &[WaitingMail],
        revocation: Option<&Revocation>,
    ) -> Result<Committed, StoreError> {
        let changes = user_and_links_changes((user, next_user), (links, next_links))?;
        self.commit_user_and_links(changes, mails, revocation).await
    }

    /// Does the same as [`Store::put_user_and_links`]. Also returns `Conflict` if the factors have
    /// changed.
    pub async fn put_user_and_links_beside(
        &self,
        factors: Option<&Loaded<Factors>>,
        (user, next_user): (&Loaded<User>, &User),
        (links, next_links): (Option<&Loaded<AccountLinks>>, &AccountLinks),
        revocation: &Revocation,
    ) -> Result<Committed, StoreError> {
        let mut changes = user_and_links_changes((user, next_user), (links, next_links))?;
        changes.expect.push(match factors {
            Some(factors) => factors.unchanged(),
            None => Expect::Absent(table::factors(next_user.sub)),
        });
        self.commit_user_and_links(changes, &[], Some(revocation)).await
    }

    async fn commit_user_and_links(
        &self,
        mut changes: Changes,
        mails: &[WaitingMail],
        revocation: Option<&Revocation>,
    ) -> Result<Committed, StoreError> {
        add_mails(&mut changes, mails)?;
        self.commit_with_mails(opened(changes, revocation)?, mails).await
    }

    /// Changes a user as [`Store::rename_user`] does, with further changes in the same commit.
    ///
    /// `left` returns the further changes, if any, for the old and the new user.
    pub async fn rename_user_and_tell(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
        left: impl Fn(&User, &User) -> Option<EndedLinks> + Send,
    ) -> Result<RenameOutcome, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.user_record(subject).await? else { return Ok(RenameOutcome::Absent) };
            let mut next = loaded.value.clone();
            change(&mut next);
            next.sub = subject;
            if next == loaded.value {
                return Ok(RenameOutcome::Renamed(Box::new(next)));
            }
            let mut changes = match self.rename_changes(&loaded, &next).await? {
                Ok(changes) => changes,
                Err(outcome) => return Ok(outcome),
            };
            let mut mails = Vec::new();
            if let Some(left) = left(&loaded.value, &next) {
                let links = self.account_links(subject).await?;
                let before = links.as_ref().map(|links| links.value.clone());
                let mut next_links = before.unwrap_or_else(|| AccountLinks::none(subject));
                (left.links)(&mut next_links);
                changes.merge(links_changes(links.as_ref(), &next_links)?);
                if let Some(promotion) = &left.promotion {
                    let Some(of_factors) = self.promoted(&loaded.value, promotion).await? else {
                        return Ok(RenameOutcome::SignInDataChanged);
                    };
                    changes.merge(of_factors);
                    changes = opened(changes, Some(&promotion.revocation))?;
                }
                mails = left.mails;
            }
            add_mails(&mut changes, &mails)?;
            if self.commit_with_mails(changes, &mails).await? == Committed::Yes {
                return Ok(RenameOutcome::Renamed(Box::new(next)));
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns the changes to the factors of a user who gets rights in the console, or `None` if the
    /// sign-in data are not those that a page has shown.
    async fn promoted(&self, user: &User, promotion: &Promotion) -> Result<Option<Changes>, StoreError> {
        let factors = match self.factors(user.sub).await {
            Ok(factors) => factors,
            // An unreadable record opens nothing: neither its factors nor its link are valid.
            Err(StoreError::Broken(_)) if promotion.shown.is_none() => return Ok(Some(Changes::default())),
            Err(error) => return Err(error),
        };
        let value = factors.as_ref().map(|loaded| &loaded.value);
        if promotion.shown.as_ref().is_some_and(|shown| !shown.is_current(user, value)) {
            return Ok(None);
        }
        let Some(loaded) = &factors else {
            return Ok(Some(Changes { expect: vec![Expect::Absent(table::factors(user.sub))], ..Changes::default() }));
        };
        let mut next = loaded.value.clone();
        next.end_reset_link(promotion.revocation.at);
        if promotion.removes_factors {
            next.remove_all();
        }
        factors_changes(Some(loaded), &next).map(Some)
    }

    /// Adds all invited users with their e-mailed links, or none.
    pub async fn add_invited(
        &self,
        invited: &[(User, AccountLinks)],
        mails: &[WaitingMail],
    ) -> Result<AddOutcome, StoreError> {
        let mut changes = Changes::default();
        for (user, links) in invited {
            changes.merge(user_creation(user)?);
            changes.merge(record::create(table::account_links(user.sub), links)?);
        }
        add_mails(&mut changes, mails)?;
        Ok(match self.commit_with_mails(changes, mails).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Stores that a user has accepted the invitation, with the passkey if the user registered one.
    ///
    /// Returns `Conflict` if another request accepted the invitation first.
    pub async fn accept_invitation(
        &self,
        (user, next_user): (&Loaded<User>, &User),
        (links, next_links): (&Loaded<AccountLinks>, &AccountLinks),
        factors: Option<(Option<&Loaded<Factors>>, &Factors)>,
    ) -> Result<Committed, StoreError> {
        let mut changes = record::replace(user, next_user)?;
        changes.merge(links_changes(Some(links), next_links)?);
        if let Some((factors, next_factors)) = factors {
            changes.merge(factors_changes(factors, next_factors)?);
        }
        self.commit(changes).await
    }

    /// Returns the user, with the bytes of the record.
    pub async fn user_record(&self, subject: Subject) -> Result<Option<Loaded<User>>, StoreError> {
        self.load(table::user(subject)).await
    }

    /// Returns the changes that invalidate a user's e-mailed links.
    ///
    /// An unreadable record is left unchanged: its links are not valid, and it must not prevent a
    /// revocation.
    pub(crate) async fn links_taken_back(&self, subject: Subject) -> Result<Changes, StoreError> {
        let loaded = match self.account_links(subject).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) | Err(StoreError::Broken(_)) => return Ok(Changes::default()),
            Err(error) => return Err(error),
        };
        let mut next = loaded.value.clone();
        next.take_back();
        links_changes(Some(&loaded), &next)
    }

    /// Invalidates a user's e-mailed links: see [`AccountLinks::take_back`].
    pub(crate) async fn take_links_back(&self, subject: Subject) -> Result<(), StoreError> {
        if self.account_links(subject).await?.is_none() {
            return Ok(());
        }
        self.change_account_links(subject, &[], AccountLinks::take_back).await
    }
}

fn user_and_links_changes(
    (user, next_user): (&Loaded<User>, &User),
    (links, next_links): (Option<&Loaded<AccountLinks>>, &AccountLinks),
) -> Result<Changes, StoreError> {
    let mut changes = if user.value == *next_user {
        Changes { expect: vec![user.unchanged()], ..Changes::default() }
    } else {
        record::replace(user, next_user)?
    };
    changes.merge(names_changes(&user.value, next_user)?);
    changes.merge(links_changes(links, next_links)?);
    Ok(changes)
}

/// Returns the changes that replace the record with `next`. An empty record is deleted.
fn links_changes(loaded: Option<&Loaded<AccountLinks>>, next: &AccountLinks) -> Result<Changes, StoreError> {
    Ok(match loaded {
        Some(loaded) if loaded.value == *next => Changes { expect: vec![loaded.unchanged()], ..Changes::default() },
        Some(loaded) if next.is_empty() => {
            let delete: Vec<Key> = vec![loaded.key().clone()];
            Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() }
        }
        Some(loaded) => record::replace(loaded, next)?,
        None if next.is_empty() => Changes::default(),
        None => record::create(table::account_links(next.subject), next)?,
    })
}
