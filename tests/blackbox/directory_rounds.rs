//! Rounds in which the users of a directory are read again: users about whom the directory says
//! nothing, many users, and slow directories.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::task::JoinSet;

use crate::directory::{Keys, World, metric};
use crate::slapd::{BASE, Slapd, user};
use crate::support::{Browser, until};

const COMPLETE: &str = "sealgate_directory_reads_total{directory=\"corp\",outcome=\"complete\"}";
const FAILED: &str = "sealgate_directory_reads_total{directory=\"corp\",outcome=\"failed\"}";

/// Waits for rounds that began after this call.
async fn rounds(world: &World, series: &str) {
    let before = metric(&world.instance, series).await;
    until("two rounds", async || metric(&world.instance, series).await >= before + 2).await;
}

/// Returns the number of lines of the log with this text.
fn lines(world: &World, text: &str) -> usize {
    world.instance.log().lines().filter(|line| line.contains(text)).count()
}

/// Signs in all users, several at once.
async fn all_signed_in(world: &Arc<World>, names: &[String]) -> Vec<Browser> {
    let mut browsers = Vec::with_capacity(names.len());
    for names in names.chunks(8) {
        let mut tasks = JoinSet::new();
        for (number, name) in names.iter().cloned().enumerate() {
            let world = Arc::clone(world);
            tasks.spawn(async move { (number, world.signed_in(&name).await) });
        }
        let mut signed_in = tasks.join_all().await;
        signed_in.sort_by_key(|(number, _)| *number);
        browsers.extend(signed_in.into_iter().map(|(_, browser)| browser));
    }
    browsers
}

#[tokio::test]
async fn users_behind_a_referral_are_not_signed_out_and_become_stale() {
    let sales = format!("dn: ou=sales,ou=people,{BASE}\nobjectClass: organizationalUnit\nou: sales\n\n");
    let otto = user("otto", "").replace("ou=people", "ou=sales,ou=people");
    let keys = Keys { stale_seconds: 6, ..Keys::default() };
    let world = World::start(&(user("anna", "") + &sales + &otto), &keys);
    let (anna, otto) = (world.signed_in("anna").await, world.signed_in("otto").await);
    world.slapd.change(&format!(
        "dn: ou=sales,ou=people,{BASE}\nchangetype: modrdn\nnewrdn: ou=sales\ndeleteoldrdn: 0\nnewsuperior: {BASE}\n\n\
         dn: ou=sales,ou=people,{BASE}\nchangetype: add\nobjectClass: referral\nobjectClass: extensibleObject\nou: sales\n\
         ref: ldap://127.0.0.1:9/ou=sales,dc=other\n"
    ));
    rounds(&world, COMPLETE).await;
    assert_eq!(world.show("otto")["source"]["state"], "enabled");
    world.becomes(&otto, 503).await;
    assert_eq!(world.status(&anna, "/json").await, 200);
    assert_eq!(lines(&world, "belong to other servers"), 1, "{}", world.instance.log());
    // The same session continues when the container is back.
    world.slapd.change(&format!(
        "dn: ou=sales,ou=people,{BASE}\nchangetype: delete\n\n\
         dn: ou=sales,{BASE}\nchangetype: modrdn\nnewrdn: ou=sales\ndeleteoldrdn: 0\nnewsuperior: ou=people,{BASE}\n"
    ));
    world.becomes(&otto, 200).await;
}

/// Attributes of Active Directory that the tests need, for an OpenLDAP server.
const SCHEMA: &str = "attributetype ( 1.2.840.113556.1.4.8 NAME 'userAccountControl' EQUALITY integerMatch \
    SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )\n\
    attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch \
    SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )\n";

#[tokio::test]
async fn one_unreadable_account_does_not_delay_the_changes_of_others() {
    let account = |name: &str| {
        let more = format!("objectClass: extensibleObject\nuserAccountControl: 512\nsAMAccountName: {name}\n");
        user(name, &more)
    };
    let keys = Keys {
        stale_seconds: 6,
        slapd: SCHEMA,
        replaced: &[
            ("kind = \"ldap\"", "kind = \"active_directory\"\nid = \"entryUUID\""),
            ("base = \"ou=people", "filter = \"(uid=*)\"\nnames = [\"uid\"]\nbase = \"ou=people"),
            ("base = \"ou=groups", "from = \"members\"\nbase = \"ou=groups"),
        ],
        ..Keys::default()
    };
    let world = World::start(&(account("anna") + &account("otto") + &account("ben")), &keys);
    let (anna, otto) = (world.signed_in("anna").await, world.signed_in("otto").await);
    let ben = world.signed_in("ben").await;
    let change = |name: &str, change: &str| {
        world.slapd.change(&format!("dn: uid={name},ou=people,{BASE}\nchangetype: modify\n{change}\n"));
    };
    change("otto", "delete: userAccountControl");
    change("anna", "replace: userAccountControl\nuserAccountControl: 514");
    world.becomes(&anna, 302).await;
    assert_eq!(world.show("anna")["source"]["state"], "disabled");
    // Whether Otto's account is disabled is unknown, so his requests are refused after a while.
    world.becomes(&otto, 503).await;
    assert_eq!(world.show("otto")["source"]["state"], "enabled");
    assert_eq!(world.status(&ben, "/json").await, 200);
    assert_eq!(lines(&world, "has no userAccountControl"), 1, "{}", world.instance.log());
    change("otto", "add: userAccountControl\nuserAccountControl: 512");
    world.becomes(&otto, 200).await;
}

#[tokio::test]
async fn five_hundred_users_are_read_again_without_a_write() {
    let names: Vec<String> = (0..500).map(|number| format!("u{number}")).collect();
    let entries: String = names.iter().map(|name| user(name, "objectClass: shadowAccount\n")).collect();
    let limits = "[login]\nfailures_per_address = 1000\n[rate_limits]\npages = \"none\"\nsign_ins = \"none\"\n";
    let world = Arc::new(World::start(&entries, &Keys { sections: limits, ..Keys::default() }));
    let mut browsers = Vec::new();
    for names in names.chunks(100) {
        // A browser keeps connections, of which a client has a limited number.
        browsers.extend(all_signed_in(&world, names).await.into_iter().step_by(99));
    }
    until("all users are read", async || {
        metric(&world.instance, "sealgate_directory_users{directory=\"corp\"}").await == 500
    })
    .await;
    // Writes of the sign-ins, such as the times of sessions, have ended.
    let commits = async || metric(&world.instance, "sealgate_store_commits_total").await;
    until("nothing else is written", async || {
        let before = commits().await;
        rounds(&world, COMPLETE).await;
        commits().await == before
    })
    .await;
    // A change of one user is one write.
    world.slapd.change(&format!("dn: uid=u7,ou=people,{BASE}\nchangetype: modify\nreplace: cn\ncn: Anna\n"));
    until("the name is changed", async || world.show("u7")["name"] == "Anna").await;
    // A disabled user of any batch is signed out, and the others are not.
    world
        .slapd
        .change(&format!("dn: uid=u499,ou=people,{BASE}\nchangetype: modify\nadd: shadowExpire\nshadowExpire: 1\n"));
    let [first, .., last] = browsers.as_slice() else { panic!("no browsers") };
    world.becomes(last, 302).await;
    for browser in [first, &browsers[1], &browsers[2], &browsers[3], &browsers[4]] {
        assert_eq!(world.status(browser, "/json").await, 200);
    }
}

/// Relay to an LDAP server without TLS. It holds requests that contain certain bytes.
#[derive(Clone, Default)]
struct Holding(Arc<Mutex<Option<Vec<u8>>>>);

impl Holding {
    fn hold(&self, bytes: Option<&[u8]>) {
        *self.0.lock().unwrap() = bytes.map(<[u8]>::to_vec);
    }

    fn is_held(&self, request: &[u8]) -> bool {
        let held = self.0.lock().unwrap();
        held.as_ref().is_some_and(|held| request.windows(held.len()).any(|part| part == held))
    }

    /// Starts the relay, and returns its URL.
    fn start(&self, server: u16) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ldap://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let holding = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (holding, server) = (holding.clone(), TcpStream::connect(("127.0.0.1", server)).unwrap());
                let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut answers, &mut back);
                    let _ = back.shutdown(Shutdown::Both);
                });
                thread::spawn(move || holding.carry(client, server));
            }
        });
        url
    }

    fn carry(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut request = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = client.read(&mut request) {
            if !self.is_held(&request[..length]) && server.write_all(&request[..length]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }
}

/// Sixty users are two batches.
#[tokio::test]
async fn a_batch_is_applied_although_the_next_one_is_not_read_and_nobody_counts_as_gone() {
    let names: Vec<String> = (0..60).map(|number| format!("u{number}")).collect();
    let entries: String = names.iter().map(|name| user(name, "objectClass: shadowAccount\n")).collect();
    let slapd = Slapd::start(&entries);
    let relay = Holding::default();
    let url = relay.start(slapd.port);
    let keys = Keys { timeout_seconds: 2, ..Keys::default() };
    let world = Arc::new(World::before(slapd, Some(url), &keys));
    let browsers = all_signed_in(&world, &names).await;
    // Users are read in the order of their ids.
    let mut users: Vec<(Vec<u8>, usize)> = Vec::new();
    for user in world.instance.json(&["user", "list"])["users"].as_array().unwrap() {
        let sub = user["sub"].as_str().unwrap();
        let number = names.iter().position(|name| user["username"] == name.as_str()).unwrap();
        users.push((uuid::Uuid::parse_str(sub).unwrap().as_bytes().to_vec(), number));
    }
    users.sort();
    let (first, second, last) = (users[0].1, users[1].1, users[59].1);
    let id = world.show(&names[last])["source"]["link"]["id"].as_str().unwrap().to_owned();
    relay.hold(Some(&URL_SAFE_NO_PAD.decode(id).unwrap()));
    rounds(&world, FAILED).await;
    let expire = |number| {
        let ldif = "changetype: modify\nadd: shadowExpire\nshadowExpire: 1\n\n";
        world.slapd.change(&format!("dn: uid=u{number},ou=people,{BASE}\n{ldif}"));
    };
    world.slapd.change(&format!("dn: uid=u{second},ou=people,{BASE}\nchangetype: delete\n"));
    expire(last);
    expire(first);
    world.becomes(&browsers[first], 302).await;
    rounds(&world, FAILED).await;
    for number in [second, last] {
        assert_eq!(world.status(&browsers[number], "/json").await, 200, "{number}");
    }
    relay.hold(None);
    world.becomes(&browsers[second], 302).await;
    world.becomes(&browsers[last], 302).await;
}

/// Each search is answered in time, but all of them together are not.
#[tokio::test]
async fn a_round_has_a_deadline_and_a_slow_directory_makes_its_users_stale() {
    let names: Vec<String> = (0..12).map(|number| format!("u{number}")).collect();
    let entries: String = names.iter().map(|name| user(name, "")).collect();
    let keys = Keys { stale_seconds: 7, timeout_seconds: 3, ..Keys::default() };
    let slapd = Slapd::start(&entries);
    let (delay, url) = slowed(slapd.port);
    let world = Arc::new(World::before(slapd, Some(url), &keys));
    let browsers = all_signed_in(&world, &names).await;
    *delay.lock().unwrap() = 1000;
    until("a round is ended", async || lines(&world, "the round over 12 users did not end within 3 seconds") > 0).await;
    world.becomes(&browsers[0], 503).await;
    *delay.lock().unwrap() = 0;
    for browser in &browsers {
        world.becomes(browser, 200).await;
    }
}

/// Starts a relay that delays each request by a number of milliseconds. Returns the delay and the URL.
fn slowed(server: u16) -> (Arc<Mutex<u64>>, String) {
    let delay = Arc::new(Mutex::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let shared = Arc::clone(&delay);
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let (delay, mut server) = (Arc::clone(&shared), TcpStream::connect(("127.0.0.1", server)).unwrap());
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            thread::spawn(move || {
                let mut request = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = client.read(&mut request) {
                    let wait = *delay.lock().unwrap();
                    thread::sleep(std::time::Duration::from_millis(wait));
                    if server.write_all(&request[..length]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    (delay, url)
}
