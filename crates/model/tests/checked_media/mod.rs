//! Flash that refuses what flash cannot do, remembers what it was told, and sees to it that no
//! block is erased while it holds the only durable copy of anything.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use ssdlab_model::Span;
use ssdlab_model::mapping::{Mapping, PageMap};
use ssdlab_model::media::{FlashWork, Media, SequenceNumber, SpareArea};
use ssdlab_model::snapshot::{Decoder, Encoder, SnapshotError};
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::{BlockIndex, DieIndex, Instant, LogicalUnit, PhysicalUnit};

/// A page map that knows which write of the host's each place holds. The medium and the test look
/// into it while the drive uses it.
#[derive(Clone, Debug)]
pub struct Versions(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    map: PageMap,
    /// What was last placed where.
    placed: HashMap<PhysicalUnit, (LogicalUnit, u64)>,
    /// Places that hold zeros for a unit that lay nowhere.
    zeros: HashSet<PhysicalUnit>,
    /// Units that the host is just writing, in order; what is placed otherwise is a copy.
    writing: VecDeque<LogicalUnit>,
    writes: u64,
    /// The number of the latest write when a unit was last trimmed.
    trimmed: HashMap<LogicalUnit, u64>,
}

impl Versions {
    pub fn new(units: u32) -> Versions {
        Versions(Rc::new(RefCell::new(State {
            map: PageMap::new(units),
            placed: HashMap::new(),
            zeros: HashSet::new(),
            writing: VecDeque::new(),
            writes: 0,
            trimmed: HashMap::new(),
        })))
    }

    /// The host is about to write `unit`.
    pub fn announce(&self, unit: LogicalUnit) {
        self.0.borrow_mut().writing.push_back(unit);
    }

    /// The version of `unit` that reads see.
    pub fn current(&self, unit: LogicalUnit) -> Option<u64> {
        let physical = self.get(unit)?;
        (!self.0.borrow().zeros.contains(&physical)).then(|| self.at(physical).1)
    }

    /// Whether the host has trimmed `unit` since it wrote `version`.
    fn is_trimmed(&self, unit: LogicalUnit, version: u64) -> bool {
        self.0.borrow().trimmed.get(&unit).is_some_and(|&last| version <= last)
    }

    fn at(&self, physical: PhysicalUnit) -> (LogicalUnit, u64) {
        self.0.borrow().placed[&physical]
    }
}

impl Mapping for Versions {
    fn get(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.0.borrow().map.get(unit)
    }

    fn set(&mut self, unit: LogicalUnit, physical: PhysicalUnit) -> Option<PhysicalUnit> {
        let mut state = self.0.borrow_mut();
        let old = state.map.set(unit, physical);
        assert_eq!(state.writing.pop_front(), Some(unit), "the host's units come in order");
        state.writes += 1;
        let version = state.writes;
        state.placed.insert(physical, (unit, version));
        state.zeros.remove(&physical);
        old
    }

    fn relocate(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        let mut state = self.0.borrow_mut();
        let old = state.map.set(unit, physical).expect("only what is mapped is copied");
        let version = state.placed[&old].1;
        state.placed.insert(physical, (unit, version));
        if state.zeros.contains(&old) {
            state.zeros.insert(physical);
        } else {
            state.zeros.remove(&physical);
        }
    }

    fn fill(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        let mut state = self.0.borrow_mut();
        assert_eq!(state.map.set(unit, physical), None, "only what lies nowhere is filled");
        let version = state.writes;
        state.placed.insert(physical, (unit, version));
        state.zeros.insert(physical);
    }

    fn clear(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let mut state = self.0.borrow_mut();
        let writes = state.writes;
        state.trimmed.insert(unit, writes);
        state.map.clear(unit)
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        self.0.borrow().map.next_mapped(from)
    }

    fn prefetch(&self, _: LogicalUnit) {}

    fn save(&self, _: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        Err(SnapshotError::Unsupported { what: "a test's map" })
    }

    fn restore(&mut self, _: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        Err(SnapshotError::Unsupported { what: "a test's map" })
    }
}

/// One copy of a logical unit in the flash.
#[derive(Clone, Copy, Debug)]
struct Kept {
    physical: PhysicalUnit,
    version: u64,
    programmed: Instant,
    /// When its erase begins, if that is decided.
    erased: Option<Instant>,
}

impl Kept {
    fn is_there(&self, at: Instant) -> bool {
        self.programmed <= at && self.erased.is_none_or(|erased| erased > at)
    }
}

/// Checked flash.
#[derive(Clone, Debug)]
pub struct CheckedMedia {
    geometry: Geometry,
    versions: Versions,
    /// What the spare area of each physical unit names; none when it is erased or padding.
    names: Vec<Option<LogicalUnit>>,
    /// Whether each program unit is programmed.
    programmed: Vec<bool>,
    /// The next row of a block to be programmed on a die.
    next_row: HashMap<(BlockIndex, DieIndex), u32>,
    erased_at: HashMap<(BlockIndex, DieIndex), Instant>,
    copies: HashMap<LogicalUnit, Vec<Kept>>,
    busy: HashMap<DieIndex, Vec<Span>>,
    numbers: HashSet<SequenceNumber>,
    /// The version that each number of a logical unit stands for.
    numbered: HashMap<LogicalUnit, BTreeMap<SequenceNumber, u64>>,
    /// Whether a power cut loses what is in the write buffer.
    buffer_is_lost: bool,
}

impl CheckedMedia {
    /// New, erased flash; `buffer_is_lost` when nothing protects the write buffer before it.
    pub fn new(geometry: &Geometry, versions: Versions, buffer_is_lost: bool) -> CheckedMedia {
        let units = geometry.physical_units() as usize;
        CheckedMedia {
            versions,
            buffer_is_lost,
            names: vec![None; units],
            programmed: vec![false; units / geometry.units_per_program() as usize],
            next_row: HashMap::new(),
            erased_at: HashMap::new(),
            copies: HashMap::new(),
            busy: HashMap::new(),
            numbers: HashSet::new(),
            numbered: HashMap::new(),
            geometry: geometry.clone(),
        }
    }

    /// Whether the flash holds the version of `unit` that reads see, at `at`.
    pub fn is_durable(&self, unit: LogicalUnit, at: Instant) -> bool {
        let current = self.versions.current(unit);
        let copies = self.copies.get(&unit).map_or(&[][..], Vec::as_slice);
        copies.iter().any(|copy| Some(copy.version) == current && copy.is_there(at))
    }

    /// No die does two things at once.
    pub fn check_times(&self) {
        for (die, spans) in &self.busy {
            let mut spans = spans.clone();
            spans.sort_by_key(|span| span.start);
            for pair in spans.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{die:?} does two things at once: {pair:?}");
            }
        }
    }

    fn check_order(&mut self, first: PhysicalUnit, span: Span) {
        let per_program = self.geometry.units_per_program();
        let block = self.geometry.block_of(first);
        let die = self.geometry.die_of(first);
        let row = (first.0 - self.geometry.first_unit(block).0) / per_program;
        let next = self.next_row.entry((block, die)).or_insert(0);
        assert_eq!(*next, row / self.geometry.stripe(), "{block:?} on {die:?}: out of order");
        *next += 1;
        let programmed = &mut self.programmed[(first.0 / per_program) as usize];
        assert!(!*programmed, "{first:?} is programmed twice without an erase");
        *programmed = true;
        let erased = self.erased_at.get(&(block, die)).copied().unwrap_or(Instant::START);
        assert!(span.start >= erased, "{block:?} is programmed while it is erased on {die:?}");
    }

    /// Of two copies the one with the larger number must be the newer, or as old; this is what
    /// recovery relies on. Copies that were erased since count: which are there at a power cut is
    /// a matter of chance.
    fn check_number(&mut self, logical: LogicalUnit, number: SequenceNumber, version: u64) {
        let numbered = self.numbered.entry(logical).or_default();
        let older = numbered.range(..number).next_back();
        let newer = numbered.range(number..).next();
        assert!(
            older.is_none_or(|(_, &it)| it <= version)
                && newer.is_none_or(|(_, &it)| it >= version),
            "the numbers of {logical:?} are not in the order of its versions: {version} is {number:?} \
             between {older:?} and {newer:?}"
        );
        numbered.insert(number, version);
    }

    /// `unit`, which holds a copy of `logical`, will be erased: unless the host has trimmed the
    /// unit since, a copy of the same version or of a later one has to be there, so that a power
    /// cut leaves one of those that the host was told are written.
    fn lose(&mut self, unit: PhysicalUnit, logical: LogicalUnit, at: Instant) {
        let copies = self.copies.get_mut(&logical).expect("it has a copy here");
        let lost = copies
            .iter_mut()
            .find(|copy| copy.physical == unit && copy.erased.is_none())
            .expect("it has a copy here");
        lost.erased = Some(at);
        let version = lost.version;
        let current = self.versions.current(logical) == Some(version);
        let needed =
            (current || self.buffer_is_lost) && !self.versions.is_trimmed(logical, version);
        let stays = copies.iter().any(|copy| copy.version >= version && copy.is_there(at));
        assert!(
            !needed || stays,
            "{unit:?} is erased at {at:?} and holds the latest durable copy of {logical:?}, version \
             {version} of {:?}: {copies:?}",
            self.versions.current(logical)
        );
    }
}

impl Media for CheckedMedia {
    fn program(
        &mut self,
        first: PhysicalUnit,
        spare: SpareArea<'_>,
        number: SequenceNumber,
        work: FlashWork,
    ) {
        let span = work.span;
        let per_program = self.geometry.units_per_program();
        assert!(first.0.is_multiple_of(per_program) && spare.len() as u32 == per_program);
        assert!(self.numbers.insert(number), "{number:?} is given to two program units");
        assert_eq!(work.die, self.geometry.die_of(first), "the die of {first:?}");
        let mut there = HashSet::new();
        self.check_order(first, span);
        self.busy.entry(self.geometry.die_of(first)).or_default().push(span);
        for (index, logical) in spare.logical_units().enumerate() {
            let Some(logical) = logical else { continue };
            let physical = PhysicalUnit(first.0 + index as u32);
            self.names[physical.0 as usize] = Some(logical);
            let (placed, version) = self.versions.at(physical);
            assert_eq!(logical, placed, "the spare area of {physical:?}");
            assert!(there.insert(logical), "{logical:?} is twice in one program unit");
            let kept = Kept { physical, version, programmed: span.end, erased: None };
            self.check_number(logical, number, version);
            self.copies.entry(logical).or_default().push(kept);
        }
    }

    fn erase(&mut self, block: BlockIndex, work: FlashWork) {
        let FlashWork { die, span, .. } = work;
        self.busy.entry(die).or_default().push(span);
        self.erased_at.insert((block, die), span.end);
        self.next_row.insert((block, die), 0);
        let first = self.geometry.first_unit(block).0;
        for unit in first..first + self.geometry.units_per_block() {
            let unit = PhysicalUnit(unit);
            if self.geometry.die_of(unit) != die {
                continue;
            }
            self.programmed[(unit.0 / self.geometry.units_per_program()) as usize] = false;
            if let Some(logical) = self.names[unit.0 as usize].take() {
                self.lose(unit, logical, span.start);
            }
        }
    }
}
