//! Measures whether the response time reveals which accounts exist. Prints statistics;
//! docs/explanation/performance.md has results of one machine.

use std::time::Instant;

use sealgate_domain::user::{Email, Subject, User};
use sealgate_store::AddOutcome;
use sealgate_system::clock::{OsEntropy, random};

use crate::mailbox::MAIL;
use crate::security::between;
use crate::support::{Provider, encode, form_action, hidden_fields};

const TRIES: usize = 1000;

/// Sends one request and returns the answer's size and its time in microseconds.
async fn ask(provider: &Provider, address: &str, typed: &str) -> (String, f64) {
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let link = between(page.text(), "id=\"forgot-password\" href=\"", "\"").unwrap().replace("&#38;", "&");
    let page = browser.get(&link).await;
    let mut fields = hidden_fields(page.text());
    fields.push(("email".to_owned(), typed.to_owned()));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (to, body, cookies) = (form_action(page.text()), encode(&fields), browser.cookies());
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("cookie", cookies.as_str())];
    let started = Instant::now();
    let reply = provider.request_from(address, "POST", &to, &headers, &body).await;
    let took = started.elapsed().as_secs_f64() * 1e6;
    let shape: Vec<String> =
        reply.all_headers().iter().map(|(name, value)| format!("{name} {}", value.len())).collect();
    (format!("{} {} {}", reply.status, reply.text().len(), shape.join(", ")), took)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the largest distance between two distributions (Kolmogorov and Smirnov), and the
/// distance that chance exceeds once in twenty times.
fn distance(one: &[f64], other: &[f64]) -> (f64, f64) {
    let below = |times: &[f64], at: f64| {
        let number = u32::try_from(times.iter().filter(|time| **time <= at).count()).unwrap();
        f64::from(number) / f64::from(u32::try_from(times.len()).unwrap())
    };
    let largest = one.iter().chain(other).map(|at| (below(one, *at) - below(other, *at)).abs()).fold(0.0, f64::max);
    let number = f64::from(u32::try_from(one.len()).unwrap());
    (largest, 1.358 * (2.0 / number).sqrt())
}

/// `cargo test --locked --test http reset_times -- --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes, and judges nothing: it prints figures"]
async fn reset_requests_take_the_same_time_for_known_and_unknown_addresses() {
    let provider = Provider::with(MAIL).await;
    let directory = tempfile::tempdir().unwrap();
    let provider = provider.on_disk(MAIL, directory.path()).await;
    let (mut shapes, mut known, mut unknown, mut refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..TRIES {
        let address = Email::parse(&format!("person{number:04}@example.test")).unwrap();
        let person =
            User { sub: Subject::from_random(random(&OsEntropy)), email: Some(address), ..provider.anna.clone() };
        assert_eq!(provider.sealgate.store.add_user(&person).await.unwrap(), AddOutcome::Added);
    }
    for number in 0..TRIES {
        let network = format!("198.51.{}.{}", 100 + number / 100, 100 + number % 100);
        let person = format!("person{number:04}@example.test");
        let nobody = format!("nobody{number:04}@example.test");
        let mut asked =
            [(&mut known, person.as_str()), (&mut unknown, nobody.as_str()), (&mut refused, "often@example.test")];
        // No address is always first.
        asked.rotate_left(number % 3);
        for (times, typed) in asked {
            let (shape, took) = ask(&provider, &network, typed).await;
            shapes.push(shape);
            times.push(took);
        }
        provider.wait(60);
    }
    shapes.dedup();
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    println!("{TRIES} tries each; every answer has the same shape: {}", shapes[0]);
    println!(
        "medians, µs: known {:.0}, unknown {:.0}, refused {:.0}",
        median(&known),
        median(&unknown),
        median(&refused)
    );
    for (what, one, other) in [("known, unknown", &known, &unknown), ("known, refused", &known, &refused)] {
        let (largest, by_chance) = distance(one, other);
        println!(
            "Kolmogorov-Smirnov, {what}: {largest:.4}; chance alone stays below {by_chance:.4} in 95 of 100 cases"
        );
    }
}
