//! Anything may be a file: words of the formats in any order, and plain noise.

use proptest::prelude::*;

mod untrusted;

/// Pieces that jobs and traces are made of, so that chance gets past the first word.
fn pieces() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[a]\n",
        "[global]\n",
        "rw=randrw\n",
        "rw=trim\n",
        "bs=",
        "size=",
        "4k",
        "50%",
        "1g",
        "\n",
        "runtime=1\n",
        "time_based\n",
        "fsync=2\n",
        "numjobs=3\n",
        "offset=",
        "loops=4096\n",
        "ioengine=libaio\n",
        "iodepth=",
        "rate_iops=1\n",
        "thinktime=",
        "rate_process=poisson\n",
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "/a ",
        "read ",
        "write ",
        "wait ",
        "sync",
        "8,0 ",
        "1 ",
        "0.5 ",
        "D ",
        "Q ",
        "FWS ",
        "+ ",
        "CPU0",
        ",",
        "R",
        "W",
        "Read",
        "0",
        "8",
        "18446744073709551615",
        "9223372036854775807",
        "-1",
        "hm",
        "=",
        "[",
        ";",
        "#",
        "\u{e9}",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_job_file_is_too_odd(text in pieces(), noise: Vec<u8>) {
        untrusted::job(text.as_bytes());
        untrusted::job(&noise);
        untrusted::job(format!("[a]\nrw=read\n{text}").as_bytes());
    }

    #[test]
    fn no_trace_is_too_odd(form in 0_u8..9, text in pieces(), noise: Vec<u8>) {
        for rest in [text.as_bytes(), &noise] {
            untrusted::trace(&[&[form], rest].concat());
        }
    }

    #[test]
    fn no_result_of_fio_is_too_odd(at in 0_usize..RESULT.len(), with in pieces(), noise: Vec<u8>) {
        untrusted::result(&noise);
        let (before, behind) = RESULT.split_at(at);
        untrusted::result(format!("{before}{with}{behind}").as_bytes());
        untrusted::result(format!("{with}{behind}").as_bytes());
    }
}

const RESULT: &str = r#"text
{"fio version":"fio-3.33","timestamp":17,"global options":{"bs":"4k"},
"jobs":[{"jobname":"a","groupid":0,"job options":{"rw":"read"},"usr_cpu":5,"sys_cpu":10,
"read":{"io_bytes":67108864,"runtime":500,"total_ios":2000,
"lat_ns":{"mean":480000.5,"N":2000},"clat_ns":{"N":2000,"percentile":{"50.000000":470000},
"bins":{"470000":1999,"800000":1}}}},{"jobname":"a","groupid":0,"read":{"total_ios":1}}]}
"#;
