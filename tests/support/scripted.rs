//! LDAP servers whose answers a test determines.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Starts a server that accepts connections, and calls `serve` for each on a thread of its own.
fn listen(serve: impl Fn(std::net::TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(socket.unwrap()));
        }
    });
    format!("ldap://127.0.0.1:{port}")
}

/// Starts a server that sends these bytes for the first request of each connection.
pub(crate) fn hostile(answer: Vec<u8>) -> String {
    listen(move |mut socket| {
        let mut request = [0; 4096];
        let _ = socket.read(&mut request);
        // The client may close the connection before all bytes are sent.
        let _ = socket.write_all(&answer);
        let _ = socket.read(&mut request);
    })
}

/// Returns the operations that answer a search, for the bytes of the request.
pub(crate) type Script = fn(&[u8]) -> Vec<Vec<u8>>;

/// Starts a server that accepts all binds. It answers a search with the operations that `answer`
/// returns for the bytes of the request, and success.
pub(crate) fn scripted(answer: Script) -> String {
    listen(move |mut socket| {
        let mut request = [0; 4096];
        while let Ok(length @ 1..) = socket.read(&mut request) {
            let request = &request[..length];
            // The length of the message has one byte, or a byte for the number of its bytes.
            let at = if request[1] < 0x80 { 4 } else { usize::from(request[1] & 0x7f) + 4 };
            let (id, operation) = (request[at], request[at + 1]);
            let result = |tag| message(id, &element(tag, &[&[0x0a, 1, 0, 4, 0, 4, 0]]));
            let bytes: Vec<u8> = match operation {
                0x60 => result(0x61),
                0x63 => answer(request).iter().flat_map(|found| message(id, found)).chain(result(0x65)).collect(),
                _ => return,
            };
            let _ = socket.write_all(&bytes);
        }
    })
}

/// Encodes an element with fewer than 128 bytes.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 0x80).expect("a short element");
    [&[tag, length], content.as_slice()].concat()
}

fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&[2, 1, id], operation])
}

/// Encodes an entry of a search.
pub(crate) fn entry(dn: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    element(0x64, &[&element(4, &[dn]), &element(0x30, &[&attributes.concat()])])
}

/// Encodes an attribute with one value.
pub(crate) fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    element(0x30, &[&element(4, &[name.as_bytes()]), &element(0x31, &[&element(4, &[value])])])
}
