//! Functions that the page calls. Only numbers and text cross to it. Text, numbers and bytes to draw each have
//! a buffer that both sides use.
//!
//! There is one playground. Nothing else is shared, so that a page that learns of a panic can begin anew with a
//! fresh instance.

use std::cell::RefCell;

use crate::{Figures, Knobs, Playground, Setup, Start, cut_power};

#[derive(Default)]
struct Shared {
    playground: Option<Playground>,
    setup: Option<(Setup, u64)>,
    text: Vec<u8>,
    numbers: Vec<f64>,
    cells: Vec<u8>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
    /// A cell of its own, because a panic occurs while the rest is borrowed.
    static PANIC: RefCell<Vec<u8>> = RefCell::default();
}

fn with_shared<T>(act: impl FnOnce(&mut Shared) -> T) -> T {
    SHARED.with_borrow_mut(act)
}

fn with_playground<T>(act: impl FnOnce(&mut Playground) -> T) -> T {
    with_shared(|it| act(it.playground.as_mut().expect("a playground was made")))
}

/// Makes space for `length` bytes of text; returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn text_room(length: usize) -> *mut u8 {
    with_shared(|it| {
        it.text.resize(length, 0);
        it.text.as_mut_ptr()
    })
}

/// Returns the length of the text in the buffer of [`text_room`].
#[unsafe(no_mangle)]
pub extern "C" fn text_length() -> usize {
    with_shared(|it| it.text.len())
}

/// Returns the address of the text of the latest panic.
#[unsafe(no_mangle)]
pub extern "C" fn panic_text() -> *const u8 {
    PANIC.with_borrow(|it| it.as_ptr())
}

/// Returns the length of the text of the latest panic; 0 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn panic_length() -> usize {
    PANIC.with_borrow(|it| it.len())
}

/// Parses a setup: the first line is a profile, the others are `key=value`.
fn setup_of(text: &[u8]) -> Result<Setup, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut lines = text.lines().filter(|it| !it.is_empty());
    let mut setup = Setup::named(lines.next().ok_or("no profile is named")?);
    for line in lines {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("no = in {line}"))?;
        setup.changes.push((key.to_owned(), value.to_owned()));
    }
    Ok(setup)
}

/// Creates the drive that the text describes: new (0), filled (1) or steady (2). Returns 1, or 0 with the error
/// in the text.
#[unsafe(no_mangle)]
pub extern "C" fn create(start: u32, seed: f64) -> u32 {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with_borrow_mut(|it| *it = info.to_string().into_bytes());
    }));
    let start = match start {
        0 => Start::New,
        1 => Start::Filled,
        _ => Start::Steady,
    };
    let seed = seed as u64;
    with_shared(|it| {
        // The old drive is dropped first, so that there is never memory for two.
        it.playground = None;
        let made =
            setup_of(&it.text).and_then(|setup| Ok((Playground::new(&setup, start, seed)?, setup)));
        match made {
            Ok((playground, setup)) => {
                (it.playground, it.setup) = (Some(playground), Some((setup, seed)));
                1
            }
            Err(error) => {
                it.text = error.into_bytes();
                0
            }
        }
    })
}

/// Sets all knobs of the host.
#[unsafe(no_mangle)]
pub extern "C" fn set_knobs(
    request_units: u32,
    skew: f64,
    used: f64,
    flush_every: u32,
    depth: u32,
    is_sequential: u32,
) {
    let is_sequential = is_sequential != 0;
    with_playground(|it| {
        it.set_knobs(Knobs { request_units, skew, used, flush_every, depth, is_sequential })
    });
}

/// Lets the host write `units` units.
#[unsafe(no_mangle)]
pub extern "C" fn advance(units: u32) {
    with_playground(|it| it.advance(units));
}

/// Trims the host's free space.
#[unsafe(no_mangle)]
pub extern "C" fn trim_free_space() {
    with_playground(Playground::trim_free_space);
}

/// Leaves the drive idle for `seconds`.
#[unsafe(no_mangle)]
pub extern "C" fn rest(seconds: f64) {
    with_playground(|it| it.idle(seconds));
}

/// Reads the file. Numbers: bytes, bytes per second, flash pages per request.
#[unsafe(no_mangle)]
pub extern "C" fn read_file() {
    let reading = with_playground(Playground::read_file);
    let numbers = vec![reading.bytes, reading.bytes_per_second, reading.pages_per_request];
    with_shared(|it| it.numbers = numbers);
}

/// Writes the file again.
#[unsafe(no_mangle)]
pub extern "C" fn rewrite_file() {
    with_playground(Playground::rewrite_file);
}

/// Drops all points of the curve.
#[unsafe(no_mangle)]
pub extern "C" fn clear_curve() {
    with_playground(Playground::clear_curve);
}

/// Cuts the power of another, smaller drive of the same kind under the same workload, with random numbers from
/// `seed`. Returns 1 with the numbers answered, lost, lost after a flush, and seconds of recovery; or 0 with
/// the error in the text.
#[unsafe(no_mangle)]
pub extern "C" fn cut(seed: f64) -> u32 {
    with_shared(|it| {
        let (playground, setup) = (it.playground.as_ref(), it.setup.as_ref());
        let knobs = playground.expect("a playground was made").knobs();
        match cut_power(&setup.expect("it was made").0, knobs, seed as u64) {
            Ok(report) => {
                let counts = [report.answered, report.lost, report.lost_after_flush];
                it.numbers = counts.map(f64::from).to_vec();
                it.numbers.push(report.recovery_seconds);
                1
            }
            Err(error) => {
                it.text = error.into_bytes();
                0
            }
        }
    })
}

/// Writes the names of the figures into the text, separated by commas.
#[unsafe(no_mangle)]
pub extern "C" fn figure_names() {
    with_shared(|it| it.text = Figures::NAMES.join(",").into_bytes());
}

/// Writes the figures into the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn figures() {
    let values = with_playground(|it| it.figures().values());
    with_shared(|it| it.numbers = values);
}

/// Writes the curve into the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn curve() {
    with_shared(|it| {
        let playground = it.playground.as_ref().expect("a playground was made");
        playground.fill_curve(&mut it.numbers);
    });
}

/// Writes the latencies into the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn latencies() {
    with_shared(|it| {
        let playground = it.playground.as_ref().expect("a playground was made");
        playground.fill_latencies(&mut it.numbers);
    });
}

/// Returns the address of the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn numbers() -> *const f64 {
    with_shared(|it| it.numbers.as_ptr())
}

/// Returns the number of numbers.
#[unsafe(no_mangle)]
pub extern "C" fn numbers_length() -> usize {
    with_shared(|it| it.numbers.len())
}

/// Fills the cells; returns their address.
#[unsafe(no_mangle)]
pub extern "C" fn cells() -> *const u8 {
    with_shared(|it| {
        let playground = it.playground.as_ref().expect("a playground was made");
        playground.fill_cells(&mut it.cells);
        it.cells.as_ptr()
    })
}

/// Returns the number of bytes in the cells.
#[unsafe(no_mangle)]
pub extern "C" fn cells_length() -> usize {
    with_shared(|it| it.cells.len())
}

/// Returns the fingerprint of the drive.
#[unsafe(no_mangle)]
pub extern "C" fn fingerprint() -> u64 {
    with_playground(|it| it.fingerprint())
}
