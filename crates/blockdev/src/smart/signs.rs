//! Signs of trouble in the SMART data of a drive, whatever the drive's own verdict is.

/// A sign of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The drive reports that its health check failed.
    HealthFailed {
        /// Description by a SCSI drive.
        said: Option<String>,
    },
    /// A bit of the critical warning of NVMe is set.
    Critical(CriticalWarning),
    /// A normalised SMART attribute of ATA is at its threshold, or was.
    AttributeFailed {
        /// Number of the attribute.
        id: u64,
        /// Name of the attribute, as in smartctl.
        name: String,
        /// True if the attribute is at its threshold now, false if it has recovered.
        now: bool,
        /// True if the threshold means that the drive will fail soon, false if it is a matter of age or
        /// use.
        prefailure: bool,
    },
    /// An error counter is above zero.
    Counted {
        /// Kind of the errors.
        counter: Counter,
        /// Number of errors.
        count: u64,
    },
    /// The drive logged commands that it failed.
    LoggedErrors {
        /// Number of all errors since the drive was made; the log keeps the newest.
        count: u64,
        /// Power-on hours since the newest error.
        hours_ago: Option<u64>,
        /// Worst cause among the errors that the log has kept.
        cause: ErrorCause,
    },
    /// The newest finished self-test failed, or an earlier one and no extended test has passed since.
    SelfTestFailed {
        /// Outcome in the words of the report.
        said: String,
        /// Power-on hours since the test.
        hours_ago: Option<u64>,
        /// True if the failed test is the newest one.
        is_newest: bool,
    },
}

/// The cause of a logged error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCause {
    /// The command was refused, for instance as unknown: ABRT of ATA.
    Refused,
    /// The log does not tell the cause.
    Unknown,
    /// Data was damaged on the link: ICRC.
    Link,
    /// Data could not be read or found: UNC, IDNF, AMNF of ATA, status code type 2 of NVMe.
    Media,
}

/// Kind of errors that a drive counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Sectors or blocks of flash that were replaced (ATA attribute 5).
    Replaced,
    /// Sectors that wait to be replaced (ATA attribute 197, pending defects).
    Pending,
    /// Uncorrectable errors that were reported to the host (ATA attribute 187).
    ReportedUncorrectable,
    /// Sectors that the drive could not read in its own scan (ATA attribute 198).
    OfflineUncorrectable,
    /// Errors on the path between the host and the medium, inside the drive (ATA attribute 184).
    EndToEnd,
    /// Failed programs of flash (ATA attributes 171, 181).
    ProgramFailures,
    /// Failed erases of flash (ATA attributes 172, 182).
    EraseFailures,
    /// Errors of the link (ATA attribute 199).
    Link,
    /// Media and data integrity errors (NVMe).
    Media,
    /// Entries of the grown defect list (SCSI).
    GrownDefects,
    /// Uncorrectable errors of reads (SCSI).
    UncorrectedReads,
    /// Uncorrectable errors of writes (SCSI).
    UncorrectedWrites,
    /// Uncorrectable errors of verifications (SCSI).
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

    /// Returns the kind as one word, for machines.
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
    /// Returns the warnings that are set in `bits`.
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
