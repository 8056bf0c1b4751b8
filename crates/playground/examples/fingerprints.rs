//! Prints write amplification and the fingerprint of each scenario of a file, natively; `scripts/playground-same`
//! compares them with those of WebAssembly.

use ssdlab_playground::{Knobs, Playground, Setup, Start};

fn run(line: &str) -> Option<Result<String, String>> {
    let (drive, host) = line.split_once(';')?;
    let (host, units) = host.split_once(';')?;
    let drive: Vec<&str> = drive.split(' ').collect();
    let host: Vec<f64> = host.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let ([profile, start, seed, changes], [request, skew, used, flush, depth, in_order]) =
        (drive[..].try_into().ok()?, host[..].try_into().ok()?);
    let mut setup = Setup::named(profile);
    for change in changes.split(',') {
        let (key, value) = change.split_once('=')?;
        setup.changes.push((key.to_owned(), value.to_owned()));
    }
    let start = match start {
        "0" => Start::New,
        "1" => Start::Filled,
        _ => Start::Steady,
    };
    let made = Playground::new(&setup, start, seed.parse().ok()?);
    Some(made.map(|mut playground| {
        playground.set_knobs(Knobs {
            request_units: request as u32,
            skew,
            used,
            flush_every: flush as u32,
            depth: depth as u32,
            is_sequential: in_order != 0.0,
        });
        playground.advance(units.parse().unwrap_or(0));
        let amplification = playground.figures().write_amplification;
        format!("{profile} {:016x} {:016x}", amplification.to_bits(), playground.fingerprint())
    }))
}

fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("fingerprints FILE")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        println!("{}", run(line).ok_or_else(|| format!("{path}: {line}"))??);
    }
    Ok(())
}
