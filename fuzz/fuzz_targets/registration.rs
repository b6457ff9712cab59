//! Registration bodies: an accepted registration, as returned, is accepted again (RFC 7592 §2.2: clients send
//! back all metadata).
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::client::ClientType;
use sealgate_fuzz::oauth::registration::{ClientMetadata, Issued, client_information};

fuzz_target!(|raw: &[u8]| {
    let Ok(metadata) = ClientMetadata::parse(raw, &()) else { return };
    let mut client = sealgate_fuzz::client(ClientType::Confidential);
    metadata.clone().replace(&mut client);
    let issued = Issued { secret: None, access_token: None };
    let echo = client_information(&client, "https://id.test/oauth/register/c1", &issued).to_string();
    let again = ClientMetadata::parse(echo.as_bytes(), &()).unwrap_or_else(|refusal| panic!("{refusal:?}: {echo}"));
    let named = ClientMetadata { name: Some(client.name.clone()), ..metadata };
    assert_eq!(again, named);
});
