//! Token with injected faults: compiles `shim.c`, and writes its control words at run time.
//!
//! The words are in a file that the module maps. The kernel makes a write to a file visible in all
//! its mappings, so tests need no unsafe code.

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::softhsm::MODULE;

/// Number of calls for [`Shim::fail`] and similar functions: until the next change.
pub(crate) const FOREVER: u64 = u64::MAX;

const WORDS: u64 = 512;
const GONE: u64 = 0;
const WRONG: u64 = 1;
const EMPTY: u64 = 2;
const UNDRAINED: u64 = 3;
const RELEASED: u64 = 4;
const FLAGS: u64 = 5;
const MOST: u64 = 6;
const HANGING: u64 = 7;
const SHARED: u64 = 8;
const UNDER_CALL: u64 = 9;
const OPEN: u64 = 10;

const CODE: u64 = 0;
const TIMES: u64 = 1;
const LATE: u64 = 2;
const HANG: u64 = 3;
const CALLS: u64 = 4;

/// Functions that a test can control, in the order of `shim.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Initialize,
    Finalize,
    GetSlotList,
    GetTokenInfo,
    OpenSession,
    CloseSession,
    Login,
    FindObjectsInit,
    FindObjects,
    FindObjectsFinal,
    GetAttributeValue,
    SignInit,
    Sign,
    GenerateKeyPair,
}

impl Call {
    pub(crate) const ALL: [Self; 14] = [
        Self::Initialize,
        Self::Finalize,
        Self::GetSlotList,
        Self::GetTokenInfo,
        Self::OpenSession,
        Self::CloseSession,
        Self::Login,
        Self::FindObjectsInit,
        Self::FindObjects,
        Self::FindObjectsFinal,
        Self::GetAttributeValue,
        Self::SignInit,
        Self::Sign,
        Self::GenerateKeyPair,
    ];

    fn word(self, part: u64) -> u64 {
        16 + 8 * self as u64 + part
    }
}

/// A PKCS #11 module for one test, which wraps SoftHSM, and its control words.
pub(crate) struct Shim {
    module: PathBuf,
    words: File,
}

impl Shim {
    /// Compiles the module into a directory. Needs `cc` and the header of p11-kit.
    pub(crate) fn build(directory: &Path) -> Self {
        let module = directory.join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/shim.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-I/usr/include/p11-kit-1"])
            .arg(format!("-DREAL=\"{MODULE}\""))
            .arg("-o")
            .args([&module, &source])
            .status()
            .expect("a C compiler; install gcc and libp11-kit-dev");
        assert!(compiled.success(), "install libp11-kit-dev");
        let control = directory.join("shim.so.control");
        let words = File::options().create(true).truncate(true).read(true).write(true).open(control).unwrap();
        words.set_len(WORDS * 8).unwrap();
        Self { module, words }
    }

    /// Returns the path for `hsm.module`.
    pub(crate) fn module(&self) -> &Path {
        &self.module
    }

    fn put(&self, word: u64, value: u64) {
        self.words.write_all_at(&value.to_le_bytes(), word * 8).unwrap();
    }

    fn word(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.words.read_exact_at(&mut bytes, word * 8).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Makes the next `times` calls of a function return `code` without calling the token.
    pub(crate) fn fail(&self, call: Call, code: u64, times: u64) {
        self.put(call.word(TIMES), 0);
        self.put(call.word(CODE), code);
        self.put(call.word(TIMES), times);
    }

    /// Delays each call of a function.
    pub(crate) fn delay(&self, call: Call, late: Duration) {
        self.put(call.word(LATE), u64::try_from(late.as_micros()).unwrap());
    }

    /// Makes the next `times` calls of a function hang until [`Self::release`].
    pub(crate) fn hang(&self, call: Call, times: u64) {
        self.put(call.word(HANG), times);
    }

    /// Resumes the calls that hang, and lets no further call hang.
    pub(crate) fn release(&self) {
        for call in Call::ALL {
            self.hang(call, 0);
        }
        self.put(RELEASED, self.word(RELEASED) + 1);
    }

    /// Returns the number of calls that hang now.
    pub(crate) fn hanging(&self) -> u64 {
        self.word(HANGING)
    }

    /// Removes the device: every call returns `code`. After the device is back, calls still return
    /// `code` until the module is initialized again. A module that is initialized in the meantime
    /// reports success and shows no token.
    pub(crate) fn vanish(&self, code: u64) {
        self.put(GONE, code);
    }

    /// Brings the device back.
    pub(crate) fn come_back(&self) {
        self.put(GONE, 0);
    }

    /// Makes the next `times` signatures well-formed, but over another digest.
    pub(crate) fn sign_wrongly(&self, times: u64) {
        self.put(WRONG, times);
    }

    /// Makes the next `times` searches find nothing, without an error.
    pub(crate) fn find_nothing(&self, times: u64) {
        self.put(EMPTY, times);
    }

    /// Sets whether a `C_Sign` that is made to fail leaves its operation active.
    pub(crate) fn leave_active(&self, active: bool) {
        self.put(UNDRAINED, u64::from(active));
    }

    /// Adds flags to the token information.
    pub(crate) fn flags(&self, flags: u64) {
        self.put(FLAGS, flags);
    }

    /// Limits the number of open sessions; 0 means no limit.
    pub(crate) fn most_sessions(&self, most: u64) {
        self.put(MOST, most);
    }

    /// Returns the number of open sessions.
    pub(crate) fn open_sessions(&self) -> u64 {
        self.word(OPEN)
    }

    /// Removes all injected faults and resumes the calls that hang.
    pub(crate) fn heal(&self) {
        for call in Call::ALL {
            self.put(call.word(TIMES), 0);
            self.put(call.word(LATE), 0);
        }
        for word in [GONE, WRONG, EMPTY, UNDRAINED, FLAGS, MOST] {
            self.put(word, 0);
        }
        self.release();
    }

    /// Returns how often a function was called. Calls that only query the length of a signature are
    /// not counted.
    pub(crate) fn calls(&self, call: Call) -> u64 {
        self.word(call.word(CALLS))
    }

    /// Panics if two threads used a session concurrently, or if the module was finalized during a
    /// call.
    pub(crate) fn assert_well_used(&self) {
        assert_eq!(self.word(SHARED), 0, "a session was used by two threads at once");
        assert_eq!(self.word(UNDER_CALL), 0, "the module was finalized under a call");
    }
}

/// Return values of a token for a signature, and the class that the signer must report for each.
pub(crate) const ANSWERS: [(&str, u64, &str); 33] = [
    ("CKR_HOST_MEMORY", 0x2, "device"),
    ("CKR_SLOT_ID_INVALID", 0x3, "device"),
    ("CKR_GENERAL_ERROR", 0x5, "device"),
    ("CKR_FUNCTION_FAILED", 0x6, "device"),
    ("CKR_ARGUMENTS_BAD", 0x7, "bug"),
    ("CKR_DATA_INVALID", 0x20, "bug"),
    ("CKR_DATA_LEN_RANGE", 0x21, "bug"),
    ("CKR_DEVICE_ERROR", 0x30, "device"),
    ("CKR_DEVICE_MEMORY", 0x31, "device"),
    ("CKR_DEVICE_REMOVED", 0x32, "device"),
    ("CKR_FUNCTION_CANCELED", 0x50, "session"),
    ("CKR_KEY_HANDLE_INVALID", 0x60, "login"),
    ("CKR_KEY_SIZE_RANGE", 0x62, "bug"),
    ("CKR_KEY_TYPE_INCONSISTENT", 0x63, "bug"),
    ("CKR_KEY_FUNCTION_NOT_PERMITTED", 0x68, "bug"),
    ("CKR_MECHANISM_INVALID", 0x70, "bug"),
    ("CKR_MECHANISM_PARAM_INVALID", 0x71, "bug"),
    ("CKR_OBJECT_HANDLE_INVALID", 0x82, "login"),
    ("CKR_OPERATION_ACTIVE", 0x90, "session"),
    ("CKR_OPERATION_NOT_INITIALIZED", 0x91, "session"),
    ("CKR_PIN_EXPIRED", 0xa3, "pin"),
    ("CKR_SESSION_CLOSED", 0xb0, "session"),
    ("CKR_SESSION_HANDLE_INVALID", 0xb3, "session"),
    ("CKR_TOKEN_NOT_PRESENT", 0xe0, "device"),
    ("CKR_TOKEN_NOT_RECOGNIZED", 0xe1, "device"),
    ("CKR_USER_NOT_LOGGED_IN", 0x101, "login"),
    ("CKR_USER_PIN_NOT_INITIALIZED", 0x102, "pin"),
    ("CKR_BUFFER_TOO_SMALL", 0x150, "session"),
    ("CKR_CRYPTOKI_NOT_INITIALIZED", 0x190, "device"),
    ("CKR_FUNCTION_REJECTED", 0x200, "device"),
    ("an unknown code", 0x7777, "device"),
    ("a vendor's code", 0x8000_0001, "device"),
    ("another vendor's code", 0xffff_ffff, "device"),
];
