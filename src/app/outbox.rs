//! Background task that sends queued e-mails.
//!
//! The task sends one e-mail at a time, each with a deadline, so a slow or failing mail server
//! affects only this task. If several nodes share a store, only one of them sends. The node also
//! leases each e-mail, so that a second sender, after a failover, does not send it again.
//!
//! An e-mail is *awaited* if a user waits for it, such as an e-mail with a reset link. Awaited
//! e-mails are sent first.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::mail_lookup;
use crate::app::server::Stop;
use crate::app::task_lease::TaskLease;
use sealgate_config::Config;
use sealgate_core::state::Sealgate;
use sealgate_domain::mail::{DeadMail, DeadReason, MailId, MailKind, MailMessage, SentMail, WaitingMail};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_pages::mailer::{SendError, Sender, Transport, compose};
use sealgate_store::{Committed, LeaseName, Loaded, StoreError};
use sealgate_system::clock::random;
use sealgate_system::metrics::MailOutcome;

/// Interval of checks for due e-mails. A check reads [`BATCH`] records.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between two counts of the outbox. A count reads all of it.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Number of e-mails that are read from the store at a time.
const BATCH: usize = 32;

/// Minimum interval between searches of the whole queue for awaited e-mails. Each search reads all
/// due e-mails.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// While awaited e-mails are due, every n-th sent e-mail is an e-mail that is not awaited. This
/// constant is n.
const AWAITED_PERIOD: usize = 4;

/// Sending pauses after the mail server's response was ambiguous for this many different users. An
/// accepted e-mail resets the count.
const MAX_UNCLEAR_IN_A_ROW: usize = 5;

/// First pause after the mail server was unusable. It doubles up to [`MAX_PAUSE`] while the failure
/// continues.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_mins(10);

/// The mail server of one configuration, and settings for its e-mails.
struct Relay {
    transport: Transport,
    /// Maximum duration of one attempt.
    deadline: Duration,
    /// Minimum interval between two e-mails.
    pace: Duration,
    config: Arc<Config>,
}

impl Relay {
    /// Reads the settings of the mail server. Returns `None` if the configuration has no mail
    /// server.
    ///
    /// # Errors
    /// When its files cannot be read.
    fn from_config(config: Arc<Config>) -> Result<Option<Self>, SendError> {
        let Some(mail) = &config.mail else { return Ok(None) };
        let transport = Transport::new(mail)?;
        let (deadline, pace) = (mail.timeout, Duration::from_mins(1) / mail.per_minute.max(1));
        Ok(Some(Self { transport, deadline, pace, config }))
    }

    /// Composes and sends an e-mail. Returns the mail server's response.
    async fn send(&self, id: MailId, message: &MailMessage) -> Result<String, SendError> {
        let to = message.to.as_ref().ok_or(SendError::Unsendable("the message has no recipient"))?;
        let pages = &self.config.pages;
        let sender = Sender { issuer: &self.config.issuer, operator: &pages.operator, accent: pages.accent };
        // A panic for one e-mail must not stop all others.
        let composed = catch_unwind(AssertUnwindSafe(|| compose(message, &sender, id)));
        let composed = composed.map_err(|_| SendError::Failed)?.map_err(|_| SendError::Unsendable("it has no text"))?;
        self.transport.send(&composed, to).await
    }
}

/// State of the task.
pub(crate) struct OutboxWorker {
    sealgate: Arc<Sealgate>,
    /// Lease of the sending node. Only one node sends, because the rate limit applies to all nodes
    /// together.
    lease: TaskLease,
    /// Mail server of the current configuration.
    relay: Option<Arc<Relay>>,
    /// Configuration of [`Self::relay`].
    config: Option<Arc<Config>>,
    /// End and length of the current pause.
    pause: Option<(Instant, Duration)>,
    /// Users whose e-mails had an ambiguous response since the last accepted e-mail.
    ///
    /// Several such users pause the outbox, because the mail server then seems to refuse all
    /// e-mails. E-mails without a user do not count: unauthenticated requests cause them, and must
    /// not stop the e-mails of users.
    unclear: HashSet<Subject>,
    /// Length of the last pause after ambiguous responses. Reset when an e-mail is accepted.
    unclear_pause: Option<Duration>,
    /// Sent e-mails for which no record could be written, because the store failed. They must not
    /// be sent again.
    unrecorded: HashMap<MailId, SentMail>,
    /// Time of the last count.
    counted: Option<Instant>,
    /// Time of the last search for awaited e-mails behind other due e-mails.
    searched_at: Option<Instant>,
    /// Last e-mail that [`Self::settle_backlog`] has read. The next page starts after this e-mail.
    backlog_cursor: Option<WaitingMail>,
}

/// Sends until `stop`.
pub async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut worker = OutboxWorker::new(sealgate);
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        // If a stop interrupts the delivery of an e-mail, the next process sends it again after the
        // lease has expired.
        let outcome = tokio::select! {
            biased;
            _ = stop.changed() => break,
            outcome = worker.send_due() => outcome,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot read or write the outbox; messages wait");
        }
    }
    worker.lease.release().await;
}

impl OutboxWorker {
    pub(crate) fn new(sealgate: Arc<Sealgate>) -> Self {
        Self {
            lease: TaskLease::new(&sealgate, LeaseName::Mailing),
            sealgate,
            relay: None,
            config: None,
            pause: None,
            unclear: HashSet::new(),
            unclear_pause: None,
            unrecorded: HashMap::new(),
            counted: None,
            searched_at: None,
            backlog_cursor: None,
        }
    }

    /// Sends the due e-mails.
    ///
    /// # Errors
    /// When the store fails. The next check continues.
    async fn send_due(&mut self) -> Result<(), StoreError> {
        let Some(relay) = self.relay() else {
            self.lease.release().await;
            return Ok(());
        };
        if self.lease.acquire_or_renew().await.is_none() {
            // The sending node reports these numbers.
            self.sealgate.metrics.outbox(0, 0, 0);
            return Ok(());
        }
        self.count().await?;
        let mut is_usable = false;
        loop {
            let due = self.due().await?;
            let is_backlog = due.len() >= BATCH;
            let mut sent_count = 0;
            for mail in due {
                // Read the queue again: an awaited e-mail may have been queued since.
                if is_backlog && sent_count > 0 && self.may_search() {
                    break;
                }
                if self.settle(&mail).await? {
                    continue;
                }
                if !is_usable {
                    if self.is_paused() || !self.is_usable(&relay).await {
                        // Skip this e-mail, and continue with e-mails that need no mail server.
                        continue;
                    }
                    is_usable = true;
                }
                if self.lease.acquire_or_renew().await.is_none() || !self.send(&relay, &mail).await? {
                    return Ok(());
                }
                sent_count += 1;
                tokio::time::sleep(relay.pace).await;
            }
            if sent_count == 0 {
                return if is_usable { Ok(()) } else { self.settle_backlog().await };
            }
        }
    }

    /// Returns some of the due e-mails, in the order in which they are sent.
    async fn due(&mut self) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        let now = self.sealgate.clock.now();
        let mut due = self.sealgate.store.due_mail(now, BATCH).await?;
        if due.len() >= BATCH
            && self.may_search()
            && let Some(last) = due.last()
        {
            let awaited = self.sealgate.store.awaited_mail_behind(last, now, BATCH).await?;
            due.extend(awaited);
            self.searched_at = Some(Instant::now());
        }
        let (awaited, others) = due.into_iter().partition(|mail| mail.value.kind.is_awaited());
        Ok(interleave(awaited, others))
    }

    fn may_search(&self) -> bool {
        self.searched_at.is_none_or(|searched| searched.elapsed() >= SEARCH_INTERVAL)
    }

    /// Returns the mail server of the current configuration, which a reload may have changed.
    fn relay(&mut self) -> Option<Arc<Relay>> {
        if !self.sealgate.store.can_encrypt() {
            return None;
        }
        let config = self.sealgate.in_effect.load_full();
        let is_known = self.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, &config));
        if !is_known {
            self.config = Some(Arc::clone(&config));
            self.pause = None;
            self.record_accepted();
            let relay = Relay::from_config(config).unwrap_or_else(|error| {
                tracing::error!(%error, "no mail can be sent; correct this and reload the configuration");
                None
            });
            self.relay = relay.map(Arc::new);
        }
        self.relay.clone()
    }

    fn is_paused(&self) -> bool {
        self.pause.is_some_and(|(until, _)| Instant::now() < until)
    }

    /// Does the steps that need no mail server: records that the e-mail was sent, looks up its
    /// user, or gives up an expired e-mail.
    ///
    /// Returns false if the e-mail must still be sent.
    async fn settle(&mut self, mail: &Loaded<WaitingMail>) -> Result<bool, StoreError> {
        let id = mail.value.id;
        if let Some(record) = self.unrecorded.get(&id) {
            let _ = self.sealgate.store.mail_was_sent(mail, record).await?;
            self.unrecorded.remove(&id);
            return Ok(true);
        }
        let now = self.sealgate.clock.now();
        if now > mail.value.not_after {
            self.give_up(mail, DeadReason::Expired, None).await?;
            return Ok(true);
        }
        if matches!(mail.value.kind, MailKind::ResetWanted | MailKind::AddressWanted) {
            self.look_up(mail, now).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Replaces a request for a lookup with the user's e-mail, which is sent at a later check.
    async fn look_up(&self, mail: &Loaded<WaitingMail>, now: UnixTime) -> Result<(), StoreError> {
        let message = match self.sealgate.store.open_mail(&mail.value) {
            Ok(message) => message,
            Err(error) => return self.give_up(mail, DeadReason::Unsendable, Some(&error.to_string())).await,
        };
        let looked_up = if mail.value.kind == MailKind::AddressWanted {
            mail_lookup::answer_address_request(&self.sealgate, now, mail, &message).await
        } else {
            mail_lookup::answer_reset_request(&self.sealgate, now, mail, &message).await
        };
        match looked_up {
            // On a conflict, another process has already replaced the request.
            Ok(_) => Ok(()),
            // A retry would fail too, and would block all other e-mails.
            Err(error @ StoreError::Broken(_)) => {
                self.give_up(mail, DeadReason::Failed, Some(&error.to_string())).await
            }
            Err(error) => Err(error),
        }
    }

    /// Processes the e-mails behind the first page as [`Self::settle`] does, one page per
    /// check, while the mail server is unusable.
    ///
    /// Otherwise unauthenticated clients could fill the outbox with requests, and no notification
    /// would fit.
    async fn settle_backlog(&mut self) -> Result<(), StoreError> {
        if !self.is_paused() {
            self.backlog_cursor = None;
            return Ok(());
        }
        let now = self.sealgate.clock.now();
        let page = self.sealgate.store.waiting_mails(self.backlog_cursor.as_ref(), BATCH).await?;
        let is_due = |mail: &&Loaded<WaitingMail>| mail.value.due_at <= now;
        for mail in page.iter().filter(is_due) {
            let _ = self.settle(mail).await?;
        }
        // At the end of the queue, start over.
        self.backlog_cursor = page.last().filter(is_due).map(|mail| mail.value.clone());
        Ok(())
    }

    async fn is_usable(&mut self, relay: &Relay) -> bool {
        match relay.transport.probe().await {
            Ok(()) => {
                if self.pause.take().is_some() {
                    tracing::info!("the mail server can be used again");
                }
                self.sealgate.metrics.mail_relay(true);
                true
            }
            Err(error) => {
                self.pause_sending(&error.to_string());
                false
            }
        }
    }

    /// Pauses sending. Logs the first pause, and then each unsuccessful end of a pause.
    fn pause_sending(&mut self, error: &str) {
        let before = self.pause.map(|(_, pause)| pause).max(self.unclear_pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(MAX_PAUSE));
        self.pause = Some((Instant::now() + pause, pause));
        self.sealgate.metrics.mail_relay(false);
        tracing::error!(
            error,
            seconds = pause.as_secs(),
            "the mail server cannot be used; messages wait until the next attempt. To test it: sealgate mail \
             test --to ADDRESS"
        );
    }

    /// Sends one e-mail. Returns false when the mail server became unusable.
    async fn send(&mut self, relay: &Relay, mail: &Loaded<WaitingMail>) -> Result<bool, StoreError> {
        let store = Arc::clone(&self.sealgate.store);
        let now = self.sealgate.clock.now();
        // Lease the e-mail for twice the deadline, so that no other process sends it while the
        // response is recorded.
        let Some(mail) = store.take_mail(mail, now, relay.deadline * 2).await? else { return Ok(true) };
        let (id, kind) = (mail.value.id, mail.value.kind);
        let outcome = match store.open_mail(&mail.value) {
            Ok(message) => relay.send(id, &message).await,
            Err(error) => {
                tracing::error!(%id, %error, "cannot decrypt a message");
                Err(SendError::Unsendable("the message does not decrypt: the token does not belong to this store"))
            }
        };
        let now = self.sealgate.clock.now();
        match outcome {
            Ok(answer) => {
                tracing::info!(%id, kind = kind.as_str(), answer, "sent a message");
                self.sealgate.metrics.mail(kind, MailOutcome::Sent);
                self.record_accepted();
                let record = SentMail::new(&mail.value, &answer, now);
                if let Err(error) = store.mail_was_sent(&mail, &record).await {
                    self.unrecorded.insert(id, record);
                    return Err(error);
                }
            }
            Err(SendError::Later(answer)) => {
                tracing::warn!(%id, kind = kind.as_str(), answer, "the mail server deferred a message");
                self.sealgate.metrics.mail(kind, MailOutcome::Postponed);
                let [jitter] = random(self.sealgate.entropy.as_ref());
                match mail.value.postponed(&answer, now, jitter) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&answer)).await?,
                }
            }
            Err(SendError::Unclear(answer)) => {
                tracing::warn!(%id, kind = kind.as_str(), answer, "the mail server did not accept a message, \
                    possibly because of a fault on its side");
                self.sealgate.metrics.mail(kind, MailOutcome::Postponed);
                let [jitter] = random(self.sealgate.entropy.as_ref());
                match mail.value.postponed(&answer, now, jitter) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(_) => self.give_up(&mail, DeadReason::Refused, Some(&answer)).await?,
                }
                return Ok(!self.count_unclear(mail.value.subject, &answer));
            }
            Err(SendError::Relay(error)) => {
                // The mail server is the cause of the failure, not this e-mail, so the e-mail stays
                // due.
                match mail.value.moved(now) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&error)).await?,
                }
                self.pause_sending(&error);
                return Ok(false);
            }
            Err(SendError::Refused(answer)) => self.give_up(&mail, DeadReason::Refused, Some(&answer)).await?,
            Err(SendError::Unsendable(why)) => self.give_up(&mail, DeadReason::Unsendable, Some(why)).await?,
            Err(SendError::Failed) => self.give_up(&mail, DeadReason::Failed, None).await?,
        }
        Ok(true)
    }

    /// Records an ambiguous response. Returns whether sending pauses because there were too many
    /// such responses.
    ///
    /// The count restarts after the pause, so that other e-mails are tried between two pauses.
    fn count_unclear(&mut self, subject: Option<Subject>, answer: &str) -> bool {
        self.unclear.extend(subject);
        if self.unclear.len() < MAX_UNCLEAR_IN_A_ROW {
            return false;
        }
        self.unclear.clear();
        self.pause_sending(&format!("it refused messages to {MAX_UNCLEAR_IN_A_ROW} recipients in a row ({answer})"));
        self.unclear_pause = self.pause.map(|(_, pause)| pause);
        true
    }

    /// Records that the mail server accepts e-mails.
    fn record_accepted(&mut self) {
        self.unclear.clear();
        self.unclear_pause = None;
    }

    async fn give_up(
        &self,
        mail: &Loaded<WaitingMail>,
        reason: DeadReason,
        answer: Option<&str>,
    ) -> Result<(), StoreError> {
        let dead = DeadMail::new(mail.value.clone(), reason, answer, self.sealgate.clock.now());
        let answer = dead.mail.last_answer.as_deref().unwrap_or_default();
        let (id, kind) = (mail.value.id, mail.value.kind);
        tracing::error!(%id, kind = kind.as_str(), reason = reason.as_str(), answer, "a message cannot be \
            delivered; see: sealgate mail list");
        if self.sealgate.store.abandon_mail(mail, &dead).await? == Committed::Yes {
            self.sealgate.metrics.mail(kind, MailOutcome::GivenUp(reason));
        }
        Ok(())
    }

    async fn count(&mut self) -> Result<(), StoreError> {
        if self.counted.is_some_and(|counted| counted.elapsed() < COUNT_INTERVAL) {
            return Ok(());
        }
        let counts = self.sealgate.store.count_outbox().await?;
        // Pending registrations are counted together with the outbox, because each pending
        // registration has an e-mail in the outbox. A count in memory would be wrong, because other
        // processes remove registrations too.
        self.sealgate.store.count_pending_registrations().await?;
        let now = self.sealgate.clock.now();
        let oldest = counts.oldest.map_or(0, |oldest| now.since(oldest).as_secs());
        self.sealgate.metrics.outbox(counts.waiting, counts.dead, oldest);
        self.counted = Some(Instant::now());
        Ok(())
    }
}

/// Interleaves awaited e-mails with all others, so that the others are not starved. Awaited e-mails
/// go first.
fn interleave<T>(awaited: Vec<T>, others: Vec<T>) -> Vec<T> {
    let (mut awaited, mut others) = (awaited.into_iter(), others.into_iter());
    let mut all = Vec::with_capacity(awaited.len() + others.len());
    loop {
        let before = all.len();
        all.extend(awaited.by_ref().take(AWAITED_PERIOD - 1));
        all.extend(others.next());
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awaited_mails_go_first_and_others_have_their_turn() {
        let order = |awaited: &str, others: &str| {
            interleave(awaited.chars().collect(), others.chars().collect()).into_iter().collect::<String>()
        };
        assert_eq!(order("", "abc"), "abc");
        assert_eq!(order("A", "abc"), "Aabc");
        assert_eq!(order("ABCDEFG", "ab"), "ABCaDEFbG");
        assert_eq!(order("ABCDEFG", ""), "ABCDEFG");
        assert_eq!(order("", ""), "");
    }
}
