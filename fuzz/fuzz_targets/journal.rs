//! `cargo +nightly fuzz run journal`: the journal of a refresh, which the user or a lost power supply may
//! have made anything of. What it says to be left is a part of what it says was planned.

#![no_main]

use ssdlab_refresh::journal::{SCHEMA, read};
use ssdlab_refresh::survey::Identity;

/// A first line that belongs to what is asked for, so that the fuzzer gets to the others.
fn begun(rest: &[u8]) -> Vec<u8> {
    let first = format!(
        "{{\"line\":\"planned\",\"schema\":\"{SCHEMA}\",\"path\":\"/x\",\"identity\":\
         {{\"file_system\":\"a/1\",\"inode\":12}},\"way\":\"frozen\",\"windows\":\
         [{{\"offset\":0,\"length\":4096}}],\"fresh\":null,\"before\":[]}}\n"
    );
    [first.as_bytes(), rest].concat()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let identity = Identity { file_system: "a/1".to_owned(), inode: 12 };
    assert!(read(&begun(&[]), &identity).is_some());
    for journal in [bytes.to_vec(), begun(bytes)] {
        let Some(earlier) = read(&journal, &identity) else { continue };
        let open = earlier.remaining();
        assert!(open.iter().all(|it| earlier.planned.contains(it) && it.end() >= it.offset));
        let _ = earlier.known_fresh();
        // Whole lines are read the same, whatever is cut off behind them.
        let cut = [&journal[..], b"\n{\"line\":\"do"].concat();
        assert_eq!(read(&cut, &identity).map(|it| it.remaining()), Some(open));
    }
});
