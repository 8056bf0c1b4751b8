//! The page of this machine: what it shows, what it changes, and what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::documents::{documents, in_markdown};
use crate::extract::in_help;
use crate::support::{Place, wait_until};

const TOKEN: &str = "a-token-for-tests-0";

/// A server that runs, and what it was told.
struct Serving {
    child: Child,
    address: SocketAddr,
    /// The token that it printed.
    token: String,
}

/// What came back.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Serving {
    /// Starts it in a place, at a free port of the loopback.
    fn start(place: &Place, arguments: &[&str]) -> Serving {
        let mut words = vec!["serve", "--listen", "127.0.0.1:0"];
        words.extend(arguments);
        Serving::of(place.command(&words).env("SSDLAB_RUN", run_directory(place)))
    }

    fn of(command: &mut std::process::Command) -> Serving {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix('/'));
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("{line:?}, {stderr}");
        };
        // Nothing more is printed until something fails.
        let mut stderr = BufReader::new(child.stderr.as_mut().unwrap());
        let mut token = TOKEN.to_owned();
        loop {
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            if let Some((_, printed)) = line.trim().split_once("token=") {
                token = printed.to_owned();
            }
            if line.contains("Ctrl-C") || line.is_empty() {
                break;
            }
        }
        Serving { child, address, token }
    }

    fn raw(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        // It may refuse, and hang up, before it has read all.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Reply {
        let host = self.address;
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }

    fn get_with_token(&self, path: &str) -> Reply {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: ssdlab_token={}\r\nConnection: close\r\n\r\n",
            self.address, self.token
        ))
    }

    /// Sends a form as a page of this server does, or as `lines` of the head have it.
    fn post_with(&self, path: &str, body: &str, lines: &str) -> Reply {
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n{lines}\r\n{body}",
            body.len()
        ))
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        let (host, token) = (self.address, &self.token);
        let lines = format!(
            "Host: {host}\r\nOrigin: http://{host}\r\nCookie: ssdlab_token={token}\r\n\
             Sec-Fetch-Site: same-origin\r\n"
        );
        self.post_with(path, body, &lines)
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> i32 {
        self.interrupt();
        self.child.wait().unwrap().code().unwrap()
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.interrupt();
            let _ = self.child.wait();
        }
    }
}

impl Reply {
    #[track_caller]
    fn with(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    #[track_caller]
    fn says(self, words: &[&str]) -> Reply {
        for words in words {
            assert!(self.body.contains(words), "no {words:?} in:\n{}", self.body);
        }
        self
    }

    fn location(&self) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix("location: "));
        line.unwrap_or_else(|| panic!("{}", self.head))
    }
}

/// Its own, since others' runs would be shown, too.
fn run_directory(place: &Place) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt;
    let path = place.path("run");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
    path
}

/// A place with runs in its store.
fn with_runs(count: usize) -> Place {
    let place = Place::new();
    for seed in 1..=count {
        let seed = seed.to_string();
        place
            .run(&["run", "fragmentation", "sim:,scale=1/64", "--quick", "--seed", &seed])
            .with_code(0);
    }
    place
}

#[test]
fn runs_are_listed_shown_compared_and_saved() {
    let place = with_runs(3);
    let serving = Serving::start(&place, &[]);
    serving.get("/").with(200).says(&["3 runs", "/runs/3", "sim:,scale=1/64", "Compare run 1"]);
    serving.get("/?words=nothing+like+it").with(200).says(&["No run fits"]);
    serving.get("/?target=sim%3A%2Cscale%3D1%2F64").with(200).says(&["3 runs"]);
    let shown = serving.get("/runs/2").with(200);
    let shown = shown.says(&["Run 2", "Sequential reads", "Save as one file", "Give the token"]);
    assert!(!shown.body.contains("<form method=\"post\""), "it changes nothing without the token");
    serving.get("/compare?run=1&run=3").with(200).says(&["2 runs", "Comparison"]);
    serving.get("/compare?run=1").with(400).says(&["two runs or more"]);
    let trend = "/trend?experiment=fragmentation&target=sim%3A%2Cscale%3D1%2F64";
    serving.get(trend).with(200).says(&["3 runs since", "<path"]);
    let saved = serving.get("/runs/1/report.html").with(200);
    assert!(saved.head.contains("attachment; filename=\"ssdlab-run-1.html\""), "{}", saved.head);
    place.run(&["show", "1", "--html", "one.html"]).with_code(0);
    assert_eq!(saved.body, std::fs::read_to_string(place.path("one.html")).unwrap());
    let json = serving.get("/runs/1/report.json").with(200).body;
    assert_eq!(json, place.run(&["show", "1", "--json"]).with_code(0).stdout);
    for path in ["/experiments", "/drives", "/machine", "/metrics", "/style.css", "/script.js"] {
        serving.get(path).with(200);
    }
    serving.get("/metrics").says(&["ssdlab_runs_kept 3\n", "ssdlab_doctor_worst"]);
    assert_eq!(serving.end(), 0);
}

#[test]
fn a_place_without_runs_has_pages_all_the_same() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    serving.get("/").with(200).says(&["No runs are kept yet"]);
    serving.get("/trend?experiment=x&target=y").with(200);
    serving.get("/runs/1").with(404);
    serving.get("/metrics").with(200).says(&["ssdlab_runs_kept 0\n"]);
    assert!(!place.path("runs.sqlite").exists(), "reading makes nothing");
}

#[test]
fn runs_are_tagged_and_deleted_by_who_has_the_token() {
    let place = with_runs(2);
    let serving = Serving::start(&place, &[]);
    serving.get_with_token("/runs/1").with(200).says(&["action=\"/runs/1\"", "Delete run 1"]);
    let hostile = "tags=%3Cscript%3Ealert(1)%3C%2Fscript%3E%2Cwarm\
                   &note=%3Cimg+src%3Dx+onerror%3Dalert(2)%3E%0D%0A%22second%22";
    assert_eq!(serving.post("/runs/1", hostile).with(303).location(), "/runs/1");
    for path in ["/runs/1", "/", "/?tag=warm", "/?words=onerror"] {
        let page = serving.get_with_token(path).with(200);
        let page = page.says(&["&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;img src=x"]);
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<img"), "{path}");
    }
    serving.get("/?tag=warm").says(&["1 run."]);
    let long = format!("tags={}", "x".repeat(41));
    serving.post("/runs/1", &long).with(400).says(&["more than 40 characters"]);
    // A request that is not sure, as from a form without its box.
    serving.post("/runs/1/delete", "").with(303);
    serving.get("/runs/1").with(200);
    serving.post("/runs/1/delete", "sure=yes").with(303);
    serving.get("/runs/1").with(404);
    serving.get("/?tag=warm").with(200).says(&["No run fits"]);
    serving.post("/runs/1/delete", "sure=yes").with(404);
    serving.post("/runs/last", "tags=x").with(404);
}

#[test]
fn an_experiment_is_started_watched_and_stopped() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    // It takes minutes, if nobody stops it.
    let order = "experiment=steady&target=sim%3Atoshiba-xg5&settings=&seed=5";
    let page = serving.post("/experiments", order).with(303).location().to_owned();
    wait_until(|| serving.get(&page).body.contains("<progress"));
    serving.get("/experiments").with(200).says(&["steady on sim:toshiba-xg5", &page]);
    let mut watcher = TcpStream::connect(serving.address).unwrap();
    watcher.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = format!("GET {page}/events HTTP/1.1\r\nHost: {}\r\n\r\n", serving.address);
    watcher.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(watcher).lines().map(Result::unwrap);
    let mut next = |begin: &str| lines.find(|line| line.starts_with(begin)).unwrap();
    next("event: message");
    assert!(next("data: ").contains("is running"));
    serving.post(&format!("{page}/stop"), "").with(303);
    next("event: over");
    assert!(next("data: ").contains("/runs/1"));
    serving.get(&page).with(200).says(&["/runs/1"]);
    serving.get("/runs/1").with(200).says(&["Interrupted"]);
    serving.post(&format!("{page}/stop"), "").with(409);
    for wrong in [
        "experiment=steady&target=%2Fdev%2Fsda",
        "experiment=steady&target=sim%3A.%2Fmy.toml",
        "experiment=nonsense&target=sim%3A",
        "experiment=job&target=sim%3A&settings=file%3D%2Fetc%2Fpasswd",
        "experiment=steady&target=sim%3A&settings=nonsense",
    ] {
        serving.post("/experiments", wrong).with(400);
    }
}

#[test]
fn the_end_of_the_server_ends_what_it_started_in_good_order() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let order = "experiment=steady&target=sim%3Atoshiba-xg5&seed=5";
    let page = serving.post("/experiments", order).with(303).location().to_owned();
    wait_until(|| serving.get(&page).body.contains("<progress"));
    assert_eq!(serving.end(), 0);
    let runs = place.run(&["list", "runs", "--json"]).with_code(0).json();
    assert_eq!(runs[0]["interrupted"], true, "{runs}");
}

#[test]
fn a_run_that_a_terminal_started_is_watched() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let mut command = place.command(&["run", "steady", "sim:toshiba-xg5", "--quiet"]);
    command.env("SSDLAB_RUN", run_directory(&place));
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let page = format!("/experiments/{}", run.id());
    wait_until(|| serving.get(&page).body.contains("<progress"));
    serving.get("/experiments").with(200).says(&[&page, "steady on sim:toshiba-xg5"]);
    // The curve is there once there are two points of it.
    wait_until(|| serving.get(&page).body.contains("class=\"curve"));
    serving.post(&format!("{page}/stop"), "").with(409).says(&["Ctrl-C in its terminal"]);
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    serving.get(&page).with(200).says(&["has ended", "/runs/1"]);
}

#[test]
fn wear_and_temperature_are_noted_by_schedule() {
    let place = Place::new();
    let serving = Serving::start(&place, &["--every", "1d", "doctor"]);
    let store = place.path("runs.sqlite");
    let noted = || -> Option<i64> {
        let connection = Connection::open(&store).ok()?;
        connection.query_row("SELECT count(*) FROM drive_figures", (), |row| row.get(0)).ok()
    };
    wait_until(|| noted().is_some());
    serving.get("/machine").with(200).says(&["Wear and temperature"]);
    // As of two days.
    let connection = Connection::open(&store).unwrap();
    for (time, degrees) in [(1_700_000_000, 40), (1_700_086_400, 42)] {
        let figures = format!("{{\"temperature_celsius\": {degrees}}}");
        let insert = "INSERT INTO drive_figures VALUES (?1, 'X <b>', ?2)";
        connection.execute(insert, (time, figures)).unwrap();
    }
    let page = serving.get("/machine").with(200).says(&["Temperature", "class=\"curve"]);
    assert!(!page.body.contains("X <b>"), "{}", page.body);
}

/// The store, but for the time that it was looked at.
fn contents(place: &Place) -> Vec<u8> {
    std::fs::read(place.path("runs.sqlite")).unwrap()
}

#[test]
fn hostile_requests_change_nothing_and_it_still_answers() {
    let place = with_runs(2);
    let serving = Serving::start(&place, &[]);
    let before = contents(&place);
    let (host, token) = (serving.address, serving.token.clone());
    let port = host.port();
    let cookie = format!("Cookie: ssdlab_token={token}\r\n");
    let own = format!("Host: {host}\r\n");
    let refused = |what: &str, reply: Reply, expected: &[u16]| {
        assert!(expected.contains(&reply.status), "{what}: {}\n{}", reply.head, reply.body);
        assert!(!reply.head.contains("access-control-allow"), "{what}: {}", reply.head);
        assert!(!reply.body.contains(&token), "{what}: {}", reply.body);
    };
    let changes = [
        ("/runs/1", "tags=stolen"),
        ("/runs/1/delete", "sure=yes"),
        ("/experiments", "experiment=fragmentation&target=sim%3A&quick=yes"),
        ("/experiments/1/stop", ""),
    ];
    // DNS rebinding: another name that leads to this address.
    for name in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]", "10.0.0.1"]
    {
        for (path, body) in changes {
            let lines = format!("Host: {name}:{port}\r\nOrigin: http://{name}:{port}\r\n{cookie}");
            refused(name, serving.post_with(path, body, &lines), &[421]);
        }
        for path in ["/", "/runs/1", "/runs/1/report.json", "/metrics", "/machine"] {
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n{cookie}\r\n"
            );
            refused(name, serving.raw(&head), &[421]);
        }
    }
    // Pages of other sites, with the cookie that a browser might send along.
    let others =
        ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "https://localhost"];
    for (path, body) in changes {
        for origin in others {
            let lines = format!("{own}Origin: {origin}\r\n{cookie}");
            refused(origin, serving.post_with(path, body, &lines), &[403]);
        }
        for site in ["cross-site", "same-site", "none"] {
            let lines = format!("{own}Origin: http://{host}\r\nSec-Fetch-Site: {site}\r\n{cookie}");
            refused(site, serving.post_with(path, body, &lines), &[403]);
        }
        refused("no origin", serving.post_with(path, body, &format!("{own}{cookie}")), &[403]);
        // Its own pages, without the token or with another one.
        for wrong in [
            String::new(),
            "Cookie: ssdlab_token=\r\n".to_owned(),
            format!("Cookie: ssdlab_token={}x\r\n", &token[..token.len() - 1]),
            format!("Cookie: ssdlab_token={}\r\n", &token[1..]),
            format!("Cookie: ssdlab_token={token}{token}\r\n"),
            format!("Cookie: other={token}\r\n"),
            format!("Authorization: Basic {token}\r\n"),
        ] {
            let lines = format!("{own}Origin: http://{host}\r\n{wrong}");
            refused(&wrong, serving.post_with(path, body, &lines), &[401]);
        }
        for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "NONSENSE"] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\n{own}Origin: http://{host}\r\nConnection: close\r\n\
                 {cookie}\r\n"
            );
            refused(method, serving.raw(&head), &[200, 405]);
        }
    }
    // Paths that would lead elsewhere if addresses were files.
    for path in [
        "/../../../etc/passwd",
        "/runs/../../etc/passwd",
        "/runs/..%2f..%2f..%2fetc%2fpasswd",
        "/runs/%2e%2e%2fruns.sqlite",
        "/runs/1%00",
        "/runs/1/report.html/../../..",
        "/runs/-1",
        "/runs/1e3",
        "/runs/99999999999999999999",
        "/runs/1;DROP%20TABLE%20runs",
        "/runs/last",
        "/experiments/1",
        "/experiments/1/events",
        "/experiments/..%2f1",
        "/experiments/-1/events",
        "/drives/..%2f..%2fetc%2fpasswd",
        "/drives/0/events",
        "/style.css/../../Cargo.toml",
        "/.git/config",
        "//evil.example/",
    ] {
        refused(path, serving.get(path), &[404]);
    }
    // Bodies that are too large or never come, heads that are no heads.
    let large = "x".repeat(1 << 20);
    refused("large body", serving.post("/runs/1", &large), &[413, 0]);
    let lying =
        format!("{own}Origin: http://{host}\r\n{cookie}Content-Length: 18446744073709551615\r\n");
    refused("two lengths", serving.post_with("/runs/1", "tags=x", &lying), &[400]);
    let heads = [
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\n{own}Host: evil.example\r\nConnection: close\r\n\r\n"),
        "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
            .to_owned(),
        format!("GET / HTTP/1.1\r\n{own}X: {}\r\n\r\n", "y".repeat(100_000)),
        "nonsense\r\n\r\n".to_owned(),
        "\0\0\0\0\r\n\r\n".to_owned(),
    ];
    for head in heads {
        refused(&head[..20.min(head.len())], serving.raw(&head), &[400, 421, 431, 0]);
    }
    // Where a browser is sent after the token was given.
    for to in ["//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aX: y", "evil"] {
        let encoded = to.replace(' ', "+");
        let reply = serving.get(&format!("/token?token={token}&to={encoded}"));
        let location = reply.with(303).location().to_owned();
        assert!(location.starts_with('/') && !location.starts_with("//"), "{to}: {location}");
        assert!(!location.contains('\\'), "{to}: {location}");
    }
    refused("another token", serving.get("/token?token=0123456789abcdef"), &[401]);
    assert_eq!(contents(&place), before, "the store was changed");
    serving.get("/").with(200).says(&["2 runs"]);
    assert_eq!(serving.end(), 0);
}

#[test]
fn clients_that_are_slow_do_not_keep_others_from_answers() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let slow: Vec<TcpStream> = (0..200)
        .map(|index| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            let half =
                format!("POST /experiments HTTP/1.1\r\nHost: {}\r\nX-{index}: ", serving.address);
            stream.write_all(half.as_bytes()).unwrap();
            stream
        })
        .collect();
    serving.get("/").with(200);
    // They are hung up on in the end.
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    serving.get("/").with(200);
}

#[test]
fn answers_say_what_a_browser_may_do_with_them() {
    let place = with_runs(1);
    let serving = Serving::start(&place, &[]);
    for path in ["/", "/runs/1", "/nothing", "/metrics", "/token"] {
        let head = serving.get(path).head;
        for line in [
            "content-security-policy: default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{path}: no {line:?} in {head}");
        }
    }
    let kept = serving.get(&format!("/token?token={}", serving.token)).with(303).head;
    for word in ["httponly", "samesite=strict", "path=/"] {
        assert!(kept.contains(word), "{kept}");
    }
    let page = serving.get("/").body;
    assert!(!page.contains(" onclick") && !page.contains("<script>"), "{page}");
}

#[test]
fn a_token_that_was_given_is_asked_for_everywhere() {
    let place = with_runs(1);
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("SSDLAB_RUN", run_directory(&place)).env("SSDLAB_TOKEN", TOKEN);
    let serving = Serving::of(&mut command);
    for path in ["/", "/runs/1", "/metrics", "/machine", "/experiments/1/events"] {
        serving.get(path).with(401).says(&["needs the token", "type=\"password\""]);
    }
    serving.get("/style.css").with(200);
    serving.get_with_token("/").with(200).says(&["1 run."]);
    let bearer = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Connection: close\r\n\r\n",
        serving.address
    );
    serving.raw(&bearer).with(200).says(&["ssdlab_runs_kept 1"]);
    let lines = format!("Host: {0}\r\nOrigin: http://{0}\r\n", serving.address);
    serving.post_with("/token", "token=wrong-wrong-wrong-wrong", &lines).with(401);
    let given = format!("token={TOKEN}&to=%2Fruns%2F1");
    let kept = serving.post_with("/token", &given, &lines).with(303);
    assert_eq!(kept.location(), "/runs/1");
    assert!(kept.head.contains(&format!("set-cookie: ssdlab_token={TOKEN}")), "{}", kept.head);
}

#[test]
fn what_would_be_open_to_others_is_refused() {
    let place = Place::new();
    let fails = |arguments: &[&str], code: i32, words: &[&str]| {
        let all = [&["serve"], arguments].concat();
        place.run(&all).fails(code, words);
    };
    fails(&["--listen", "0.0.0.0:0"], 3, &["other machines can reach", "--token-file"]);
    fails(&["--listen", "[::]:0"], 3, &["needs a token"]);
    let file = place.file("token", TOKEN);
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&file, mode).unwrap();
    };
    mode(0o644);
    fails(
        &["--listen", "0.0.0.0:0", "--token-file", &file],
        3,
        &["other users can read", "chmod 600"],
    );
    let short = place.file("short", "0123456789");
    std::fs::set_permissions(&short, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fails(&["--token-file", &short], 2, &["16 characters or more"]);
    fails(&["--token-file", "nowhere"], 2, &["cannot read nowhere"]);
    fails(&["--every", "1d", "fragmentation"], 2, &["only 'doctor'"]);
    fails(&["--every", "1s", "doctor"], 2, &["shortest interval"]);
    fails(&["--from", "nowhere.tar.gz"], 2, &["nowhere.tar.gz"]);
    mode(0o600);
    let serving = Serving::start(&place, &["--token-file", &file]);
    serving.get("/").with(401);
    let taken = serving.address.to_string();
    fails(&["--listen", &taken], 1, &["cannot listen at", &taken]);
}

/// Each command that documents show of it begins to answer, and ends in good order.
#[test]
fn the_commands_of_the_documents_serve() {
    let place = Place::new();
    let token = place.file("token", TOKEN);
    std::fs::set_permissions(token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    place.run(&["doctor", "--capture", "machine.tar.gz"]).with_code(0);
    let help = place.run(&["serve", "--help"]).with_code(0).stdout;
    let mut examples = in_help(&help, "ssdlab serve");
    for (name, text) in documents() {
        examples.extend(in_markdown(&text, &name));
    }
    examples.retain(|example| example.line.starts_with("ssdlab serve"));
    examples.dedup_by(|one, other| one.line == other.line);
    assert!(examples.len() > 3, "{}", examples.len());
    for example in examples {
        let words = shlex::split(&example.line).unwrap();
        let mut words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        match words.iter().position(|word| *word == "--listen") {
            Some(place) => words[place + 1] = "127.0.0.1:0",
            None => words.extend(["--listen", "127.0.0.1:0"]),
        }
        let mut command = place.command(&words);
        let serving = Serving::of(command.env("SSDLAB_RUN", run_directory(&place)));
        serving.get_with_token("/").with(200);
        assert_eq!(serving.end(), 0, "{}: {}", example.from, example.line);
    }
}
