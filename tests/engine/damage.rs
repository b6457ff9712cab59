//! Single bit flips while the store is closed: it opens with all saved data, or not at all.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealgate_store::engine::{Changes, Engine};
use sealgate_store::sled::{OpenError, SledEngine};

use crate::{BARRIERS, Place, commit, delete, put, store};

/// Returns offsets all over a file, and all of its last nonzero bytes.
fn places(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    let (step, near) = ((end / 16).max(1), end.saturating_sub(20));
    (0..near).step_by(usize::try_from(step).unwrap()).chain(near..end).collect()
}

fn flip(file: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
}

fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

async fn filled(place: &Place) -> Vec<(Vec<u8>, Vec<u8>)> {
    let engine = place.open();
    for number in 0..40_u8 {
        commit(&engine, put(&[b'a', number], &[number; 200])).await;
    }
    // Split, removed, overwritten and batched records.
    commit(&engine, put(b"long", &[9; 5_000])).await;
    commit(&engine, delete(&[b'a', 3])).await;
    let put = (0..5_u8).map(|number| (vec![b'b', number], vec![number; 50])).collect();
    commit(&engine, Changes { put, ..Changes::default() }).await;
    commit(&engine, crate::put(&[b'a', 1], b"revoked")).await;
    engine.scan(b"", None, 1_000).await.unwrap()
}

#[tokio::test]
async fn every_flipped_bit_is_detected() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let saved = filled(&place).await;
    let whole = place.directory.path().join("whole");
    copy(&place.path(), &whole);
    let files: Vec<PathBuf> = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files = files.iter().filter(|file| file.is_file() && !file.ends_with("lock"));
    let (mut refused, mut opened) = (0, 0);
    for file in files {
        for at in places(file) {
            fs::remove_dir_all(place.path()).unwrap();
            copy(&whole, &place.path());
            let name = file.file_name().unwrap();
            flip(&place.path().join(name), at);
            match SledEngine::open(&store(&place.path(), 16), Arc::new(())) {
                Ok(engine) => {
                    assert!(engine.scan(b"", None, 1_000).await.unwrap() == saved, "{name:?}, byte {at}");
                    opened += 1;
                }
                Err(OpenError::Lost { .. } | OpenError::Damaged { .. } | OpenError::Foreign { .. }) => refused += 1,
                Err(error) => panic!("{name:?}, byte {at}: {error}"),
            }
        }
    }
    println!("{refused} refused, {opened} opened with everything");
    assert!(refused > 30 && opened > 0, "{refused} {opened}");
}

/// A complete older file replaces a newer one: each part is consistent by itself.
#[tokio::test]
async fn an_earlier_state_of_the_files_is_detected() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    filled(&place).await;
    let earlier = place.directory.path().join("earlier");
    copy(&place.path(), &earlier);
    let engine = place.open();
    commit(&engine, delete(&[b'a', 1])).await;
    drop(engine);
    let watermark = place.directory.path().join("watermark");
    fs::copy(place.path().join("watermark"), &watermark).unwrap();
    fs::remove_dir_all(place.path()).unwrap();
    copy(&earlier, &place.path());
    drop(place.open());
    fs::copy(&watermark, place.path().join("watermark")).unwrap();
    let refused = SledEngine::open(&store(&place.path(), 16), Arc::new(())).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Lost { .. }), "{refused}");
    assert!(refused.to_string().contains("its newest change is number 44, but number 45 was committed"), "{refused}");
    // A completely missing store must not be treated as a new one.
    for entry in fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            fs::remove_dir_all(entry).unwrap();
        } else if !entry.ends_with("watermark") {
            fs::remove_file(entry).unwrap();
        }
    }
    let refused = SledEngine::open(&store(&place.path(), 16), Arc::new(())).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("its newest change is number 0, but number 45 was committed"), "{refused}");
}
