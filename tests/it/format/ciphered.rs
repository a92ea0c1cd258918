//! Golden bytes of encrypted files, and of a backup: built from docs/format.md, with the ciphers in
//! tests/decoder, and not by the codecs. They must not be adapted to make a test pass: other bytes
//! are another version of the format.

use bytes::Bytes;
use sessionlog::{
    event::Timestamp,
    log::{
        Cipher, Encryptor, Frame, KeyNumber, Nonce, SettledIndex, StoreFile, StoreKeys,
        decode_settled, encode_delta,
        keyring::{KeySlot, MasterKey, OwnKey, TenantTag, check_keys_header, keys_header},
        manifest::{FileHasher, Manifest},
        seal::{SealedTables, seal},
        segment::SegmentHeader,
        settled_header,
    },
};
use sessionlog_sim::Sim;

use super::{
    layouts::{self, SALT, STORE_ID, hex, unhex},
    sealed,
};

const CREATED_AT: i64 = 1_767_225_600_000_005;
const NUMBER: KeyNumber = KeyNumber(0x0102);
const NONCE: Nonce = [0x78; 24];

/// The file `STORE` during a rotation.
const STORE: &[&str] = &[
    "534c53544f52453101000000c65ee25d61616161616161616161616161616161",
    "05402046484706000100000000000000dbbe908cb73755fa2a8c8f01014bd56f",
    "756b86792fa46ad3747474747474747474747474747474747474747474747474",
    "937478c062dd79377d49c43be220850b7fe3ceccdfb683fd65c2e098e5170528",
    "0aeea71fad5e9956d09362df9a050f05e8df824ddd3dda76b61894d75b9529fc",
    "3d45830c38f7b2d5757575757575757575757575757575757575757575757575",
    "49f4eec10a1de977371ada854603210a4003c8ac742613fe5584d87fa1b468c2",
    "174cdf9615e4b88223d9f405140814e100000000000000000000000000000000",
];

/// The header of a keys file.
const KEYS: &[&str] = &[
    "534c4b455953303101000000f7dac5fa61616161616161616161616161616161",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

/// The slot of a key.
const SLOT: &[&str] = &[
    "67cc48aa010000000201000000000000229bc0a358f048a41d53cd027816c2ba",
    "dbbe908cb73755fa777777777777777777777777777777777777777777777777",
    "4e904dd2bafc647e727a360ead05ab93c2283445c152d4b7196c23f74f613beb",
    "d4e91270be8f2f73e8ad8593bd49559f00000000000000000000000000000000",
];

/// The same slot, its key destroyed.
const DESTROYED: &[&str] = &[
    "b9fd6abe02000000020100000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

/// The request frame of `layouts`, encrypted under that key.
const FRAME: &[&str] = &[
    "170000004a966c49a14397530101000122000000210000000201000000000000",
    "7878787878787878787878787878787878787878787878783100000000000000",
    "3200000000000000330000000000000041414141414141414141414141414141",
    "4141414141414141414141414141414142424242424242424242424242424242",
    "4242424242424242424242424242424243434343434343434343434343434343",
    "4343434343434343434343434343434300000000000000000000000000000000",
    "c08c1d667bc42dc2bd3df135ea073d73bcb25c907512ff00",
];

/// The header of a settled file.
const SETTLED: &[&str] = &[
    "534c534554544c31040000003987a82d61616161616161616161616161616161",
    "0807060504030201040000000100000000000000000000000000000000000000",
];

/// The generation without entries of `layouts`, encrypted under the store's own key.
const CHUNK: &[&str] = &[
    "3800000047d9c7ac050000000000000079797979797979797979797979797979",
    "797979797979797928c598ddee9897cc4ae1bfd4a20dece462be9c9ad853ba08",
    "0a9a4847e38b0058",
];

/// The sealed segment of `sealed`, its block and its tables encrypted under that key.
const SEALED: &[&str] = &[
    "534c5345474d5431010000009ffe644761616161616161616161616161616161",
    "08070605040302013f3af1ecebbd1410ab417ec0d27bbfcb5d340e177ae159b5",
    "9fc8626c2dfd91750500000000000000030000000000000061482f1b7d5e3c1a",
    "9414886b1ebf025db067a4cbd13a0903fbd9733a5372bba1b58bd72c1699b798",
    "0fcd568a5cb9bdb4677b69354b11ee415af8f784519cff3da49a26f84eaee7f2",
    "0101000000000000020100000000000000000000000000000000000000000000",
    "a00000006e4552de25f144770302000102000000010000000201000000000000",
    "78787878787878787878787878787878787878787878787861482f1b7d5e3c1a",
    "61482f1b7d5e3c1a05000000000000003f3af1ecebbd1410ab417ec0d27bbfcb",
    "5d340e177ae159b59fc8626c2dfd91759414886b1ebf025db067a4cbd13a0903",
    "fbd9733a5372bba1b58bd72c1699b7980fcd568a5cb9bdb4677b69354b11ee41",
    "5af8f784519cff3da49a26f84eaee7f200000000000000000000000000000000",
    "4d8c2c250fd8171384b25b8e2bb0c72ba425c3c87b1c15294c079970532d8117",
    "e8ad425329690d3646af0601de4f475e952eb37f750a2a6d723ebce739cca44a",
    "f8d9e16e99e82044378b65730a8d34cfdb08565a62dd0b44ea0d8102bca878ec",
    "ab4c44f9267555a01036a025970ce2bd2a5ea4f350c2a8aa5dde2e01a912256b",
    "848793953d34c49c4c7febb99b1cc7a5106ca3bf779fa0d2c76cba7f7c5b8e5c",
    "78787878787878787878787878787878787878787878787870ed640a14a5492f",
    "9b4f72128d1b410b907cedc107422933b855397697fa091b8851e442f75885c0",
    "42af0a74ad2a3570f9b6789d0bd357e8613ebfb448dbbc62c0d2c98adf8c9d84",
    "1519a4f5b0cc071cc5492afe914e580c0759f19e8f95394c5fa74354eb572029",
    "91741799efc98fea1b534c5345414c46314d64435e0200000001000000000000",
    "0000000000000000002002000000000000500200000000000050020000000000",
    "0006000000000000008ae4d5c6037f912b020000000000000073a61a0a1d9df2",
    "a3f14db7c4e6541cee9c41129a1881e905dd7c091c45329c827afca9cf192178",
    "0bb50e79877792ab28231a17bf5e8d9bbeaba2f642b281d6756ad3b4fd000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "000000000000000000",
];

/// The file `BACKUP` of two files.
const BACKUP: &[&str] = &[
    "sessionlog backup 1\n",
    "store 61616161616161616161616161616161\n",
    "at 1767225600000005\n",
    "sessions 3\n",
    "key dbbe908cb73755fa\n",
    "file 7e52aeb0d161c90714aca8a001c01e65c6ecdaf288681e4ba3d98f418259c175 10 journal/0\n",
    "file af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262 0 journal/1\n",
    "end 1bb6487d16dd9a58db15de94ded083b221862dd69b309b3a6e5d8abe2c97343e\n",
];

/// Returns the current master key.
fn master() -> MasterKey {
    MasterKey::new(&[0x72; 32])
}

/// Returns the key of the store.
fn own() -> OwnKey {
    OwnKey::new([0x71; 32], STORE_ID, CREATED_AT)
}

/// Returns the key of the session.
fn cipher() -> Cipher {
    Cipher::new(&[0x76; 32], STORE_ID, NUMBER)
}

#[test]
fn a_store_file_and_its_keys_are_laid_out_as_documented() {
    let previous = MasterKey::new(&[0x73; 32]);
    let current = master().wrap_own(&own(), [0x74; 24]);
    let keys = StoreKeys { current, previous: Some(previous.wrap_own(&own(), [0x75; 24])) };
    let store = StoreFile { id: STORE_ID, created_at: CREATED_AT, keys: Some(keys) };
    assert_eq!(hex(&store.encode()), STORE);
    assert_eq!(StoreFile::decode(&unhex(STORE)), Ok(store));
    let alone = StoreFile { keys: Some(StoreKeys { previous: None, ..keys }), ..store };
    assert_eq!(StoreFile::decode(&alone.encode()), Ok(alone));
    assert_eq!(
        (&alone.encode()[16..144], &alone.encode()[144..]),
        (&unhex(STORE)[16..144], &[0; 112][..])
    );
    // Both master keys unwrap the same one.
    for (master, stored) in [(master(), keys.current), (previous, keys.previous.unwrap())] {
        let opened = master.unwrap_own(STORE_ID, CREATED_AT, &stored).unwrap();
        assert_eq!(opened.tenant_tag("acme"), own().tenant_tag("acme"));
    }

    assert_eq!(hex(&keys_header(STORE_ID)), KEYS);
    assert_eq!(check_keys_header(STORE_ID, &unhex(KEYS)), Ok(()));
    let tag = own().tenant_tag("acme");
    assert_eq!(tag, TenantTag(unhex(SLOT)[16..32].try_into().unwrap()));
    let wrapped = master().wrap(STORE_ID, NUMBER, tag, &[0x76; 32], [0x77; 24]);
    for (slot, golden) in [(KeySlot::Key(wrapped), SLOT), (KeySlot::Destroyed, DESTROYED)] {
        assert_eq!(hex(&slot.encode(NUMBER)), golden);
        assert_eq!(KeySlot::decode(NUMBER, &unhex(golden)), Ok(slot));
    }
    assert_eq!(*master().unwrap(STORE_ID, &wrapped).unwrap(), [0x76; 32]);
}

#[test]
fn an_encrypted_frame_is_laid_out_as_documented() {
    let plain = Frame::read(SALT, &unhex(layouts::FRAME)).unwrap();
    let encrypted = plain.encrypt(Encryptor { cipher: &cipher(), nonce: &|| NONCE });
    let mut written = Vec::new();
    encrypted.header.write(SALT, &encrypted.payload, &mut written);
    assert_eq!(hex(&written), FRAME);
    let read = Frame::read(SALT, &unhex(FRAME)).unwrap().decrypt(Some(&cipher())).unwrap();
    assert_eq!((read.header, read.payload), (plain.header, plain.payload));
}

#[test]
fn an_encrypted_settled_file_is_laid_out_as_documented() {
    let plain = [unhex(layouts::SETTLED), unhex(layouts::EMPTY_CHUNK)].concat();
    let last = decode_settled(STORE_ID, &plain.into()).unwrap().0.last.unwrap();
    let own = own().cipher();
    let encryptor = Encryptor { cipher: &own, nonce: &|| [0x79; 24] };
    assert_eq!(hex(&settled_header(STORE_ID, SALT, true)), SETTLED);
    assert_eq!(hex(&encode_delta((SALT, 64), 5, &last, Some(encryptor))), CHUNK);
    let whole = Bytes::from([unhex(SETTLED), unhex(CHUNK)].concat());
    let end = whole.len() as u64;
    let source = |from: u64, to: u64| Ok(whole.slice(from.min(end) as usize..to.min(end) as usize));
    let read = SettledIndex::read(STORE_ID, Some(&own), &source).unwrap();
    assert_eq!((read.generation, read.last), (5, Some(last)));
}

#[test]
fn an_encrypted_sealed_segment_is_laid_out_as_documented() {
    let (plain, golden) = (unhex(sealed::COLUMNS), unhex(SEALED));
    let records = Frame::read(SALT, &plain.slice(192..)).unwrap().records().unwrap();
    let header = SegmentHeader { key: Some(NUMBER), ..SegmentHeader::decode(&plain).unwrap() };
    assert_eq!(SegmentHeader::decode(&golden), Ok(header));
    let (cipher, time) = (cipher(), Timestamp(1_767_225_600_000_000));
    let encryptor = Encryptor { cipher: &cipher, nonce: &|| NONCE };
    assert_eq!(hex(&seal(header, &records, Vec::new(), time, true, Some(encryptor))), SEALED);

    let frame = Frame::read(SALT, &golden.slice(192..)).unwrap().decrypt(Some(&cipher)).unwrap();
    assert_eq!(frame.records().unwrap(), records);
    let sim = Sim::new(1);
    sim.write_durable("one.sealed", 0, &golden);
    let file = sim.env().storage.open_read("one.sealed").unwrap();
    let read = SealedTables::read(&*file, &header, golden.len() as u64, Some(&cipher)).unwrap();
    assert_eq!((read.batches.len(), read.index[0].stride, read.index[0].count), (1, 352, 2));
}

#[test]
fn the_manifest_of_a_backup_is_laid_out_as_documented() {
    let mut some = FileHasher::default();
    some.update(b"some bytes");
    let files = vec![some.entry("journal/0"), FileHasher::default().entry("journal/1")];
    let key = Some(master().id());
    let manifest = Manifest { store: STORE_ID, at: CREATED_AT, sessions: 3, key, files };
    let golden = BACKUP.concat();
    assert_eq!(manifest.encode(), golden);
    assert_eq!(Manifest::decode(&golden), Ok(manifest));
    assert_eq!(Manifest::placeholder(), BACKUP[0]);
}
