//! Tests `sealgate key verify-attestation` on a machine without configuration and token, against a running
//! server. openssl creates the certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::support::{Instance, Settings, wait_until};

/// Certificates in a test's own directory.
struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// Creates a `root` that issued `device`, and `stranger`, another root.
    fn new(instance: &Instance) -> Self {
        let directory = instance.directory.path().join("authority");
        fs::create_dir(&directory).unwrap();
        let authority = Self { directory };
        for name in ["root", "stranger"] {
            authority.key(name);
            let subject = format!("/CN={name}");
            let certificate = ["req", "-x509", "-key", &authority.file(name, "key"), "-subj", &subject];
            authority.openssl(&[&certificate[..], &["-days", "2", "-out", &authority.file(name, "pem")]].concat());
        }
        authority.key("device");
        authority.request("device");
        authority.issue("device", "root", "basicConstraints=critical,CA:TRUE", "2", None);
        authority
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(&self.directory).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, name: &str, kind: &str) -> String {
        self.directory.join(format!("{name}.{kind}")).to_str().unwrap().to_owned()
    }

    fn key(&self, name: &str) {
        self.openssl(&[
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-out",
            &self.file(name, "key"),
        ]);
    }

    fn request(&self, name: &str) {
        let subject = format!("/CN={name}");
        let out = self.file(name, "csr");
        self.openssl(&["req", "-new", "-key", &self.file(name, "key"), "-subj", &subject, "-out", &out]);
    }

    /// Issues a certificate for `name`, or in its name for the public key in `key`.
    fn issue(&self, name: &str, issuer: &str, extensions: &str, days: &str, key: Option<&str>) {
        fs::write(self.file(name, "ext"), extensions).unwrap();
        let (csr, certificate, ext) = (self.file(name, "csr"), self.file(name, "pem"), self.file(name, "ext"));
        let (ca, ca_key) = (self.file(issuer, "pem"), self.file(issuer, "key"));
        let mut arguments = vec!["x509", "-req", "-in", &csr, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial"];
        arguments.extend(["-extfile", &ext, "-days", days, "-out", &certificate]);
        arguments.extend(key.into_iter().flat_map(|key| ["-force_pubkey", key]));
        self.openssl(&arguments);
    }

    /// Issues the attestation of the public key in `key`, signed by `issuer`.
    fn attest(&self, name: &str, issuer: &str, days: &str, key: &str) {
        self.key(name);
        self.request(name);
        self.issue(name, issuer, "1.3.6.1.4.1.41482.4.2=ASN1:INTEGER:7", days, Some(key));
    }

    fn pem(&self, name: &str) -> String {
        fs::read_to_string(self.file(name, "pem")).unwrap()
    }
}

/// Returns the program's report on a provider. It gets no configuration and no token.
fn examine(instance: &Instance, roots: &[&str]) -> (Option<i32>, Value, String) {
    examine_with(&instance.url(""), roots, &[])
}

fn examine_with(issuer: &str, roots: &[&str], environment: &[(&str, &Path)]) -> (Option<i32>, Value, String) {
    let output = program(issuer, roots, &["--json"], environment);
    let printed = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), printed, String::from_utf8(output.stderr).unwrap())
}

fn program(issuer: &str, roots: &[&str], more: &[&str], environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
    command
        .env_clear()
        .envs(environment.iter().copied())
        .args(["key", "verify-attestation", "--issuer", issuer])
        .args(more);
    command.args(roots.iter().flat_map(|root| ["--root", root]));
    command.output().unwrap()
}

/// Installs an attestation, and waits until it is published.
fn lay(instance: &Instance, kid: &str, certificates: &[String]) {
    let directory = instance.directory.path().join("attestation");
    // A rename, so that the server reads no half-written file.
    fs::write(directory.join("new"), certificates.concat()).unwrap();
    fs::rename(directory.join("new"), directory.join(format!("{kid}.pem"))).unwrap();
    let bodies: Vec<String> =
        certificates.iter().map(|pem| pem.lines().filter(|line| !line.starts_with('-')).collect::<String>()).collect();
    wait_until("the attestation is published", || {
        let output = Command::new("curl").args(["-s", &instance.url("/.well-known/sealgate/keys")]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of_key = |key: &&Value| key["kid"] == kid;
        let key = document["keys"].as_array().unwrap().iter().find(of_key);
        key.is_some_and(|key| key["attestation"]["x5c"] == serde_json::json!(bodies))
    });
}

/// Returns a server with an attestation directory, the kid of its key, and the file of its public
/// key.
fn prepared() -> (Instance, String, String) {
    let (mut instance, kid, public) = unstarted("");
    instance.start();
    (instance, kid, public)
}

/// Does the same, with additional sections in the configuration, and does not start the server.
fn unstarted(sections: &str) -> (Instance, String, String) {
    let instance = Instance::prepare(&Settings { sections: sections.to_owned(), ..Settings::default() });
    fs::create_dir(instance.directory.path().join("attestation")).unwrap();
    let own = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), own.replace("[hsm]", "[hsm]\nattestation = \"attestation\"")).unwrap();
    let key = instance.json(&["key", "list"])["keys"][0].clone();
    let public = instance.directory.path().join("public.der").to_str().unwrap().to_owned();
    let id = key["id"].as_str().unwrap();
    instance.softhsm.pkcs11_tool("sealgate", &["--read-object", "--type", "pubkey", "--id", id, "-o", &public]);
    (instance, key["kid"].as_str().unwrap().to_owned(), public)
}

#[test]
fn a_chain_is_trusted_only_up_to_a_root_that_the_auditor_names() {
    let (instance, kid, public) = prepared();
    let authority = Authority::new(&instance);
    authority.attest("leaf", "device", "2", &public);
    let root = authority.file("root", "pem");

    let (code, printed, error) = examine(&instance, &[&root]);
    assert_eq!((code, printed["keys"][0]["outcome"].as_str()), (Some(3), Some("not_attested")), "{error}");
    assert!(error.starts_with("not proven: "), "{error}");
    let told = String::from_utf8(program(&instance.url(""), &[], &[], &[]).stdout).unwrap();
    assert_eq!(told, format!("{kid} (active, 2048 bits): not attested\n"));

    let chain = [authority.pem("leaf"), authority.pem("device"), authority.pem("root")];
    lay(&instance, &kid, &chain);
    let (code, printed, error) = examine(&instance, &[&root]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{printed}");
    assert_eq!((&printed["keys"][0]["outcome"], &printed["keys"][0]["root"]), (&"attested".into(), &"CN=root".into()));
    assert_eq!((&printed["keys"][0]["kid"], &printed["issuer"]), (&kid.into(), &instance.url("").into()));
    let der = authority.file("root", "der");
    authority.openssl(&["x509", "-in", &root, "-outform", "DER", "-out", &der]);
    assert_eq!(examine(&instance, &[&der]).0, Some(0), "in DER as well");
    assert_eq!(examine(&instance, &[&authority.file("stranger", "pem"), &root]).0, Some(0), "one of several");

    for roots in [vec![], vec![authority.file("stranger", "pem")]] {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        let (code, printed, error) = examine(&instance, &roots);
        assert_eq!((code, printed["keys"][0]["outcome"].as_str()), (Some(3), Some("root_not_named")), "{error}");
        let told = String::from_utf8(program(&instance.url(""), &roots, &[], &[]).stdout).unwrap();
        assert!(told.contains("the chain is consistent, but its root is not one you named: CN=root"), "{told}");
    }
    let (code, _, error) = examine(&instance, &[&authority.file("root", "key")]);
    assert!(code == Some(1) && error.contains("contains no certificate"), "{error}");
}

/// Asserts that the program rejects a chain, and returns its errors.
fn refusal(instance: &Instance, kid: &str, chain: &[String], root: &str) -> String {
    lay(instance, kid, chain);
    let (code, printed, error) = examine(instance, &[root]);
    assert_eq!((code, printed["keys"][0]["outcome"].as_str()), (Some(1), Some("refused")), "{error}");
    let start = format!("error: key {kid}: ");
    assert!(error.lines().all(|line| line.starts_with(&start)), "{error}");
    error
}

#[test]
fn an_invalid_chain_is_refused_and_the_invalid_certificate_is_named() {
    let (instance, kid, public) = prepared();
    let authority = Authority::new(&instance);
    let root = authority.file("root", "pem");
    let refusal = |chain: &[String]| refusal(&instance, &kid, chain, &root);
    authority.attest("leaf", "device", "2", &public);
    let [leaf, device, root_pem] = ["leaf", "device", "root"].map(|name| authority.pem(name));

    let other = authority.file("other", "key");
    authority.openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", &other]);
    let other_public = authority.file("other", "pub");
    authority.openssl(&["pkey", "-in", &other, "-pubout", "-out", &other_public]);
    authority.attest("another", "device", "2", &other_public);
    let error = refusal(&[authority.pem("another"), device.clone(), root_pem.clone()]);
    assert!(error.contains("a key that differs from the published one"), "{error}");

    // The certificate expires in the second of its creation.
    authority.attest("old", "device", "0", &public);
    let error = refusal(&[authority.pem("old"), device.clone(), root_pem.clone()]);
    assert!(error.contains("certificate 1 expired at "), "{error}");

    let error = refusal(&[leaf.clone(), root_pem.clone()]);
    assert!(error.contains("certificate 1 was issued by CN=device, which is not the next certificate"), "{error}");
    let error = refusal(std::slice::from_ref(&leaf));
    assert!(error.contains("ends with its first certificate") && error.contains("CN=device"), "{error}");

    // A second authority of the same name: all names match, but the signature is another's.
    authority.openssl(&[
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-out",
        &authority.file("device", "key"),
    ]);
    authority.request("device");
    authority.issue("device", "root", "basicConstraints=critical,CA:TRUE", "2", None);
    let error = refusal(&[leaf, authority.pem("device"), root_pem.clone()]);
    assert!(error.contains("a signature in the chain does not verify"), "{error}");

    // The holder of an attested key can sign anything with it, including certificates.
    authority.key("attested");
    authority.request("attested");
    authority.issue("attested", "device", "basicConstraints=CA:FALSE", "2", None);
    authority.attest("forged", "attested", "2", &public);
    let error = refusal(&[authority.pem("forged"), authority.pem("attested"), authority.pem("device"), root_pem]);
    assert!(error.contains("certificate 2 is not a CA certificate"), "{error}");
}

#[test]
fn truncated_certificates_are_refused() {
    let (instance, kid, public) = prepared();
    let authority = Authority::new(&instance);
    authority.attest("leaf", "device", "2", &public);
    let body: String = authority.pem("leaf").lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    let cut = STANDARD.encode(&der[..der.len() - 30]);
    let cut = format!("-----BEGIN CERTIFICATE-----\n{cut}\n-----END CERTIFICATE-----\n");
    let error = refusal(&instance, &kid, &[cut, authority.pem("device")], &authority.file("root", "pem"));
    assert!(error.contains("certificate 1 is not a complete certificate"), "{error}");
    let mut more = der.clone();
    more.push(0);
    let more = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(more));
    let error = refusal(&instance, &kid, &[more, authority.pem("device")], &authority.file("root", "pem"));
    assert!(error.contains("certificate 1 has trailing bytes"), "{error}");
}

#[test]
fn an_unreachable_provider_is_reported_on_one_line() {
    let (code, _, error) = examine_with("http://127.0.0.1:9", &[], &[]);
    assert!(code == Some(1) && error.lines().count() == 1 && error.contains("127.0.0.1:9"), "{error}");
    let (code, _, _) = examine_with("http://id.example.com", &[], &[]);
    assert_eq!(code, Some(2), "over the open net only with TLS");
    let instance = Instance::started(&Settings::default());
    let (code, _, error) = examine_with(&format!("http://127.0.0.1:{}", instance.port), &[], &[]);
    assert!(code == Some(1) && error.contains("has the issuer \"http://localhost:"), "{error}");
}

#[test]
fn a_provider_behind_tls_is_read_if_its_authority_is_trusted() {
    let mut instance = Instance::prepare(&Settings::default());
    let authority = Authority::new(&instance);
    authority.key("site");
    authority.request("site");
    authority.issue("site", "root", "subjectAltName=DNS:localhost", "2", None);
    let own = fs::read_to_string(instance.config()).unwrap();
    let tls = format!(
        "tls = {{ certificate = {:?}, key = {:?} }}",
        authority.file("site", "pem"),
        authority.file("site", "key")
    );
    fs::write(instance.config(), own.replace("http://", "https://").replace("[server]", &format!("[server]\n{tls}")))
        .unwrap();
    instance.start();
    let issuer = instance.url("").replace("http://", "https://");
    let (code, printed, error) =
        examine_with(&issuer, &[], &[("SSL_CERT_FILE", Path::new(&authority.file("root", "pem")))]);
    assert_eq!((code, printed["keys"][0]["outcome"].as_str()), (Some(3), Some("not_attested")), "{error}");
    let (code, _, error) =
        examine_with(&issuer, &[], &[("SSL_CERT_FILE", Path::new(&authority.file("stranger", "pem")))]);
    assert!(code == Some(1) && error.contains("UnknownIssuer"), "{error}");
}

/// Writes the public key of a JWK on a curve as DER (RFC 5480 §2, RFC 8410 §4).
fn write_public_key(jwk: &Value, file: &Path) {
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    let der = if jwk["crv"] == "P-256" {
        let prefix = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE";
        [STANDARD.decode(prefix).unwrap(), bytes("x"), bytes("y")].concat()
    } else {
        [vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00], bytes("x")].concat()
    };
    fs::write(file, der).unwrap();
}

#[test]
fn keys_of_all_algorithms_are_verified() {
    let settings = "[keys]\nalgorithms = [\"RS256\", \"ES256\", \"EdDSA\"]";
    let (mut instance, kid, public) = unstarted(settings);
    instance.start();
    let authority = Authority::new(&instance);
    let root = authority.file("root", "pem");
    let (code, printed, error) = examine(&instance, &[&root]);
    assert_eq!((code, printed["keys"].as_array().map(Vec::len)), (Some(3), Some(3)), "{error}");

    let output = Command::new("curl").args(["-s", &instance.url("/oauth/jwks")]).output().unwrap();
    let jwks: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = jwks["keys"].as_array().unwrap().iter();
    let on_curves: Vec<&Value> = keys.filter(|key| key["kty"] != "RSA").collect();
    let issuers = || [authority.pem("device"), authority.pem("root")];
    for (number, jwk) in on_curves.iter().enumerate() {
        let file = instance.directory.path().join(format!("{number}.der"));
        write_public_key(jwk, &file);
        let name = format!("leaf{number}");
        authority.attest(&name, "device", "2", file.to_str().unwrap());
        lay(&instance, jwk["kid"].as_str().unwrap(), &[&[authority.pem(&name)][..], &issuers()].concat());
    }
    authority.attest("leaf", "device", "2", &public);
    lay(&instance, &kid, &[&[authority.pem("leaf")][..], &issuers()].concat());
    let (code, printed, error) = examine(&instance, &[&root]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{printed}");

    // The attestation of another key.
    let kid = on_curves[0]["kid"].as_str().unwrap();
    lay(&instance, kid, &[&[authority.pem("leaf1")][..], &issuers()].concat());
    let (code, _, error) = examine(&instance, &[&root]);
    assert!(code == Some(1) && error.contains(&format!("key {kid}: ")) && error.contains("differs from"), "{error}");
}
