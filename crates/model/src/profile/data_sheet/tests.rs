//! Tests of profiles from data sheets.

use super::*;
use crate::mapping::MappingScheme;

fn sheet() -> DataSheet {
    DataSheet {
        name: "A drive".to_owned(),
        capacity: ByteLength::new(960_000_000_000),
        flash: None,
        kind: FlashKind::Tlc,
        unit: None,
        interface: Interface::Nvme,
        sequential_read: 6_500.0,
        sequential_write: 1_500.0,
        random_read: 580_000.0,
        random_write: Some(70_000.0),
        read_latency: None,
        write_latency: None,
        protected: true,
        cache: None,
        endurance: None,
        map_ram: None,
    }
}

fn amplification(sheet: &DataSheet) -> f64 {
    let text = sheet.profile().unwrap_or_else(|error| panic!("{error}"));
    let profile = Profile::parse("it", "it", &text).expect("it was checked");
    profile.configuration().unwrap().expectation().expect("a closed form").write_amplification
}

#[test]
fn fewer_random_writes_are_less_over_provisioning() {
    let with = |rate| amplification(&DataSheet { random_write: Some(rate), ..sheet() });
    let (slow, fast) = (with(50_000.0), with(100_000.0));
    assert!((4.5..7.0).contains(&slow) && (2.2..3.5).contains(&fast), "{slow}, {fast}");
}

#[test]
fn drives_of_all_kinds_and_sizes_come_out() {
    for kind in [FlashKind::Slc, FlashKind::Mlc, FlashKind::Tlc, FlashKind::Qlc] {
        for gigabytes in [32, 120, 480, 4_000, 15_360] {
            for interface in [Interface::Sata, Interface::Nvme] {
                let (sequential_read, sequential_write, random_read) = match interface {
                    Interface::Sata => (550.0, 500.0, 90_000.0),
                    Interface::Nvme => (6_500.0, 1_500.0, 580_000.0),
                };
                let sheet = DataSheet {
                    kind,
                    interface,
                    sequential_read,
                    sequential_write,
                    random_read,
                    capacity: ByteLength::new(gigabytes * 1_000_000_000),
                    random_write: None,
                    protected: false,
                    ..sheet()
                };
                sheet.profile().unwrap_or_else(|error| panic!("{kind:?} {gigabytes}: {error}"));
            }
        }
    }
}

#[test]
fn a_large_mapping_unit_explains_few_random_writes() {
    let large = DataSheet {
        capacity: ByteLength::new(15_360_000_000_000),
        kind: FlashKind::Qlc,
        sequential_write: 3_200.0,
        random_write: Some(7_800.0),
        ..sheet()
    };
    let without = large.profile().unwrap_err().to_string();
    assert!(without.contains("mapping unit"), "{without}");
    let with = DataSheet { unit: Some(KIB * 64), ..large.clone() };
    let found = amplification(&with);
    assert!((4.5..6.5).contains(&found), "{found}");
    let profile = Profile::parse("it", "it", &with.profile().unwrap()).unwrap();
    let geometry = profile.configuration().unwrap().geometry;
    assert_eq!((geometry.unit_size(), geometry.units_per_page()), (KIB * 64, 1));
    for unit in [KIB * 2, KIB * 48, KIB * 128] {
        let wrong = DataSheet { unit: Some(unit), ..large.clone() };
        assert!(wrong.profile().unwrap_err().to_string().contains("is no mapping unit"));
    }
}

#[test]
fn a_name_is_one_line_of_the_profile() {
    let named = DataSheet { name: "a\n[flash]\t\"drive\" \\".to_owned(), ..sheet() };
    let text = named.profile().unwrap();
    assert!(text.starts_with("# a [flash] 'drive' '."), "{text}");
}

#[test]
fn a_cache_is_written_at_its_rate() {
    let cache = RatedCache { size: GIB * 40, mb_per_second: 5_000.0 };
    let sheet = DataSheet { random_write: None, cache: Some(cache), ..sheet() };
    let profile = Profile::parse("it", "it", &sheet.profile().unwrap()).unwrap();
    assert!(profile.configuration().unwrap().mechanisms.slc.is_some());
}

fn made(sheet: &DataSheet) -> crate::Configuration {
    let text = sheet.profile().unwrap_or_else(|error| panic!("{error}"));
    Profile::parse("it", "it", &text).expect("it was checked").configuration().unwrap()
}

#[test]
fn endurance_says_how_often_a_block_is_erased() {
    let day = ByteLength::new(960_000_000_000);
    let rated = |days| {
        let sheet = DataSheet { endurance: Some(day * days), ..sheet() };
        made(&sheet).mechanisms.wear.pe_cycles.expect("it is rated")
    };
    // One drive write per day for five years, with 1.15 times the capacity as flash and a write amplification of 4.3.
    let once = rated(1825);
    assert!((6_000..8_000).contains(&once), "{once}");
    assert!(rated(3 * 1825).abs_diff(3 * once) < 3);
    assert_eq!(made(&sheet()).mechanisms.wear.pe_cycles, None);
    // The same holds with a cache, for which theory has no closed form.
    let cache = Some(RatedCache { size: GIB * 40, mb_per_second: 5_000.0 });
    let cached = DataSheet { random_write: None, cache, endurance: Some(day * 600), ..sheet() };
    assert!(made(&cached).mechanisms.wear.pe_cycles.is_some_and(|it| it > 600));
}

#[test]
fn a_drive_with_little_memory_has_its_map_on_flash() {
    let with = |map_ram| made(&DataSheet { map_ram, ..sheet() }).mechanisms;
    let page = with(None);
    assert_eq!(with(Some(MapRam::Own(GIB))), page, "960 MB are enough");
    let host = with(Some(MapRam::Host(MIB * 64)));
    assert_eq!((host.mapping, host.map_cache_pages), (MappingScheme::Cached, 16 * 1024));
    assert_eq!(host.map_cache_read, Nanoseconds::from_micros(1));
    let own = with(Some(MapRam::Own(MIB)));
    assert_eq!((own.map_cache_pages, own.map_cache_read), (256, Nanoseconds::ZERO));
}

#[test]
fn figures_that_contradict_each_other_are_refused() {
    let refused = |sheet: DataSheet| sheet.profile().unwrap_err().to_string();
    let cached = refused(DataSheet { random_write: Some(400_000.0), ..sheet() });
    assert!(cached.contains("Leave the rated random writes out"), "{cached}");
    let none = refused(DataSheet { flash: Some(GIB * 800), ..sheet() });
    assert!(none.contains("leaves no over-provisioning"), "{none}");
    let worn = refused(DataSheet { endurance: Some(GIB), ..sheet() });
    assert!(worn.contains("1 GiB is 0.0 erases of each block: it must be 1 to 200000"), "{worn}");
    let small = refused(DataSheet { capacity: ByteLength::new(960), ..sheet() });
    assert!(small.contains("960 B is no capacity of a drive"), "{small}");
    let sata = refused(DataSheet { interface: Interface::Sata, ..sheet() });
    assert!(sata.contains("more than SATA can transfer (600 MB/s)"), "{sata}");
    let random = refused(DataSheet { random_read: 2e6, ..sheet() });
    assert!(random.contains("2000000 random reads a second of 4 KiB are 8192 MB/s"), "{random}");
    let cache = Some(RatedCache { size: GIB * 16, mb_per_second: 100.0 });
    let slow = refused(DataSheet { cache, ..sheet() });
    assert!(slow.contains("slower than the"), "{slow}");
    let flash = Some(GIB * 940);
    let few = refused(DataSheet { flash, random_write: Some(150_000.0), ..sheet() });
    assert!(few.contains("leave one of the two out"), "{few}");
    let wrong = refused(DataSheet { sequential_write: 0.0, ..sheet() });
    assert!(wrong.contains("is no rate of sequential writes"), "{wrong}");
}

#[test]
fn a_sensing_time_that_no_flash_has_is_not_said_to_follow_from_the_rated_latencies() {
    let page_read = |read: u64| {
        let sheet = DataSheet {
            read_latency: Some(Nanoseconds::from_micros(read)),
            write_latency: Some(Nanoseconds::from_micros(20)),
            ..sheet()
        };
        let text = sheet.profile().unwrap_or_else(|error| panic!("{error}"));
        text.lines().find(|line| line.starts_with("page_read")).expect("it has one").to_owned()
    };
    let plausible = page_read(85);
    assert!(
        plausible.contains("fitted") && plausible.contains("rated latencies of"),
        "{plausible}"
    );
    let odd = page_read(400);
    assert!(odd.contains("assumed") && odd.contains("implausible for TLC"), "{odd}");
}
