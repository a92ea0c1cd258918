//! Reading around unreadable sectors.

use sessionlog::log::reading::read_with_holes;
use sessionlog_sim::Sim;

#[test]
fn the_page_of_an_unreadable_sector_is_reported_missing_not_zero_filled() {
    let sim = Sim::new(1);
    let whole: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    sim.write_durable("f", 0, &whole);
    // A sector of the second page, and one of the last page, which is partial.
    sim.spoil_sector("f", 9);
    sim.spoil_sector("f", 36);
    let file = sim.env().storage.open_read("f").unwrap();
    for (from, to) in [(0, 20_000), (0, 4096), (100, 5000), (5119, 16_384), (17_000, 30_000)] {
        let found = read_with_holes(&*file, from, to).unwrap();
        let expected = &whole[from as usize..to.min(20_000) as usize];
        assert_eq!(found.bytes.len(), expected.len(), "[{from}, {to})");
        for (at, (byte, was)) in (from..).zip(found.bytes.iter().zip(expected)) {
            let gone = (4096..8192).contains(&at) || at >= 16_384;
            assert!(!gone || *byte != 0, "byte {at}");
            assert_eq!(*byte, if gone { *byte } else { *was }, "byte {at}");
            assert_eq!(found.holes.overlaps(at, at + 1), gone, "byte {at}");
        }
    }
    let found = read_with_holes(&*file, 8192, 16_384).unwrap();
    assert!(!found.holes.overlaps(0, 20_000), "nothing else was asked for");
}
