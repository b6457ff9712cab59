//! Minimal Pingora proxy that forwards every request to one upstream.
//!
//! It is the lower bound for the gateway.
//!
//!     bare_proxy LISTEN UPSTREAM THREADS [CERTIFICATE KEY]
//!
//! With a certificate it serves HTTP/1.1 and HTTP/2 over TLS.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use async_trait::async_trait;
use pingora::Result;
use pingora::listeners::tls::TlsSettings;
use pingora::modules::http::HttpModules;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

// The same allocator as Sealgate, because the allocator alone makes a difference of 10 %.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Bare {
    upstream: String,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn upstream_peer(&self, _session: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream.as_str(), false, String::new())))
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (listen, upstream) = (arguments.next(), arguments.next());
    let threads = arguments.next().and_then(|threads| threads.parse().ok());
    let (Some(listen), Some(upstream), Some(threads)) = (listen, upstream, threads) else {
        panic!("usage: bare_proxy LISTEN UPSTREAM THREADS [CERTIFICATE KEY]");
    };
    let config = ServerConf { threads, upstream_keepalive_pool_size: 1024, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, config);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare { upstream });
    match (arguments.next(), arguments.next()) {
        (Some(certificate), Some(key)) => {
            let mut settings = TlsSettings::intermediate(&certificate, &key).unwrap();
            settings.enable_h2();
            service.add_tls_with_settings(&listen, None, settings);
        }
        _ => service.add_tcp(&listen),
    }
    server.add_service(service);
    server.run_forever();
}
