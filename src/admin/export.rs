//! Export and import of a store as lines of JSON.
//!
//! The first line identifies the format. The last line contains the number of records, and the
//! SHA-256 of all lines before it. The number and the digest reveal truncated or changed files.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use sealgate_domain::time::UnixTime;
use sealgate_store::{ExportRecord, Position, Store, StoreError, export_format};

/// Maximum length of a line, in bytes: several times that of the longest record.
const MAX_LINE_LENGTH: u64 = 2 << 20;
/// Number of records that are imported at once.
const PAGE: usize = 64;
/// Identifier in the first line.
const KIND: &str = "sealgate-export";

/// Reason why a store was not exported or imported: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The store failed, or a record is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is not an export.
    #[error("the file is not an export of sealgate")]
    Foreign,
    /// The file was written by a newer program.
    #[error(
        "the export has format {format}, and this version reads up to {}; use the version of sealgate that \
         wrote it, or a newer one",
        export_format()
    )]
    Newer {
        /// Format of the file.
        format: u32,
    },
    #[error(
        "the file is an export of the issuer {issuer}; write that issuer into the configuration, or give --issuer \
         {issuer} to import it anyway"
    )]
    OtherInstance { issuer: String },
    #[error("the export is truncated after {lines} lines; nothing was imported, export again")]
    CutOff { lines: usize },
    /// The file is complete, but its digest is not the expected one.
    #[error("the file's SHA-256 is {sha256}, which differs from --sha256; nothing was imported")]
    OtherFile { sha256: String },
    /// The file was changed after it was written.
    #[error("the export was altered or damaged (line {line}); nothing was imported, export again")]
    Altered { line: usize },
}

#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    format: u32,
    instance: String,
    exported_at: UnixTime,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    records: usize,
    sha256: String,
}

/// Writes all records of a store, and returns their number.
///
/// The store must not change meanwhile. `instance` is the issuer to which the records belong.
///
/// # Errors
/// `File`, `Store`.
pub async fn export(
    store: &Store,
    instance: &str,
    now: UnixTime,
    file: &mut (impl Write + Send),
) -> Result<usize, ExportError> {
    let mut file = DigestWriter { file, digest: Sha256::new() };
    // Write the store's format, which may be older than the program's. While nodes of two versions
    // serve the store, the previous version must be able to import the file.
    let format = store.newest_format().await?;
    let header = Header { kind: KIND.to_owned(), format, instance: instance.to_owned(), exported_at: now };
    file.write_line(&header)?;
    let (mut records, mut position) = (0, Position::default());
    while let Some((page, next)) = store.export(&position).await? {
        for record in &page {
            file.write_line(record)?;
        }
        records += page.len();
        position = next;
    }
    let sha256 = hex(&file.digest.clone().finalize());
    file.write_line(&Trailer { records, sha256 })?;
    file.file.flush()?;
    Ok(records)
}

/// Imports all records of an export into a store, and returns their number.
///
/// The records before an error remain in the store. Import into a store under construction, and
/// discard this store on failure. `instance` is the issuer that the export must name.
pub async fn import(store: &Store, instance: &str, file: &mut (impl BufRead + Send)) -> Result<usize, ExportError> {
    let mut lines = Lines { file, line: Vec::new(), read: 0 };
    let mut digest = Sha256::new();
    if !lines.advance()? {
        return Err(ExportError::Foreign);
    }
    let header: Header = serde_json::from_slice(&lines.line).map_err(|_| ExportError::Foreign)?;
    digest.update(&lines.line);
    if header.kind != KIND {
        return Err(ExportError::Foreign);
    }
    if header.format > export_format() {
        return Err(ExportError::Newer { format: header.format });
    }
    if header.instance != instance {
        return Err(ExportError::OtherInstance { issuer: header.instance });
    }
    let (mut records, mut waiting) = (0, Vec::with_capacity(PAGE));
    loop {
        if !lines.advance()? {
            return Err(ExportError::CutOff { lines: lines.read });
        }
        if let Ok(record) = serde_json::from_slice::<ExportRecord>(&lines.line) {
            digest.update(&lines.line);
            waiting.push(record);
            records += 1;
            if waiting.len() == PAGE {
                store.import(&waiting).await?;
                waiting.clear();
            }
            continue;
        }
        let altered = ExportError::Altered { line: lines.read };
        let Ok(trailer) = serde_json::from_slice::<Trailer>(&lines.line) else { return Err(altered) };
        if trailer.records != records || trailer.sha256 != hex(&digest.finalize()) {
            return Err(altered);
        }
        if lines.advance()? || !lines.line.is_empty() {
            return Err(altered);
        }
        store.import(&waiting).await?;
        return Ok(records);
    }
}

/// Writes lines and computes their digest.
struct DigestWriter<'a, W> {
    file: &'a mut W,
    digest: Sha256,
}

impl<W: Write> DigestWriter<'_, W> {
    fn write_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.digest.update(&line);
        self.file.write_all(&line)
    }
}

/// Reads whole lines of a bounded length.
struct Lines<'a, R> {
    file: &'a mut R,
    line: Vec<u8>,
    read: usize,
}

impl<R: BufRead> Lines<'_, R> {
    /// Reads the next line, including its end. Returns false if the file ends or the line is
    /// incomplete.
    fn advance(&mut self) -> Result<bool, ExportError> {
        self.line.clear();
        self.file.take(MAX_LINE_LENGTH).read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            if self.line.len() as u64 == MAX_LINE_LENGTH {
                return Err(ExportError::Altered { line: self.read + 1 });
            }
            return Ok(false);
        }
        self.read += 1;
        Ok(true)
    }
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sealgate_store::memory::MemoryEngine;

    const HERE: &str = "https://id.example.test";

    async fn store() -> Store {
        Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap()
    }

    async fn exported() -> Vec<u8> {
        let store = store().await;
        for number in 0..200 {
            store.revoke_token(&format!("token {number}"), UnixTime::from_seconds(1_000_000)).await.unwrap();
        }
        let mut file = Vec::new();
        assert_eq!(export(&store, HERE, UnixTime::from_seconds(1), &mut file).await.unwrap(), 400);
        file
    }

    #[tokio::test]
    async fn an_import_restores_the_exported_records() {
        let (file, other) = (exported().await, store().await);
        assert_eq!(import(&other, HERE, &mut file.as_slice()).await.unwrap(), 400);
        assert!(other.is_token_revoked("token 7").await.unwrap());
        let mut again = Vec::new();
        export(&other, HERE, UnixTime::from_seconds(1), &mut again).await.unwrap();
        assert_eq!(again, file);
    }

    #[tokio::test]
    async fn a_truncated_file_is_refused() {
        let file = exported().await;
        for length in (0..file.len()).step_by(97).chain([file.len() - 1]) {
            assert!(import(&store().await, HERE, &mut &file[..length]).await.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn a_file_with_one_bit_changed_anywhere_is_refused() {
        let file = exported().await;
        for at in (0..file.len()).step_by(101) {
            let mut altered = file.clone();
            altered[at] ^= 1;
            assert!(import(&store().await, HERE, &mut altered.as_slice()).await.is_err(), "{at}");
        }
    }

    #[tokio::test]
    async fn removed_and_added_lines_are_refused() {
        let file = String::from_utf8(exported().await).unwrap();
        let lines: Vec<&str> = file.lines().collect();
        let without = lines.iter().enumerate().filter(|&(number, _)| number != 5).map(|(_, line)| *line);
        let without = without.collect::<Vec<_>>().join("\n") + "\n";
        let result = import(&store().await, HERE, &mut without.as_bytes()).await;
        assert!(matches!(result, Err(ExportError::Altered { .. })));
        let longer = format!("{file}{}\n", lines[5]);
        let result = import(&store().await, HERE, &mut longer.as_bytes()).await;
        assert!(matches!(result, Err(ExportError::Altered { .. })));
    }

    #[tokio::test]
    async fn an_export_of_another_issuer_is_refused() {
        let file = exported().await;
        let result = import(&store().await, "https://other.example.test", &mut file.as_slice()).await;
        assert!(matches!(result, Err(ExportError::OtherInstance { issuer }) if issuer == HERE));
    }
}
