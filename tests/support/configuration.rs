//! Minimal configuration for every suite; each test adds its own settings.

/// Settings that differ by suite.
#[derive(Clone, Copy)]
pub(crate) struct Configuration<'a> {
    pub(crate) issuer: &'a str,
    /// Address on which the server listens.
    pub(crate) listen: &'a str,
    /// Path of the token's module. Suites with another signer load no module.
    pub(crate) module: &'a str,
    pub(crate) pin_file: &'a str,
    /// Directory of the store.
    pub(crate) store: &'a str,
}

impl Default for Configuration<'_> {
    fn default() -> Self {
        Self {
            issuer: "https://id.test",
            listen: "127.0.0.1:8443",
            module: "/usr/lib/softhsm/libsofthsm2.so",
            pin_file: "pin",
            store: "store",
        }
    }
}

impl Configuration<'_> {
    /// Returns the text.
    ///
    /// `first` follows the issuer, so that it may begin with top-level keys; `last` comes at the
    /// end, in the table of the store.
    pub(crate) fn text(&self, first: &str, last: &str) -> String {
        let Self { issuer, listen, module, pin_file, store } = self;
        format!(
            r#"issuer = "{issuer}"
{first}
[server]
listen = ["{listen}"]
[hsm]
module = "{module}"
token_label = "sealgate"
pin_file = "{pin_file}"
[store]
path = "{store}"
{last}
"#
        )
    }
}
