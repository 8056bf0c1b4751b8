//! Signs of trouble that a report of a drive holds, whatever its own verdict is.

/// A sign of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The drive says that its health failed, in its own words where it has some.
    HealthFailed {
        /// The words of a SCSI drive.
        said: Option<String>,
    },
    /// A bit of the critical warning of NVMe is set.
    Critical(CriticalWarning),
    /// A normalised SMART attribute of ATA is at its threshold, or was.
    AttributeFailed {
        /// The number of the attribute.
        id: u64,
        /// Its name, as smartctl has it.
        name: String,
        /// `true` while it is, `false` where it was and has recovered.
        now: bool,
        /// `true` where the maker says that the drive fails soon then, `false` where it is a matter of
        /// age or use.
        prefailure: bool,
    },
    /// A counter of errors is above zero.
    Counted {
        /// The kind of errors.
        counter: Counter,
        /// How many.
        count: u64,
    },
    /// The drive logged commands that it failed.
    LoggedErrors {
        /// The number of all errors since it was made; the log keeps the newest.
        count: u64,
        /// Hours of being on since the newest.
        hours_ago: Option<u64>,
        /// Their worst cause among those that the log has kept.
        cause: ErrorCause,
    },
    /// The newest finished self-test failed, or an earlier one and no extended test has passed since.
    SelfTestFailed {
        /// The drive's words for how it ended.
        said: String,
        /// Hours of being on since then.
        hours_ago: Option<u64>,
        /// `true` where it is the newest one.
        is_newest: bool,
    },
}

/// The cause of a logged error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCause {
    /// The command was refused, as unknown ones are: ABRT of ATA.
    Refused,
    /// The log does not say.
    Unknown,
    /// What came over the link was damaged: ICRC.
    Link,
    /// Data could not be read or found: UNC, IDNF, AMNF of ATA, status code type 2 of NVMe.
    Media,
}

/// A kind of errors that a drive counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Sectors or blocks of flash that were replaced (ATA attribute 5).
    Replaced,
    /// Sectors that wait to be replaced (ATA attribute 197, pending defects).
    Pending,
    /// Errors that were reported to the host because nothing could correct them (ATA attribute 187).
    ReportedUncorrectable,
    /// Sectors that the drive could not read in its own scan (ATA attribute 198).
    OfflineUncorrectable,
    /// Errors between the host and the medium, inside the drive (ATA attribute 184).
    EndToEnd,
    /// Programs of flash that failed (ATA attributes 171, 181).
    ProgramFailures,
    /// Erases of flash that failed (ATA attributes 172, 182).
    EraseFailures,
    /// Errors of the link (ATA attribute 199).
    Link,
    /// Media and data integrity errors (NVMe).
    Media,
    /// Entries of the grown defect list (SCSI).
    GrownDefects,
    /// Reads that nothing could correct (SCSI).
    UncorrectedReads,
    /// Writes that nothing could correct (SCSI).
    UncorrectedWrites,
    /// Verifications that nothing could correct (SCSI).
    UncorrectedVerifies,
}

impl Counter {
    /// All kinds.
    pub const ALL: [Counter; 13] = [
        Counter::Replaced,
        Counter::Pending,
        Counter::ReportedUncorrectable,
        Counter::OfflineUncorrectable,
        Counter::EndToEnd,
        Counter::ProgramFailures,
        Counter::EraseFailures,
        Counter::Link,
        Counter::Media,
        Counter::GrownDefects,
        Counter::UncorrectedReads,
        Counter::UncorrectedWrites,
        Counter::UncorrectedVerifies,
    ];

    /// The kind as one word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Counter::Replaced => "replaced",
            Counter::Pending => "pending",
            Counter::ReportedUncorrectable => "reported_uncorrectable",
            Counter::OfflineUncorrectable => "offline_uncorrectable",
            Counter::EndToEnd => "end_to_end",
            Counter::ProgramFailures => "program_failure",
            Counter::EraseFailures => "erase_failure",
            Counter::Link => "link",
            Counter::Media => "media",
            Counter::GrownDefects => "grown_defect",
            Counter::UncorrectedReads => "uncorrected_read",
            Counter::UncorrectedWrites => "uncorrected_write",
            Counter::UncorrectedVerifies => "uncorrected_verify",
        }
    }
}

/// A bit of the critical warning (NVMe base specification, SMART / health information).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalWarning {
    /// Bit 0: the available spare is below its threshold.
    Spare,
    /// Bit 1: a temperature is beyond its threshold.
    Temperature,
    /// Bit 2: media or internal errors have degraded the reliability.
    Reliability,
    /// Bit 3: the media are read-only.
    ReadOnly,
    /// Bit 4: the backup of volatile memory failed.
    Backup,
    /// Bit 5: the persistent memory region is read-only or unreliable.
    PersistentMemory,
    /// A bit that this program does not know.
    Other,
}

impl CriticalWarning {
    /// The warnings that are set in `bits`.
    pub fn of_bits(bits: u64) -> Vec<CriticalWarning> {
        const KNOWN: [CriticalWarning; 6] = [
            CriticalWarning::Spare,
            CriticalWarning::Temperature,
            CriticalWarning::Reliability,
            CriticalWarning::ReadOnly,
            CriticalWarning::Backup,
            CriticalWarning::PersistentMemory,
        ];
        let set = KNOWN.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let mut found: Vec<CriticalWarning> = set.map(|(_, warning)| warning).collect();
        if bits >> KNOWN.len() != 0 {
            found.push(CriticalWarning::Other);
        }
        found
    }
}
