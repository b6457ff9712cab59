//! Tests the responses of an application on the issuer's host.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::support::{Browser, Instance, Settings};

/// Response fields of an application that apply to its whole origin.
const FIELDS: [(&str, &str); 6] = [
    ("Service-Worker-Allowed", "/"),
    ("Clear-Site-Data", "\"cookies\", \"storage\""),
    ("NEL", "{\"report_to\":\"x\",\"max_age\":600,\"success_fraction\":1}"),
    ("Report-To", "{\"group\":\"x\",\"max_age\":600,\"endpoints\":[{\"url\":\"https://evil.test/\"}]}"),
    ("Alt-Svc", "h2=\":444\""),
    ("Secure-Session-Registration", "(ES256);path=\"/bind\""),
];

fn application() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fields = FIELDS.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nContent-Length: 1\r\nX-Own: 1\r\n";
            let _ = stream.write_all(format!("{head}{fields}\r\n;").as_bytes());
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_response_on_the_issuers_host_affects_no_other_page() {
    let sections = format!(
        "[[app]]\nname = \"portal\"\nhost = \"localhost\"\nupstreams = [\"{url}\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"public\"\n\
         [[app]]\nname = \"wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{url}\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"public\"\n",
        url = application()
    );
    let instance = Instance::started(&Settings { sections, ..Settings::default() });
    let browser = Browser::new(&instance);
    let get = async |url: String, worker: bool| {
        let request = browser.client().get(url);
        let request = if worker { request.header("Service-Worker", "script") } else { request };
        request.send().await.unwrap()
    };
    let other = format!("http://app.localhost:{}", instance.port);
    for (base, is_restricted) in [(instance.url(""), true), (other, false)] {
        let answer = get(format!("{base}/app/sw.js"), true).await;
        assert_eq!((answer.status().as_u16(), &answer.headers()["x-own"]), (200, &"1".parse().unwrap()), "{base}");
        for (name, _) in FIELDS {
            assert_eq!(answer.headers().contains_key(name), !is_restricted, "{base}: {name}");
        }
        let refused = if is_restricted { 403 } else { 200 };
        assert_eq!(get(format!("{base}/sw.js"), true).await.status(), refused, "{base}");
        assert_eq!(get(format!("{base}/sw.js"), false).await.status(), 200, "{base}");
    }
}
