//! Profiles made from data sheets alone, against what others measured of the drives (SSD-iq: Haas et al., PVLDB 18).

use ssdlab_lab::experiment::{self, NullWatcher};
use ssdlab_lab::quick::quick;
use ssdlab_lab::report::Report;
use ssdlab_lab::target::Target;
use ssdlab_model::profile::data_sheet::{DataSheet, FlashKind, Interface};
use ssdlab_units::{ByteLength, Nanoseconds};

/// What a data sheet says of a drive, and what was measured.
struct Drive {
    name: &'static str,
    gigabytes: u64,
    sequential: (f64, f64),
    random: (f64, f64),
    /// Microseconds of a read and of a write.
    latencies: Option<(u64, u64)>,
    measured_writes: f64,
    /// Write amplification over that of sequential writes.
    measured_amplification: Option<f64>,
}

const DRIVES: [Drive; 3] = [
    Drive {
        name: "Micron 7450 MAX 800 GB",
        gigabytes: 800,
        sequential: (6_800.0, 1_400.0),
        random: (530_000.0, 145_000.0),
        latencies: Some((80, 15)),
        measured_writes: 159_207.0,
        measured_amplification: Some(1.844),
    },
    Drive {
        name: "Solidigm P5520 1.92 TB",
        gigabytes: 1_920,
        sequential: (5_300.0, 1_900.0),
        random: (700_000.0, 114_000.0),
        latencies: Some((75, 15)),
        measured_writes: 120_448.0,
        measured_amplification: Some(3.21),
    },
    Drive {
        name: "Samsung PM9A3 960 GB",
        gigabytes: 960,
        sequential: (6_500.0, 1_500.0),
        random: (580_000.0, 70_000.0),
        latencies: None,
        measured_writes: 71_424.0,
        measured_amplification: None,
    },
];

/// Rounds as the table of published figures has them: whether they agree is known sooner.
const ROUND: (&str, &str) = ("round", "500ms");

impl Drive {
    /// The text of its profile.
    fn profile(&self) -> String {
        let sheet = DataSheet {
            name: self.name.to_owned(),
            capacity: ByteLength::new(self.gigabytes * 1_000_000_000),
            flash: None,
            unit: None,
            kind: FlashKind::Tlc,
            interface: Interface::Nvme,
            sequential_read: self.sequential.0,
            sequential_write: self.sequential.1,
            random_read: self.random.0,
            random_write: Some(self.random.1),
            read_latency: self.latencies.map(|it| Nanoseconds::from_micros(it.0)),
            write_latency: self.latencies.map(|it| Nanoseconds::from_micros(it.1)),
            protected: true,
            cache: None,
            endurance: None,
            map_ram: None,
        };
        sheet.profile().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The figures of `steady --quick`.
    fn steady(&self, set: &[(&str, &str)]) -> Report {
        let experiment = experiment::named("steady").expect("it is there");
        let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a place");
        std::fs::write(file.path(), self.profile()).expect("room");
        let target = Target::parse(&format!("sim:{}", file.path().display())).expect("sound");
        let set: Vec<(String, String)> =
            set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (settings, target) = quick(experiment, target, 1, &set).expect("it can be quick");
        let mut drive = target.open(&Default::default()).expect("a sound drive");
        let outcome = ssdlab_lab::run(experiment, &settings, 1, drive.as_mut(), &mut NullWatcher);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        outcome.report
    }
}

fn figure(report: &Report, column: &str) -> f64 {
    let table = report.table("steady").expect("the table of the rules");
    let index = table.column(column).expect("a column");
    let cell = &table.rows[0][index];
    cell.number().unwrap_or_else(|| panic!("no {column}: {:?}", report.findings))
}

#[test]
fn a_data_sheet_alone_gives_what_others_measured() {
    for drive in DRIVES {
        let off = |model: f64, published: f64| (model / published - 1.0).abs();
        let writes = drive.steady(&[("depth", "256"), ROUND]);
        let iops = figure(&writes, "iops");
        assert!(off(iops, drive.measured_writes) < 0.12, "{}: {iops} writes", drive.name);
        if let Some(measured) = drive.measured_amplification {
            let found = figure(&writes, "write_amplification");
            assert!(off(found, measured) < 0.08, "{}: amplification {found}", drive.name);
        }
        let reads =
            figure(&drive.steady(&[("depth", "256"), ("read_percent", "100"), ROUND]), "iops");
        assert!(off(reads, drive.random.0) < 0.03, "{}: {reads} reads", drive.name);
    }
}
