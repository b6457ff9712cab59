//! Application behind the gateway: the bundled sample, which shows the requests that it received.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::{free_port, wait_until};

/// Sample application on a free port. Stopped on drop.
pub(crate) struct Upstream {
    port: u16,
    child: Child,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let port = free_port();
        let child = Command::new(program())
            .arg(format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the example `legacy`: cargo builds it together with the tests");
        let upstream = Self { port, child };
        wait_until("the application listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        upstream
    }

    /// Returns the application's URL for the configuration.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `target/<profile>/examples/legacy`, next to the binary under test.
fn program() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_BIN_EXE_sealgate")).with_file_name("examples").join("legacy")
}
