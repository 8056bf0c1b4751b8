//! PostgreSQL on an attached drive that loses power while transactions are committed.
//!
//! Needs root, and PostgreSQL as the system has it installed; it is run as another user, since it refuses
//! to be root. `SSDLAB_CUTS=200` cuts it as often.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, count, has_devices, has_tools, skipped};

/// How long anything may take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(120);

/// PostgreSQL as it is installed here, and who is to run it.
struct Postgres {
    programs: PathBuf,
    user: u32,
    group: u32,
}

impl Postgres {
    /// `None`, said aloud, where it is not.
    fn find(test: &str) -> Option<Postgres> {
        if !has_devices(test) || !has_tools(test, &["mkfs.ext4", "setpriv"]) {
            return None;
        }
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|it| it.path().join("bin")).filter(|it| {
            ["initdb", "postgres", "psql"].iter().all(|program| it.join(program).exists())
        });
        let Some(programs) = programs.max() else {
            skipped(test, "PostgreSQL is not installed");
            return None;
        };
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let user = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut numbers = line.split(':').skip(2).map_while(|it| it.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        };
        let Some((user, group)) = user("postgres").or_else(|| user("nobody")) else {
            skipped(test, "there is no user to run PostgreSQL as");
            return None;
        };
        Some(Postgres { programs, user, group })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &self.user.to_string(), "--regid", &self.group.to_string()])
            .args(["--clear-groups", "--"])
            .arg(self.programs.join(program))
            .current_dir("/")
            .env("LC_ALL", "C")
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null());
        command
    }
}

/// A database in a directory, and the directory that its socket is in.
struct Database<'a> {
    postgres: &'a Postgres,
    data: PathBuf,
    socket: PathBuf,
}

impl Database<'_> {
    /// Makes it, on what is mounted at `point`.
    fn make(&self, point: &Path) {
        for directory in [&self.data, &self.socket] {
            std::fs::create_dir(directory).unwrap();
            chown(directory, Some(self.postgres.user), Some(self.postgres.group)).unwrap();
        }
        std::fs::set_permissions(point, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = self.postgres.command("initdb");
        command.args(["--auth=trust", "--username=test", "--locale=C", "--no-sync", "-D"]);
        let output = command.arg(&self.data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts it, which recovers it; what went wrong if that cannot be.
    fn start(&self, log: &Path) -> Result<Server<'_>, String> {
        let mut command = self.postgres.command("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.socket);
        for setting in [
            "listen_addresses=",
            "max_connections=8",
            "shared_buffers=16MB",
            "dynamic_shared_memory_type=mmap",
            "min_wal_size=32MB",
            "max_wal_size=32MB",
        ] {
            command.args(["-c", setting]);
        }
        let out = std::fs::File::create(log).unwrap();
        command.stdout(Stdio::null()).stderr(out);
        let mut server = Server { database: self, child: command.spawn().unwrap() };
        let until = Instant::now() + PATIENCE;
        while server.ask("SELECT 1").is_none() {
            if server.child.try_wait().unwrap().is_some() || Instant::now() > until {
                return Err(std::fs::read_to_string(log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn client(&self) -> Command {
        let mut command = self.postgres.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "test"]);
        command.args(["-d", "postgres", "-h"]).arg(&self.socket).stderr(Stdio::null());
        command
    }
}

/// A database that is running.
struct Server<'a> {
    database: &'a Database<'a>,
    child: Child,
}

impl Server<'_> {
    /// Returns what it answers, if it does.
    fn ask(&self, words: &str) -> Option<String> {
        let output = self.database.client().args(["-c", words]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Inserts numbered rows, a transaction each, behind those that are committed, until that fails.
    fn insert(&self, committed: &AtomicU64) {
        let mut command = self.database.client();
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ask = client.stdin.take().unwrap();
        let mut answers = BufReader::new(client.stdout.take().unwrap()).lines();
        loop {
            let next = committed.load(Ordering::SeqCst) + 1;
            // The line comes when the statement is over, which is after the commit.
            let words = format!("INSERT INTO rows VALUES ({next}, '{next:0200}') RETURNING id;\n");
            if ask.write_all(words.as_bytes()).is_err() {
                break;
            }
            match answers.next() {
                Some(Ok(line)) if line == next.to_string() => {
                    committed.store(next, Ordering::SeqCst)
                }
                _ => break,
            }
        }
        drop(ask);
        client.wait().unwrap();
    }

    /// Ends it as a machine does that loses power, but for what it holds of the system's.
    fn end(&mut self) {
        let pid = Pid::from_child(&self.child);
        let until = Instant::now() + PATIENCE;
        // It may have ended already.
        let _ = kill_process(pid, Signal::QUIT);
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is wrong with the rows, if it is not all that was committed and nothing else.
fn judge(server: &Server<'_>, committed: &AtomicU64) -> Result<(), String> {
    let query = "SELECT count(*), coalesce(max(id), 0), count(*) FILTER (WHERE text::bigint <> id) \
                 FROM rows";
    let answer = server.ask(query).ok_or("the rows cannot be read")?;
    let numbers: Vec<u64> = answer.split('|').map_while(|it| it.parse().ok()).collect();
    let &[count, last, wrong] = numbers.as_slice() else { return Err(answer) };
    let wanted = committed.load(Ordering::SeqCst);
    if count != last || wrong > 0 || last < wanted {
        return Err(format!("{count} rows, {wrong} wrong, the last is {last}, {wanted} committed"));
    }
    committed.store(last, Ordering::SeqCst);
    Ok(())
}

/// Cuts power up to `cuts` times, until something is lost; returns how many rows were committed, and
/// what was lost, in words.
fn cut(postgres: &Postgres, cuts: u32, options: &[&str], seed: u64) -> (u64, Result<(), String>) {
    let place = Place::new("sim:,scale=1/1024");
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o755)).unwrap();
    let point = place.path("mounted");
    std::fs::create_dir(&point).unwrap();
    let (data, socket) = (point.join("data"), place.path("socket"));
    let database = Database { postgres, data, socket };
    let log = place.path("log");
    let mount = ["--time", "fast", "--mount", point.to_str().unwrap(), "--fs", "ext4"];
    // It is made and made durable before anything may be lost.
    let attached = place.attach(&mount);
    database.make(&point);
    let mut server = database.start(&log).unwrap();
    assert!(server.ask("CREATE TABLE rows (id bigint PRIMARY KEY, text text)").is_some());
    server.end();
    drop(server);
    attached.detach();
    let options = [&mount[..], options].concat();
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let committed = AtomicU64::new(0);
    let all = |committed: &AtomicU64| committed.load(Ordering::SeqCst);
    // After the last cut it is opened once more.
    for number in 0..=cuts {
        let attached = std::panic::catch_unwind(|| place.attach(&options));
        let Ok(attached) = attached else {
            let why = format!("cut {number}: the file system cannot be mounted");
            return (all(&committed), Err(why));
        };
        let mut server = match database.start(&log) {
            Ok(server) => server,
            Err(said) => return (all(&committed), Err(format!("cut {number}: {said}"))),
        };
        if let Err(why) = judge(&server, &committed) {
            return (all(&committed), Err(format!("cut {number}: {why}")));
        }
        if number == cuts {
            server.end();
            drop(server);
            attached.detach();
            break;
        }
        let before = all(&committed);
        let pause = Duration::from_millis(generator.random_range(5..250));
        std::thread::scope(|scope| {
            let client = scope.spawn(|| server.insert(&committed));
            // However slow this machine is now, something is committed before the cut.
            let until = Instant::now() + PATIENCE;
            while all(&committed) == before && !client.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(pause);
            place.done(&["power-cut", "disk.ssd"]);
        });
        server.end();
        drop(server);
        place.done(&["detach", "disk.ssd"]);
        drop(attached);
    }
    (all(&committed), Ok(()))
}

#[test]
fn an_honest_drive_loses_no_row_that_was_committed() {
    let Some(postgres) = Postgres::find("PostgreSQL on an honest drive") else { return };
    let cuts = count("SSDLAB_CUTS", 4);
    let (committed, outcome) = cut(&postgres, cuts, &[], 1);
    assert_eq!(outcome, Ok(()));
    assert!(committed >= u64::from(cuts), "{committed} rows in {cuts} cuts");
    println!("{cuts} cuts, {committed} rows were committed, and all are there");
}

#[test]
fn a_drive_that_lies_about_flushes_is_caught() {
    let Some(postgres) = Postgres::find("PostgreSQL on a drive that lies") else { return };
    // It ends with the first loss, which comes soon.
    let (committed, outcome) = cut(&postgres, 60, &["--lie-about-flush"], 2);
    println!("{committed} rows, then: {outcome:?}");
    assert!(outcome.is_err(), "the lie went unnoticed");
}
