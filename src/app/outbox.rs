//! Sends what waits in the outbox, beside requests. One mail at a time, each with a deadline; what a mail server does, or does
//! not do, reaches nobody but this task. Several processes on one store share the work: whoever takes a mail has it for a
//! while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::reset_lookup;
use crate::app::server::Stop;
use crate::app::state::Sealgate;
use crate::clock::random;
use crate::domain::mail::{DeadMail, DeadReason, MailId, MailKind, MailMessage, SentMail, WaitingMail};
use crate::domain::time::UnixTime;
use crate::metrics::MailOutcome;
use crate::store::{Committed, Loaded, StoreError};

/// How often somebody looks whether a mail is due. A look reads one key.
const LOOK: Duration = Duration::from_millis(500);

/// How often the outbox is counted: all of it is read for that.
const COUNT: Duration = Duration::from_secs(15);

/// Mails that are taken from the store at a time.
const BATCH: usize = 32;

/// How long nobody is tried after the mail server could not be used. It doubles as long as that goes on.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// What came of a mail that the mail server did not take. Each with its answer, or what failed, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotCarried {
    /// It may take it later.
    Later(String),
    /// It never will.
    Refused(String),
    /// The mail server cannot be used, for this mail or any other.
    Relay(String),
    /// No mail can be made of it.
    Unsendable(String),
    /// The program failed on it.
    Failed(String),
}

/// What takes mails to a mail server.
pub(crate) trait Carrier: Send + Sync {
    /// The longest that [`Self::carry`] takes.
    fn deadline(&self) -> Duration;

    /// The least time between two mails.
    fn pace(&self) -> Duration;

    /// Whether the mail server can be used now.
    fn probe(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// Sends a mail, and yields what the mail server said.
    fn carry(&self, id: MailId, message: &MailMessage) -> impl Future<Output = Result<String, NotCarried>> + Send;
}

/// What the task knows from one look to the next.
pub(crate) struct OutboxWorker {
    sealgate: Arc<Sealgate>,
    /// Until when nobody is tried, and how long that was.
    pause: Option<(Instant, Duration)>,
    /// What was sent and is not noted yet, because the store failed at that moment. To send it again would be a second copy.
    unnoted: HashMap<MailId, SentMail>,
    counted: Option<Instant>,
}

/// Sends until told to stop. `carrier`: the one of the configuration that is in effect, if it has one.
pub(crate) async fn keep<C: Carrier>(
    sealgate: Arc<Sealgate>,
    carrier: impl Fn() -> Option<Arc<C>> + Send,
    mut stop: Stop,
) {
    let mut worker = OutboxWorker::new(sealgate);
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let Some(carrier) = carrier() else { continue };
        // A mail that is being sent when the server stops is taken up again by the next process, with its lease over.
        let looked = tokio::select! {
            biased;
            _ = stop.changed() => return,
            looked = worker.look(&*carrier) => looked,
        };
        if let Err(error) = looked {
            tracing::warn!(%error, "the outbox cannot be read or written; mails wait");
        }
    }
}

impl OutboxWorker {
    pub(crate) fn new(sealgate: Arc<Sealgate>) -> Self {
        Self { sealgate, pause: None, unnoted: HashMap::new(), counted: None }
    }

    /// Sends what is due.
    ///
    /// # Errors
    /// When the store fails; what was not done is done at the next look.
    pub(crate) async fn look(&mut self, carrier: &impl Carrier) -> Result<(), StoreError> {
        self.count().await?;
        let mut is_usable = false;
        loop {
            let now = self.sealgate.clock.now();
            let due = self.sealgate.store.due_mail(now, BATCH).await?;
            if due.is_empty() {
                return Ok(());
            }
            let mut sent = 0;
            for mail in due {
                if self.is_settled(&mail).await? {
                    continue;
                }
                if !is_usable {
                    if self.is_paused() || !self.is_usable(carrier).await {
                        // The others are looked at for what needs no mail server.
                        continue;
                    }
                    is_usable = true;
                }
                if !self.send(carrier, &mail).await? {
                    return Ok(());
                }
                sent += 1;
                tokio::time::sleep(carrier.pace()).await;
            }
            if sent == 0 {
                return Ok(());
            }
        }
    }

    fn is_paused(&self) -> bool {
        self.pause.is_some_and(|(until, _)| Instant::now() < until)
    }

    /// Does with a mail what needs no mail server: notes that it was sent, looks its person up, gives it up when it is too
    /// late. True when there is nothing left to send.
    async fn is_settled(&mut self, mail: &Loaded<WaitingMail>) -> Result<bool, StoreError> {
        let id = mail.value.id;
        if let Some(sent) = self.unnoted.get(&id) {
            let _ = self.sealgate.store.mail_was_sent(mail, sent).await?;
            self.unnoted.remove(&id);
            return Ok(true);
        }
        let now = self.sealgate.clock.now();
        if now > mail.value.not_after {
            self.give_up(mail, DeadReason::Expired, None).await?;
            return Ok(true);
        }
        if mail.value.kind == MailKind::ResetWanted {
            self.look_up(mail, now).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Puts the mail in its place that whoever asked for a reset gets. It is sent with the next look.
    async fn look_up(&self, mail: &Loaded<WaitingMail>, now: UnixTime) -> Result<(), StoreError> {
        let message = match self.sealgate.store.open_mail(&mail.value) {
            Ok(message) => message,
            Err(error) => return self.give_up(mail, DeadReason::Unsendable, Some(&error.to_string())).await,
        };
        match reset_lookup::look_up(&self.sealgate, now, mail, &message).await {
            // Another process has it where there is a conflict.
            Ok(_) => Ok(()),
            // It would stand in front of all others.
            Err(error @ StoreError::Broken(_)) => {
                self.give_up(mail, DeadReason::Failed, Some(&error.to_string())).await
            }
            Err(error) => Err(error),
        }
    }

    async fn is_usable(&mut self, carrier: &impl Carrier) -> bool {
        match carrier.probe().await {
            Ok(()) => {
                if self.pause.take().is_some() {
                    tracing::info!("the mail server can be used again");
                }
                self.sealgate.metrics.mail_relay(true);
                true
            }
            Err(error) => {
                self.rest(&error);
                false
            }
        }
    }

    /// Tries nobody for a while. Told once, and then each time that the pause has not helped.
    fn rest(&mut self, error: &str) {
        let pause = self.pause.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some((Instant::now() + pause, pause));
        self.sealgate.metrics.mail_relay(false);
        tracing::error!(
            error,
            seconds = pause.as_secs(),
            "the mail server cannot be used; mails wait, and it is tried again after a pause. To try by hand: sealgate mail test --to ADDRESS"
        );
    }

    /// Sends one mail. False when the mail server cannot be used any more.
    async fn send(&mut self, carrier: &impl Carrier, mail: &Loaded<WaitingMail>) -> Result<bool, StoreError> {
        let store = Arc::clone(&self.sealgate.store);
        let now = self.sealgate.clock.now();
        // As long again as it may take, so that nobody else sends it while the answer is being noted.
        let Some(mail) = store.take_mail(mail, now, carrier.deadline() * 2).await? else { return Ok(true) };
        let (id, kind) = (mail.value.id, mail.value.kind);
        let outcome = match store.open_mail(&mail.value) {
            Ok(message) => carrier.carry(id, &message).await,
            Err(error) => Err(NotCarried::Unsendable(error.to_string())),
        };
        let now = self.sealgate.clock.now();
        match outcome {
            Ok(answer) => {
                tracing::info!(%id, kind = kind.as_str(), answer, "a mail was sent");
                self.sealgate.metrics.mail(kind, MailOutcome::Sent);
                let sent = SentMail::new(&mail.value, &answer, now);
                if let Err(error) = store.mail_was_sent(&mail, &sent).await {
                    self.unnoted.insert(id, sent);
                    return Err(error);
                }
            }
            Err(NotCarried::Later(answer)) => {
                tracing::warn!(%id, kind = kind.as_str(), answer, "a mail was not taken yet");
                self.sealgate.metrics.mail(kind, MailOutcome::Postponed);
                let [jitter] = random(self.sealgate.entropy.as_ref());
                match mail.value.postponed(&answer, now, jitter) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&answer)).await?,
                }
            }
            Err(NotCarried::Relay(error)) => {
                // The mail is not at fault: it is due as before.
                match mail.value.moved(now) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&error)).await?,
                }
                self.rest(&error);
                return Ok(false);
            }
            Err(NotCarried::Refused(answer)) => self.give_up(&mail, DeadReason::Refused, Some(&answer)).await?,
            Err(NotCarried::Unsendable(why)) => self.give_up(&mail, DeadReason::Unsendable, Some(&why)).await?,
            Err(NotCarried::Failed(why)) => self.give_up(&mail, DeadReason::Failed, Some(&why)).await?,
        }
        Ok(true)
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
        tracing::error!(%id, kind = kind.as_str(), reason = reason.as_str(), answer, "a mail was given up; see: sealgate mail list");
        if self.sealgate.store.give_mail_up(mail, &dead).await? == Committed::Yes {
            self.sealgate.metrics.mail(kind, MailOutcome::GivenUp(reason));
        }
        Ok(())
    }

    async fn count(&mut self) -> Result<(), StoreError> {
        if self.counted.is_some_and(|counted| counted.elapsed() < COUNT) {
            return Ok(());
        }
        let counts = self.sealgate.store.count_outbox().await?;
        let now = self.sealgate.clock.now();
        let oldest = counts.oldest.map_or(0, |oldest| now.since(oldest).as_secs());
        self.sealgate.metrics.outbox(counts.waiting, counts.dead, oldest);
        self.counted = Some(Instant::now());
        Ok(())
    }
}
