//! A mapped derived file that is truncated under readers: the process must survive.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use sessionlog::{
    env::Env,
    store::{
        StoreError,
        local::{LocalStore, StoreOptions},
    },
};

use super::machine::eventually;

const BYTES: usize = 1 << 20;

/// The readers are threads of this process: a fatal signal would end the test.
#[test]
fn truncating_a_mapped_file_under_readers_marks_it_damaged_without_a_crash() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let store = LocalStore::open(&Env::open(&data).unwrap(), StoreOptions::default()).unwrap();
        let put = |byte: u8| {
            let store = &store;
            async move { store.put_derived(b"", Vec::new(), &vec![byte; BYTES]).await.unwrap() }
        };
        let (name, whole) = (put(7).await, put(8).await);
        let path = |name| data.join(format!("derived/{name}"));
        let open = store.open_derived(name).unwrap();
        assert!(!open.is_copy() && !open.has_read_error(), "it is mapped");
        let started = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let sum = || open.bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>();
                        while sum() == 7 * BYTES as u64 {
                            assert!(!open.has_read_error());
                            started.store(true, Ordering::Release);
                        }
                        assert!(open.has_read_error(), "a reader of zeros can know it");
                    })
                })
                .collect();
            eventually("a reader", || started.load(Ordering::Acquire).then_some(()));
            fs::File::options().write(true).open(path(name)).unwrap().set_len(8192).unwrap();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        assert_eq!(open.bytes().len(), BYTES);
        drop(open);
        let lost = store.open_derived(name).map(drop);
        assert!(matches!(lost, Err(StoreError::DerivedLost { .. })), "{lost:?}");
        assert!(!path(name).exists(), "it is taken away");
        assert_eq!(store.open_derived(whole).unwrap().bytes(), vec![8; BYTES]);
        let linked = home.path().join("linked");
        fs::hard_link(path(whole), &linked).unwrap();
        store.close().await;
        drop(store);
        let store = LocalStore::open(&Env::open(&data).unwrap(), StoreOptions::default()).unwrap();
        let lost = store.open_derived(whole).map(drop);
        assert!(matches!(lost, Err(StoreError::DerivedLost { .. })), "another name: {lost:?}");
        store.close().await;
    });
}
