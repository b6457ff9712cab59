//! `sealgate mail`: the mail queue, and a test of the mail server.

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::runtime::Builder;

use super::access::StoreAccess;
use super::command;
use super::failure::CommandFailure;
use super::output::Output;
use sealgate_admin::arguments;
use sealgate_admin::command::{Command, MailCommand};
use sealgate_config::{Config, Language};
use sealgate_domain::mail::{Mail, MailId, MailMessage};
use sealgate_domain::user::Email;
use sealgate_pages::mailer::{SendError, Sender, Transport, compose};
use sealgate_system::clock::{Clock, OsEntropy, SystemClock, random};

#[derive(Debug, Subcommand)]
pub(super) enum MailVerb {
    #[command(flatten)]
    Kept(MailCommand),
    /// Send a test mail and show the mail server's reply
    ///
    /// Does not need a running server and stores nothing.
    Test(TestArguments),
}

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// Recipient
    #[arg(long, value_name = "ADDRESS", value_parser = email)]
    to: Email,
    /// Language, tr or en [default: from the configuration]
    #[arg(long, value_parser = arguments::language)]
    language: Option<Language>,
}

fn email(text: &str) -> Result<Email, &'static str> {
    Email::parse(text).ok_or("write an e-mail address as name@host, without spaces")
}

pub(super) fn run(verb: MailVerb, config: Config, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        MailVerb::Kept(command) => command::run(Command::Mail(command), &mut StoreAccess::open(config)?, output),
        MailVerb::Test(arguments) => test(arguments, &config, output),
    }
}

fn test(arguments: TestArguments, config: &Config, output: &Output) -> Result<(), CommandFailure> {
    let Some(mail) = &config.mail else {
        let line = "no mail server is configured; write [mail] with host and from into the configuration";
        return Err(CommandFailure::line(line));
    };
    let TestArguments { to, language } = arguments;
    let message = MailMessage {
        to: None,
        language: language.unwrap_or(config.pages.default_language),
        at: SystemClock.now(),
        origin: None,
        mail: Mail::Test,
    };
    let sender = Sender { issuer: &config.issuer, operator: &config.pages.operator, accent: config.pages.accent };
    let composed = compose(&message, &sender, MailId::from_bytes(random(&OsEntropy))).map_err(CommandFailure::line)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        let transport = Transport::new(mail)?;
        transport.probe().await?;
        transport.send(&composed, &to).await
    });
    let answer = outcome.map_err(|error| {
        let lines = [Some(error.to_string()), what_to_do(&error).map(str::to_owned)];
        CommandFailure::Failed(lines.into_iter().flatten().collect())
    })?;
    output.result(&json!({ "to": to.as_str(), "message_id": composed.message_id, "answer": answer }), || {
        format!("{}:{} accepted the message to {}: {answer}\n", mail.host, mail.port, to.as_str())
    })
}

/// Returns advice about an error, if the error itself does not contain it.
fn what_to_do(error: &SendError) -> Option<&'static str> {
    match error {
        SendError::Refused(_) => Some(
            "the mail server accepts the sign-in, but rejects this message; check the address, and ask the \
             mail server's administrator whether Sealgate may send from mail.from to other domains",
        ),
        SendError::Unclear(_) => Some(
            "ask the mail server's administrator whether Sealgate may send from mail.from to other domains, \
             and whether a filter rejected the message; a running server retries queued messages \
             automatically",
        ),
        SendError::Later(_) => {
            Some("try again in a few minutes; a running server retries queued messages automatically")
        }
        SendError::Unsendable(_) => Some("write an address such as anna@example.com, in ASCII before the @"),
        SendError::Relay(_) | SendError::Failed => None,
    }
}
