//! How a new password becomes its hash: on the server's threads for passwords, or here and now.

use async_trait::async_trait;
use secrecy::SecretString;

use crate::domain::secret::Secret;
use crate::domain::user::PasswordHash;
use crate::password::{PasswordError, Passwords, hash_blocking};

/// Hashes new passwords.
#[async_trait]
pub trait HashPassword: Send + Sync {
    /// The password's hash, with this salt.
    ///
    /// # Errors
    /// When it is too long, or the threads have too much to do.
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError>;
}

#[async_trait]
impl HashPassword for Passwords {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        Self::hash(self, SecretString::from(password.expose()), salt).await
    }
}

/// Hashes on the calling thread, for a process that does nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnThisThread;

#[async_trait]
impl HashPassword for OnThisThread {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        hash_blocking(&SecretString::from(password.expose()), salt)
    }
}
