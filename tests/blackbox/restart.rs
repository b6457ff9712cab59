//! Tests restarts under load while another process holds the listening socket, as systemd does: no
//! connection is refused.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::load::{Load, Manner, application_saying};
use crate::support::{Instance, Settings};

/// Maximum duration of a request. Longer than a stop and a start on a slow machine.
const GAP: Duration = Duration::from_secs(15);

#[test]
fn restarts_under_load_refuse_no_connection_and_fail_no_request() {
    let mut instance =
        Instance::prepare(&Settings { upstream: Some(application_saying("here")), ..Settings::default() });
    // The test binds the socket as systemd does: before the first start, and kept open between
    // starts.
    let socket = TcpListener::bind(("127.0.0.1", instance.port)).unwrap();
    instance.start_on(&socket);
    let manners = [Manner::Keeps, Manner::Keeps, Manner::Keeps, Manner::Keeps, Manner::Opens, Manner::Opens];
    let address = socket.local_addr().unwrap();
    let load = Load::start(address, "app.localhost", "/public/x", "here", &manners);
    for _ in 0..3 {
        load.wait_for_requests(30);
        let begun = Instant::now();
        assert_eq!(instance.stop(), Some(0));
        let stopped = begun.elapsed();
        instance.start_on(&socket);
        eprintln!("stopped within {stopped:?}, served again after {:?}", begun.elapsed());
    }
    load.wait_for_requests(30);
    for (manner, tally) in load.stop() {
        let answered = tally.answered;
        eprintln!("{manner:?}: {answered} answered, {} repeated, the longest took {:?}", tally.repeated, tally.longest);
        assert_eq!(tally.failures, Vec::<String>::new(), "{manner:?}");
        assert!(answered >= 100 && tally.longest < GAP, "{tally:?}");
        // One request per restart may be repeated: the server closes a kept connection just as its
        // next request is sent.
        assert!(tally.repeated <= 3, "{tally:?}");
    }
}
