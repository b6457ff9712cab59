//! Names of authenticator models by AAGUID, for default names of factors.
//!
//! Attestation is not read, so an authenticator may claim any AAGUID. No decision depends on it.

/// AAGUIDs of common passkey providers, as in the list of the passkey developer community
/// (`passkey-authenticator-aaguids`), and of Yubico's current series.
const MODELS: [(u128, &str); 24] = [
    (0xea9b8d66_4d01_1d21_3ce4_b6b48cb575d4, "Google Password Manager"),
    (0xfbfc3007_154e_4ecc_8c0b_6e020557d7bd, "Apple Passwords"),
    (0xdd4ec289_e01d_41c9_bb89_70fa845d4bf2, "Apple Passwords"),
    (0x08987058_cadc_4b81_b6e1_30de50dcbe96, "Windows Hello"),
    (0x9ddd1817_af5a_4672_a2b9_3e3dd95000a9, "Windows Hello"),
    (0x6028b017_b1d4_4c02_b4b3_afcdafc96bb2, "Windows Hello"),
    (0xd3452668_01fd_4c12_926c_83a4204853aa, "Microsoft Password Manager"),
    (0x53414d53_554e_4700_0000_000000000000, "Samsung Pass"),
    (0xbada5566_a7aa_401f_bd96_45619a55120d, "1Password"),
    (0xd548826e_79b4_db40_a3d8_11116f7e8349, "Bitwarden"),
    (0x531126d6_e717_415c_9320_3d9aa6981239, "Dashlane"),
    (0xf3809540_7f14_49c1_a8b3_8f813b225541, "Enpass"),
    (0xeaecdef2_1c31_5634_8639_f1cbd9c00a08, "KeePassDX"),
    (0xfdb141b2_5d84_443e_8a35_4698c205a502, "KeePassXC"),
    (0x0ea242b4_43c4_4a1b_8b17_dd6d0b6baec6, "Keeper"),
    (0xb78a0a55_6ef8_d246_a042_ba0f6d55050c, "LastPass"),
    (0xb84e4048_15dc_4dd0_8640_f4f60813c8af, "NordPass"),
    (0x50726f74_6f6e_5061_7373_50726f746f6e, "Proton Pass"),
    (0xb35a26b2_8f6e_4697_ab1d_d44db4da28c6, "Zoho Vault"),
    (0xcb69481e_8ff7_4039_93ec_0a2729a154a8, "YubiKey 5"),
    (0xee882879_721c_4913_9775_3dfcce97072a, "YubiKey 5"),
    (0xfa2b99dc_9e39_4257_8f92_4a30d23c4118, "YubiKey 5 NFC"),
    (0x2fc0579f_8113_47ea_b116_bb5a8db9202a, "YubiKey 5 NFC"),
    (0xc5ef55ff_ad9a_4b9f_b580_adebafe026d0, "YubiKey 5Ci"),
];

/// Returns the name of the model that an authenticator claims to be, if known.
pub(super) fn model_name(aaguid: [u8; 16]) -> Option<&'static str> {
    let number = u128::from_be_bytes(aaguid);
    MODELS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_identified_by_their_aaguid() {
        assert_eq!(model_name(*b"ProtonPassProton"), Some("Proton Pass"));
        assert_eq!(model_name([0; 16]), None);
    }
}
