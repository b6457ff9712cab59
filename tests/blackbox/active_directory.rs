//! Users of Active Directory, with a Samba domain controller that `tests/directory/samba.sh` starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::directory::problem;
use crate::lasting::{closes, streams, websocket_at};
use crate::slapd::write_secret;
use crate::support::{Browser, Instance, Settings, Upstream, until};

const REFRESH: Duration = Duration::from_secs(5);

fn place() -> PathBuf {
    PathBuf::from(std::env::var_os("SEALGATE_SAMBA").expect("tests/directory/samba.sh sets the variable"))
}

fn samba_tool(place: &Path, words: &[&str]) {
    let mut command = Command::new("samba-tool");
    command.args(words).arg(format!("--configfile={}", place.join("etc/smb.conf").display()));
    let output = command.arg("-H").arg(place.join("private/sam.ldb")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a domain controller: make test-directory"]
async fn a_disabled_or_deleted_account_is_out_within_the_refresh_interval() {
    let (place, upstream) = (place(), Upstream::start());
    let sections = format!(
        "[[directory]]\nname = \"corp\"\nkind = \"active_directory\"\nservers = [\"ldaps://localhost\"]\n\
         ca_file = \"{}\"\ndefault = true\ndomains = [\"corp.test\"]\nrefresh_seconds = {}\ntimeout_seconds = 20\n\
         [directory.bind]\ndn = \"CN=sealgate,CN=Users,DC=corp,DC=test\"\npassword_file = \"ldap.password\"\n\
         [directory.users]\nbase = \"DC=corp,DC=test\"\n[directory.groups]\nbase = \"DC=corp,DC=test\"\n\
         [[app]]\nname = \"wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{}\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n\
         [[app]]\nname = \"events\"\nhost = \"app0.localhost\"\nupstreams = [\"http://{}\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n",
        place.join("ca.pem").display(),
        REFRESH.as_secs(),
        upstream.url(),
        streams()
    );
    let mut instance = Instance::bare(&Settings::default());
    write_secret(&instance.directory.path().join("ldap.password"), "password of sealgate");
    instance.configure(&Settings { sections, ..Settings::default() });
    instance.run(&["key", "generate"]);
    instance.start();
    let enter = async |name: &str, password: &str| {
        let browser = Browser::new(&instance);
        let page = browser.open(&instance.app_url("/json")).await;
        let page = browser.submit(&page, &[("email", name), ("password", password)]).await;
        (browser, page)
    };
    let events = format!("http://app0.localhost:{}", instance.port);
    for (name, words) in [("dora", &["user", "disable", "dora"]), ("emil", &["user", "delete", "emil"])] {
        let password = format!("password of {name}");
        let (browser, page) = enter(name, &password).await;
        assert!(page.status == 200 && page.body.contains("\"headers\""), "{page:?}");
        assert_eq!(browser.open(&format!("{events}/")).await.status, 200);
        let socket = websocket_at(&events, &browser).await;
        // A script's request gets 401 instead of the sign-in page.
        let status = async || {
            let cookies = browser.cookies(&instance.app_url("/json"));
            let request = browser.client().get(instance.app_url("/json")).header("Cookie", cookies);
            request.header("Sec-Fetch-Mode", "cors").send().await.unwrap().status().as_u16()
        };
        assert_eq!(status().await, 200);
        tokio::task::block_in_place(|| samba_tool(&place, words));
        let begun = Instant::now();
        tokio::time::timeout(REFRESH + Duration::from_secs(1), closes(socket)).await.expect("the WebSocket closes");
        until("a request is refused", async || status().await == 401).await;
        assert!(begun.elapsed() <= REFRESH + Duration::from_secs(1), "{:?}", begun.elapsed());
        println!("{name} was out after {:?}", begun.elapsed());
        let (_, page) = enter(name, &password).await;
        let expected = if name == "dora" { "disabled" } else { "Incorrect" };
        assert!(problem(&page).contains(expected), "{page:?}");
    }
}
