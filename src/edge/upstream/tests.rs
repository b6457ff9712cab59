use std::io;
use std::net::{SocketAddr, TcpListener};

use super::*;
use sealgate_config::{Config, UpstreamTls};

fn app(upstreams: &[&str]) -> App {
    let text = format!(
        "issuer = \"https://id.test\"\nserver.listen = [\"127.0.0.1:443\"]\nstore.path = \"s\"\n\
         hsm = {{ module = \"m\", token_label = \"t\", pin_file = \"p\" }}\n[[app]]\nname = \"wiki\"\n\
         host = \"wiki.test\"\npreserve_host = false\nupstreams = {upstreams:?}\n[[app.route]]\npath = \"/\"\n\
         access = \"public\"\n"
    );
    Config::parse(&text, std::path::Path::new("/nowhere")).unwrap().apps.remove(0)
}

fn at(upstreams: &[&str]) -> Upstreams {
    Upstreams::new(&app(upstreams), &Resolver::system()).unwrap()
}

fn picked(upstreams: &Upstreams, avoid: Option<&ServerRef>) -> String {
    upstreams.pick(avoid).unwrap().address.to_string()
}

/// Returns a resolver that answers with the current value of `answer`.
fn resolver_with(answer: &Arc<Mutex<io::Result<Vec<SocketAddr>>>>) -> Resolver {
    let answer = Arc::clone(answer);
    let find = move |_: &str, _| match &*answer.lock().unwrap() {
        Ok(addresses) => Ok(addresses.clone()),
        Err(error) => Err(error.kind().into()),
    };
    Resolver { find: Arc::new(find), every: Duration::from_millis(20) }
}

#[test]
fn servers_take_turns() {
    let upstreams = at(&["http://127.0.0.1:1", "http://127.0.0.2:1", "unix:/a"]);
    let turns: Vec<_> = (0..6).map(|_| picked(&upstreams, None)).collect();
    assert_eq!(turns[..3], ["127.0.0.1:1", "127.0.0.2:1", "unix:/a"]);
    assert_eq!(turns[..3], turns[3..]);
}

#[test]
fn a_retry_avoids_the_failed_server() {
    let upstreams = at(&["http://127.0.0.1:1", "http://127.0.0.2:1"]);
    let failed = upstreams.pick(None).unwrap();
    for _ in 0..4 {
        assert_ne!(picked(&upstreams, Some(&failed)), failed.address.to_string());
    }
}

#[test]
fn a_single_server_is_always_picked() {
    let upstreams = at(&["http://127.0.0.1:1"]);
    let only = upstreams.pick(None).unwrap();
    assert_eq!(picked(&upstreams, Some(&only)), "127.0.0.1:1");
}

#[tokio::test]
async fn requests_of_a_dead_server_are_shared_by_the_others() {
    let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let urls = sockets.each_ref().map(|socket| format!("http://{}", socket.local_addr().unwrap()));
    let upstreams = at(&[&urls[0], &urls[1], &urls[2]]);
    let [_one, dead, _other] = sockets;
    let dead_url = format!("http://{}", dead.local_addr().unwrap());
    drop(dead);
    for _ in 0..2 {
        for server in upstreams.current().iter() {
            server.check("wiki").await;
        }
    }
    let turns: Vec<_> = (0..8).map(|_| format!("http://{}", picked(&upstreams, None))).collect();
    assert!(!turns.contains(&dead_url), "{turns:?}");
    assert_eq!(turns.iter().filter(|turn| **turn == turns[0]).count(), 4);
}

#[tokio::test]
async fn a_dead_socket_is_detected_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let upstreams = at(&[&format!("unix:{}", path.display()), "http://127.0.0.1:1"]);
    let socket = Arc::clone(&upstreams.current()[0]);
    for _ in 0..2 {
        socket.check("wiki").await;
    }
    assert!(!socket.is_alive());
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    socket.check("wiki").await;
    assert!(socket.is_alive());
}

#[test]
fn host_and_certificate_name_are_those_of_the_upstream() {
    let server = at(&["https://127.0.0.1:8443"]).pick(None).unwrap();
    assert_eq!(server.peer.sni, "127.0.0.1");
    assert!(server.peer.options.verify_cert && server.peer.options.verify_hostname);
    assert_eq!(server.host.as_ref().unwrap(), "127.0.0.1:8443");
    assert_eq!(at(&["unix:/a"]).pick(None).unwrap().host.as_ref().unwrap(), "localhost");
}

#[test]
fn the_configured_name_is_verified_on_every_certificate() {
    let mut app = app(&["https://127.0.0.1:8443", "https://[::1]:8443"]);
    app.upstream_tls = UpstreamTls { server_name: Some("wiki.internal".to_owned()), ..UpstreamTls::default() };
    let upstreams = Upstreams::new(&app, &Resolver::system()).unwrap();
    assert!(upstreams.current().iter().all(|server| server.peer.sni == "wiki.internal"));
}

#[test]
fn connections_with_other_authorities_are_not_shared() {
    let directory = tempfile::tempdir().unwrap();
    let group = |certificate: &str| {
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, certificate).unwrap();
        let mut app = app(&["https://127.0.0.1:8443"]);
        app.upstream_tls.ca = Some(ca);
        let server = Upstreams::new(&app, &Resolver::system()).unwrap().pick(None).unwrap();
        assert_ne!(server.peer.group_key, server.upgrade_peer.group_key);
        server.peer.group_key
    };
    let one = group(include_str!("../../../tests/config/wiki.certificate.pem"));
    let other = group(include_str!("../../../tests/config/wiki.certificate.pem").repeat(2).as_str());
    assert!(one != 0 && other != 0 && one != other);
    assert_eq!(at(&["https://127.0.0.1:8443"]).pick(None).unwrap().peer.group_key, 0);
}

#[test]
fn an_unresolvable_name_does_not_affect_other_servers() {
    let answer = Arc::new(Mutex::new(Err(io::ErrorKind::NotFound.into())));
    let app = app(&["http://wiki.internal:8081", "http://127.0.0.1:1"]);
    let upstreams = [Arc::new(Upstreams::new(&app, &resolver_with(&answer)).unwrap())];
    Upstreams::find_names(&upstreams);
    assert_eq!(picked(&upstreams[0], None), "127.0.0.1:1");
}

#[test]
fn a_hanging_resolver_delays_the_start_only_briefly() {
    let find = |_: &str, _| {
        std::thread::sleep(Duration::from_secs(30));
        Ok(Vec::new())
    };
    let resolver = Resolver { find: Arc::new(find), every: Duration::from_secs(1) };
    let names: Vec<_> = (0..20).map(|number| format!("http://wiki-{number}.internal")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let upstreams = [Arc::new(Upstreams::new(&app(&names), &resolver).unwrap())];
    let start = std::time::Instant::now();
    Upstreams::find_names(&upstreams);
    assert!(start.elapsed() < FIRST_LOOKUP_TIMEOUT + Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(upstreams[0].pick(None).is_none());
}

#[tokio::test]
async fn the_last_addresses_stay_in_use_while_lookups_fail() {
    let answer = Arc::new(Mutex::new(Err(io::ErrorKind::NotFound.into())));
    let upstreams = Arc::new(Upstreams::new(&app(&["http://wiki.internal:8081"]), &resolver_with(&answer)).unwrap());
    assert!(upstreams.pick(None).is_none());
    let (_stop, stopping) = watch::channel(false);
    tokio::spawn(Arc::clone(&upstreams).watch(stopping));
    let told = |addresses: &[&str]| {
        *answer.lock().unwrap() = Ok(addresses.iter().map(|address| address.parse().unwrap()).collect());
    };
    let becomes = async |expected: &[&str]| {
        let look = async {
            while upstreams.current().iter().map(|server| server.address.to_string()).ne(expected.iter().copied()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(5), look).await.expect("the servers change");
    };
    told(&["127.0.0.2:8081", "127.0.0.1:8081", "127.0.0.2:8081"]);
    becomes(&["127.0.0.1:8081", "127.0.0.2:8081"]).await;
    *answer.lock().unwrap() = Err(io::ErrorKind::TimedOut.into());
    tokio::time::sleep(Duration::from_millis(200)).await;
    becomes(&["127.0.0.1:8081", "127.0.0.2:8081"]).await;
    told(&[]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    becomes(&["127.0.0.1:8081", "127.0.0.2:8081"]).await;
    told(&["127.0.0.3:8081"]);
    becomes(&["127.0.0.3:8081"]).await;
}

#[test]
fn at_most_64_addresses_of_a_name_are_used() {
    let many = (0..1000_u32).map(|number| SocketAddr::from((number.to_be_bytes(), 80))).collect();
    let answer = Arc::new(Mutex::new(Ok(many)));
    let upstreams = [Arc::new(Upstreams::new(&app(&["http://wiki.internal"]), &resolver_with(&answer)).unwrap())];
    Upstreams::find_names(&upstreams);
    assert_eq!(upstreams[0].current().len(), 64);
}

#[test]
fn unrelated_changes_keep_upstreams() {
    let before = app(&["http://127.0.0.1:1"]);
    let upstreams = at(&["http://127.0.0.1:1"]);
    assert!(upstreams.are_unchanged_in(&App { host: "other.test".to_owned(), routes: Vec::new(), ..before.clone() }));
    for other in [
        App { name: "other".to_owned(), ..before.clone() },
        App { preserve_host: true, ..before.clone() },
        App { read_timeout: Duration::from_secs(2), ..before.clone() },
        App { upstream_tls: UpstreamTls { ca: Some("ca.pem".into()), ..UpstreamTls::default() }, ..before.clone() },
        app(&["http://127.0.0.1:1", "http://127.0.0.1:2"]),
    ] {
        assert!(!upstreams.are_unchanged_in(&other), "{other:?}");
    }
}

#[tokio::test]
async fn a_reload_keeps_known_addresses_and_health() {
    let answer = Arc::new(Mutex::new(Ok(vec!["127.0.0.9:81".parse().unwrap()])));
    let urls = ["http://app.test:81", "http://127.0.0.1:1"];
    let before = Arc::new(Upstreams::new(&app(&urls), &resolver_with(&answer)).unwrap());
    Upstreams::find_names(std::slice::from_ref(&before));
    for _ in 0..2 {
        let dead = before.current().iter().find(|server| server.address.to_string() == "127.0.0.1:1").map(Arc::clone);
        dead.unwrap().check("wiki").await;
    }
    // During the reload, the resolver fails.
    *answer.lock().unwrap() = Err(io::ErrorKind::TimedOut.into());
    let changed = App { read_timeout: Duration::from_secs(2), ..app(&urls) };
    let after = Arc::new(Upstreams::new(&changed, &resolver_with(&answer)).unwrap());
    after.inherit(&[before]);
    Upstreams::find_names(std::slice::from_ref(&after));
    assert_eq!(after.current().len(), 2);
    for _ in 0..4 {
        assert_eq!(picked(&after, None), "127.0.0.9:81");
    }
}

#[test]
fn a_new_server_only_takes_its_share_of_the_users() {
    let urls: Vec<_> = (1..=5).map(|number| format!("http://127.0.0.{number}:1")).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let picked = |upstreams: &Upstreams, number| upstreams.pick_for(number, None).unwrap().address.to_string();
    let (four, five, reversed) = (at(&urls[..4]), at(&urls), at(&[urls[4], urls[3], urls[2], urls[1], urls[0]]));
    let mut users_of_server = std::collections::BTreeMap::<_, u32>::new();
    let mut moved = 0;
    for number in 0..4000 {
        let (before, after) = (picked(&four, number), picked(&five, number));
        *users_of_server.entry(before.clone()).or_default() += 1;
        assert_eq!(picked(&reversed, number), after, "nodes may list the servers in another order");
        if before != after {
            assert_eq!(after, "127.0.0.5:1");
            moved += 1;
        }
    }
    assert!((700..900).contains(&moved), "{moved} of 4000 users");
    assert!(users_of_server.values().all(|users| (900..1100).contains(users)), "{users_of_server:?}");
}

#[test]
fn a_number_for_a_server_leads_to_it() {
    let upstreams = at(&["http://127.0.0.1:1", "http://127.0.0.2:1", "unix:/a"]);
    for server in upstreams.current().iter() {
        let number = upstreams.new_number(server, None).unwrap();
        assert_eq!(upstreams.pick_for(number, None).unwrap().address, server.address);
        assert_eq!(upstreams.new_number(server, Some(number)), None, "the number is right already");
    }
    let only = at(&["unix:/a"]);
    assert!(only.new_number(&only.current()[0], None).is_some(), "another server may be added later");
}
