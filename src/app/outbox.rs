//! Sends what waits in the outbox, beside requests. One mail at a time, each with a deadline; what a mail server does, or does
//! not do, reaches nobody but this task. Of several nodes on one store one does it; and whoever takes a mail has it for a while,
//! so that two at once send none twice.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::duty::Duty;
use crate::app::server::Stop;
use crate::app::state::Sealgate;
use crate::app::{address_lookup, reset_lookup};
use crate::clock::random;
use crate::config::Config;
use crate::domain::mail::{DeadMail, DeadReason, MailId, MailKind, MailMessage, SentMail, WaitingMail};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;
use crate::mail::{SendError, Sender, Transport, compose};
use crate::metrics::MailOutcome;
use crate::store::{Committed, LeaseName, Loaded, StoreError};

/// How often somebody looks whether a mail is due. A look reads [`BATCH`] records.
const LOOK: Duration = Duration::from_millis(500);

/// How often the outbox is counted: all of it is read for that.
const COUNT: Duration = Duration::from_secs(15);

/// Mails that are taken from the store at a time.
const BATCH: usize = 32;

/// How often mails for which somebody waits are looked for behind all others that are due. All of these are read for that.
const LOOK_BEHIND: Duration = Duration::from_secs(5);

/// Of so many mails in a row one is such that nobody waits for, where there is one.
const TURN: usize = 4;

/// People in a row whose mails meet an answer that may be about all mails, before nobody is tried for a while.
const MOST_UNCLEAR: usize = 5;

/// How long nobody is tried after the mail server could not be used. It doubles as long as that goes on.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// The mail server of one configuration, and what mails are made with under it.
struct Relay {
    transport: Transport,
    /// The longest that one attempt takes.
    deadline: Duration,
    /// The least time between two mails.
    pace: Duration,
    config: Arc<Config>,
}

impl Relay {
    /// None where the configuration has no mail server.
    ///
    /// # Errors
    /// When its files cannot be read.
    fn of(config: Arc<Config>) -> Result<Option<Self>, SendError> {
        let Some(mail) = &config.mail else { return Ok(None) };
        let transport = Transport::new(mail)?;
        let (deadline, pace) = (mail.timeout, Duration::from_mins(1) / mail.per_minute.max(1));
        Ok(Some(Self { transport, deadline, pace, config }))
    }

    /// Makes a mail and sends it. Yields what the mail server said.
    async fn send(&self, id: MailId, message: &MailMessage) -> Result<String, SendError> {
        let to = message.to.as_ref().ok_or(SendError::Unsendable("it has no recipient"))?;
        let pages = &self.config.pages;
        let sender = Sender { issuer: &self.config.issuer, operator: &pages.operator, accent: pages.accent };
        // One mail that cannot be made must not stop all others.
        let composed = catch_unwind(AssertUnwindSafe(|| compose(message, &sender, id)));
        let composed =
            composed.map_err(|_| SendError::Failed)?.map_err(|_| SendError::Unsendable("it says nothing"))?;
        self.transport.send(&composed, to).await
    }
}

/// What the task knows from one look to the next.
pub(crate) struct OutboxWorker {
    sealgate: Arc<Sealgate>,
    /// Of several nodes one sends: the pace is that of all.
    duty: Duty,
    /// Of the configuration that is in effect.
    relay: Option<Arc<Relay>>,
    /// The configuration that [`Self::relay`] was made of.
    config: Option<Arc<Config>>,
    /// Until when nobody is tried, and how long that was.
    pause: Option<(Instant, Duration)>,
    /// Whose mails met an answer since the last one that was taken that may be about all mails, or about each of them. Strangers'
    /// mails do not count: whoever asks for some must not stop all others.
    unclear: HashSet<Subject>,
    /// The last pause that came of it, until a mail is taken.
    unclear_pause: Option<Duration>,
    /// What was sent and is not noted yet, because the store failed at that moment. To send it again would be a second copy.
    unnoted: HashMap<MailId, SentMail>,
    counted: Option<Instant>,
    /// When it was last looked for awaited mails behind all others.
    looked_behind: Option<Instant>,
    /// How far the mails were looked at that lie behind those which cannot be sent now.
    passed: Option<WaitingMail>,
}

/// Sends until told to stop.
pub async fn keep(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut worker = OutboxWorker::new(sealgate);
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
        // A mail that is being sent when the server stops is taken up by the next process, once its lease is over.
        let looked = tokio::select! {
            biased;
            _ = stop.changed() => break,
            looked = worker.look() => looked,
        };
        if let Err(error) = looked {
            tracing::warn!(%error, "the outbox cannot be read or written; mails wait");
        }
    }
    worker.duty.let_go().await;
}

impl OutboxWorker {
    pub(crate) fn new(sealgate: Arc<Sealgate>) -> Self {
        Self {
            duty: Duty::new(&sealgate, LeaseName::Mailing),
            sealgate,
            relay: None,
            config: None,
            pause: None,
            unclear: HashSet::new(),
            unclear_pause: None,
            unnoted: HashMap::new(),
            counted: None,
            looked_behind: None,
            passed: None,
        }
    }

    /// Sends what is due.
    ///
    /// # Errors
    /// When the store fails; what was not done is done at the next look.
    async fn look(&mut self) -> Result<(), StoreError> {
        let Some(relay) = self.relay() else {
            self.duty.let_go().await;
            return Ok(());
        };
        if self.duty.hold().await.is_none() {
            // Whoever sends them tells how many there are.
            self.sealgate.metrics.outbox(0, 0, 0);
            return Ok(());
        }
        self.count().await?;
        let mut is_usable = false;
        loop {
            let due = self.due().await?;
            let is_backlog = due.len() >= BATCH;
            let mut sent = 0;
            for mail in due {
                // Somebody may wait for one that came meanwhile.
                if is_backlog && sent > 0 && self.may_look_behind() {
                    break;
                }
                if self.is_settled(&mail).await? {
                    continue;
                }
                if !is_usable {
                    if self.is_paused() || !self.is_usable(&relay).await {
                        // The others are looked at for what needs no mail server.
                        continue;
                    }
                    is_usable = true;
                }
                if self.duty.hold().await.is_none() || !self.send(&relay, &mail).await? {
                    return Ok(());
                }
                sent += 1;
                tokio::time::sleep(relay.pace).await;
            }
            if sent == 0 {
                return if is_usable { Ok(()) } else { self.settle_behind().await };
            }
        }
    }

    /// Some of the mails that are due, in the order in which they are sent.
    async fn due(&mut self) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        let now = self.sealgate.clock.now();
        let mut due = self.sealgate.store.due_mail(now, BATCH).await?;
        if due.len() >= BATCH
            && self.may_look_behind()
            && let Some(last) = due.last()
        {
            let awaited = self.sealgate.store.awaited_mail_behind(last, now, BATCH).await?;
            due.extend(awaited);
            self.looked_behind = Some(Instant::now());
        }
        let (awaited, others) = due.into_iter().partition(|mail| mail.value.kind.is_awaited());
        Ok(in_turn(awaited, others))
    }

    fn may_look_behind(&self) -> bool {
        self.looked_behind.is_none_or(|looked| looked.elapsed() >= LOOK_BEHIND)
    }

    /// The mail server of the configuration that is in effect: a reload may have brought another one.
    fn relay(&mut self) -> Option<Arc<Relay>> {
        if !self.sealgate.store.seals() {
            return None;
        }
        let config = self.sealgate.in_effect.load_full();
        let is_known = self.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, &config));
        if !is_known {
            self.config = Some(Arc::clone(&config));
            self.pause = None;
            self.is_taken();
            let relay = Relay::of(config).unwrap_or_else(|error| {
                tracing::error!(%error, "no mail can be sent before this is mended and the configuration is reloaded");
                None
            });
            self.relay = relay.map(Arc::new);
        }
        self.relay.clone()
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
        if matches!(mail.value.kind, MailKind::ResetWanted | MailKind::AddressWanted) {
            self.look_up(mail, now).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Puts the mail in its place that whoever asked for it gets. It is sent with the next look.
    async fn look_up(&self, mail: &Loaded<WaitingMail>, now: UnixTime) -> Result<(), StoreError> {
        let message = match self.sealgate.store.open_mail(&mail.value) {
            Ok(message) => message,
            Err(error) => return self.give_up(mail, DeadReason::Unsendable, Some(&error.to_string())).await,
        };
        let looked_up = if mail.value.kind == MailKind::AddressWanted {
            address_lookup::look_up(&self.sealgate, now, mail, &message).await
        } else {
            reset_lookup::look_up(&self.sealgate, now, mail, &message).await
        };
        match looked_up {
            // Another process has it where there is a conflict.
            Ok(_) => Ok(()),
            // It would stand in front of all others.
            Err(error @ StoreError::Broken(_)) => {
                self.give_up(mail, DeadReason::Failed, Some(&error.to_string())).await
            }
            Err(error) => Err(error),
        }
    }

    /// While nothing can be sent, those that could stand in front of all others. A page a look of what is due behind them is done
    /// with, as far as it needs no mail server: else what strangers ask for would fill the outbox until nobody is told anything.
    async fn settle_behind(&mut self) -> Result<(), StoreError> {
        if !self.is_paused() {
            self.passed = None;
            return Ok(());
        }
        let now = self.sealgate.clock.now();
        let page = self.sealgate.store.waiting_mails(self.passed.as_ref(), BATCH).await?;
        let is_due = |mail: &&Loaded<WaitingMail>| mail.value.due_at <= now;
        for mail in page.iter().filter(is_due) {
            let _ = self.is_settled(mail).await?;
        }
        // From the beginning again, at the end.
        self.passed = page.last().filter(is_due).map(|mail| mail.value.clone());
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
                self.rest(&error.to_string());
                false
            }
        }
    }

    /// Tries nobody for a while. Told once, and then each time that the pause has not helped.
    fn rest(&mut self, error: &str) {
        let before = self.pause.map(|(_, pause)| pause).max(self.unclear_pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some((Instant::now() + pause, pause));
        self.sealgate.metrics.mail_relay(false);
        tracing::error!(
            error,
            seconds = pause.as_secs(),
            "the mail server cannot be used; mails wait, and it is tried again after a pause. To try by hand: sealgate mail test --to ADDRESS"
        );
    }

    /// Sends one mail. False when the mail server cannot be used any more.
    async fn send(&mut self, relay: &Relay, mail: &Loaded<WaitingMail>) -> Result<bool, StoreError> {
        let store = Arc::clone(&self.sealgate.store);
        let now = self.sealgate.clock.now();
        // As long again as it may take, so that nobody else sends it while the answer is being noted.
        let Some(mail) = store.take_mail(mail, now, relay.deadline * 2).await? else { return Ok(true) };
        let (id, kind) = (mail.value.id, mail.value.kind);
        let outcome = match store.open_mail(&mail.value) {
            Ok(message) => relay.send(id, &message).await,
            Err(error) => {
                tracing::error!(%id, %error, "a mail does not open");
                Err(SendError::Unsendable("it does not open: the token or the store is another one"))
            }
        };
        let now = self.sealgate.clock.now();
        match outcome {
            Ok(answer) => {
                tracing::info!(%id, kind = kind.as_str(), answer, "a mail was sent");
                self.sealgate.metrics.mail(kind, MailOutcome::Sent);
                self.is_taken();
                let sent = SentMail::new(&mail.value, &answer, now);
                if let Err(error) = store.mail_was_sent(&mail, &sent).await {
                    self.unnoted.insert(id, sent);
                    return Err(error);
                }
            }
            Err(SendError::Later(answer)) => {
                tracing::warn!(%id, kind = kind.as_str(), answer, "a mail was not taken yet");
                self.sealgate.metrics.mail(kind, MailOutcome::Postponed);
                let [jitter] = random(self.sealgate.entropy.as_ref());
                match mail.value.postponed(&answer, now, jitter) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&answer)).await?,
                }
            }
            Err(SendError::Unclear(answer)) => {
                tracing::warn!(%id, kind = kind.as_str(), answer, "a mail was not taken, and perhaps none is");
                self.sealgate.metrics.mail(kind, MailOutcome::Postponed);
                let [jitter] = random(self.sealgate.entropy.as_ref());
                match mail.value.postponed(&answer, now, jitter) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(_) => self.give_up(&mail, DeadReason::Refused, Some(&answer)).await?,
                }
                return Ok(!self.takes_nobody(mail.value.subject, &answer));
            }
            Err(SendError::Relay(error)) => {
                // The mail is not at fault: it is due as before.
                match mail.value.moved(now) {
                    Ok(next) => drop(store.move_mail(&mail, next).await?),
                    Err(reason) => self.give_up(&mail, reason, Some(&error)).await?,
                }
                self.rest(&error);
                return Ok(false);
            }
            Err(SendError::Refused(answer)) => self.give_up(&mail, DeadReason::Refused, Some(&answer)).await?,
            Err(SendError::Unsendable(why)) => self.give_up(&mail, DeadReason::Unsendable, Some(why)).await?,
            Err(SendError::Failed) => self.give_up(&mail, DeadReason::Failed, None).await?,
        }
        Ok(true)
    }

    /// Whether one more answer that may be about all mails is one too many. Counted anew after the pause: those whose mails would
    /// be taken have their turn between two pauses.
    fn takes_nobody(&mut self, subject: Option<Subject>, answer: &str) -> bool {
        self.unclear.extend(subject);
        if self.unclear.len() < MOST_UNCLEAR {
            return false;
        }
        self.unclear.clear();
        self.rest(&format!("it takes no mail to {MOST_UNCLEAR} people in a row ({answer})"));
        self.unclear_pause = self.pause.map(|(_, pause)| pause);
        true
    }

    /// It does take mails.
    fn is_taken(&mut self) {
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
        // Each has a mail of its own, and other processes sweep them too.
        self.sealgate.store.count_pending_registrations().await?;
        let now = self.sealgate.clock.now();
        let oldest = counts.oldest.map_or(0, |oldest| now.since(oldest).as_secs());
        self.sealgate.metrics.outbox(counts.waiting, counts.dead, oldest);
        self.counted = Some(Instant::now());
        Ok(())
    }
}

/// Awaited mails first, and yet no end of them keeps the others back.
fn in_turn<T>(awaited: Vec<T>, others: Vec<T>) -> Vec<T> {
    let (mut awaited, mut others) = (awaited.into_iter(), others.into_iter());
    let mut all = Vec::with_capacity(awaited.len() + others.len());
    loop {
        let before = all.len();
        all.extend(awaited.by_ref().take(TURN - 1));
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
            in_turn(awaited.chars().collect(), others.chars().collect()).into_iter().collect::<String>()
        };
        assert_eq!(order("", "abc"), "abc");
        assert_eq!(order("A", "abc"), "Aabc");
        assert_eq!(order("ABCDEFG", "ab"), "ABCaDEFbG");
        assert_eq!(order("ABCDEFG", ""), "ABCDEFG");
        assert_eq!(order("", ""), "");
    }
}
