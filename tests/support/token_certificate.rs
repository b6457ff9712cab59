//! TLS certificates whose private keys are in the PKCS#11 token of an instance.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Instance;

/// Runs openssl in a directory. Panics if it fails.
pub(crate) fn openssl(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).current_dir(directory).output().expect("openssl");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Creates an authority in `ca.pem`.
pub(crate) fn make_authority(directory: &Path) {
    let extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"];
    let request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let files = ["-days", "20", "-subj", "/CN=Test CA", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(directory, &[&request[..], &extensions, &files].concat());
}

/// Lets the authority issue a certificate to the TLS key `label` of the token.
pub(crate) fn issue(instance: &Instance, label: &str, host: &str, file: &str) {
    let directory = instance.directory.path();
    let request = instance.run(&["key", "request-certificate", label, host]);
    fs::write(directory.join("request.pem"), request).unwrap();
    let authority = ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    openssl(directory, &[&authority[..], &["-days", "20", "-copy_extensions", "copy", "-out", file]].concat());
}

/// Enables TLS with these tables of `server.tls`.
pub(crate) fn configure_tls(instance: &Instance, tables: &str) {
    let text = fs::read_to_string(instance.config()).unwrap().replace("issuer = \"http://", "issuer = \"https://");
    fs::write(instance.config(), text.replace("[server]", &format!("[server]\ntls = [{tables}]"))).unwrap();
}

pub(crate) fn table(certificate: &str, key: &str) -> String {
    format!("{{ certificate = \"{certificate}\", key = \"{key}\" }}")
}

/// Serial number of the certificate that a client with this server name receives, or the error of a
/// failed handshake. openssl verifies the signature and the chain.
pub(crate) fn serial(instance: &Instance, name: &str) -> Result<String, String> {
    let address = format!("127.0.0.1:{}", instance.port);
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-servername", name, "-CAfile", "ca.pem", "-verify_return_error"])
        .current_dir(instance.directory.path())
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !shown.contains("Verification: OK") {
        return Err(format!("{shown}{}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::write(instance.directory.path().join("shown.pem"), shown).unwrap();
    Ok(openssl(instance.directory.path(), &["x509", "-in", "shown.pem", "-noout", "-serial"]))
}
