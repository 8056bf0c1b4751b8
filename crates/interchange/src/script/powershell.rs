//! Protocol as a PowerShell script, for Windows. A test checks its grammar only; it has not been tried on Windows, and
//! the script says so.

use std::fmt::Write;

use super::fio_options::{fio_options_of, status_interval, step_name};
use super::{Script, Step};

/// Returns any text as a literal string of PowerShell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn render(script: &Script) -> String {
    let mut text = String::new();
    for line in script.header() {
        let _ = writeln!(text, "# {line}");
    }
    let results = script.results_directory();
    let _ = writeln!(
        text,
        "# NOT TRIED ON WINDOWS: only its grammar was checked. Read it before you run it.\n\
         # Run: powershell -ExecutionPolicy Bypass -File THIS_SCRIPT [-Target PATH]{}\n\
         # Results are written to {results} here. Then, where ssdlab is: ssdlab import {results}/*.json\n",
        if script.is_device { " -DestroyData" } else { "" }
    );
    let _ = writeln!(
        text,
        "param([string]$Target = {}, [switch]$DestroyData)\n",
        quoted(&script.target)
    );
    let _ = writeln!(text, "$Space = [int64]{}", script.space.bytes());
    let _ = writeln!(text, "$Results = {}", quoted(&results));
    let _ = writeln!(text, "$Description = {}", quoted(&script.description()));
    text.push_str(COMMON);
    text.push_str(if script.is_device { DEVICE } else { FILE });
    text.push_str(RUN);
    text.push_str("\ntry {\n");
    for number in 0..script.steps.len() {
        push_step(&mut text, script, number);
    }
    text.push_str("    Write-Host \"Done. Where ssdlab is: ssdlab import $Results/*.json\"\n}\n");
    text.push_str("finally {\n    Remove-Own\n}\n");
    text
}

fn push_step(text: &mut String, script: &Script, number: usize) {
    let is_device = script.is_device;
    match &script.steps[number] {
        Step::Work { phase, of_peak } => {
            let _ = write!(text, "    Start-Work {} @(", quoted(&step_name(number, phase)));
            let mut arguments: Vec<String> = fio_options_of(phase, script.steps.get(number + 1))
                .into_iter()
                .map(|(option, value)| quoted(&format!("--{option}={value}")))
                .collect();
            let seconds = status_interval(phase);
            arguments.extend(seconds.map(|it| quoted(&format!("--status-interval={it}"))));
            if let Some((peak, share)) = of_peak {
                let reads = f64::from(phase.mix.read_percent) / 100.0;
                arguments.push(format!(
                    "\"--rate_iops=$(Get-Share '{0:03}' {1:.4}),$(Get-Share '{0:03}' {2:.4})\"",
                    peak + 1,
                    share * reads,
                    share * (1.0 - reads)
                ));
            }
            let _ = writeln!(text, "\n        {})", arguments.join(",\n        "));
        }
        // By the work before it.
        Step::Flush => {}
        Step::Rest(time) => {
            let seconds = time.nanos().div_ceil(1_000_000_000);
            let _ = writeln!(
                text,
                "    Write-Host 'rest of {seconds} s'\n    Start-Sleep -Seconds {seconds}"
            );
        }
        Step::Trim(region) => {
            let (offset, length) = (region.offset.bytes(), region.length.bytes());
            text.push_str(&if is_device {
                manual_trim_lines(offset, length)
            } else {
                zero_range_lines(offset, length)
            });
        }
        Step::Purge => text.push_str("    Reset-Target\n"),
    }
}

/// Returns a prompt to trim by hand. Windows trims a part of a disk only within a volume, and the disk must have none.
fn manual_trim_lines(offset: u64, length: u64) -> String {
    format!(
        "    Read-Host \"Trim {length} bytes of $Target from byte {offset} on (with blkdiscard on \
         another system, or here by quick-formatting a volume at that place and deleting it), \
         then press Enter\" | Out-Null\n"
    )
}

/// Returns the commands that free a part of a sparse file, by setting it to zeros.
fn zero_range_lines(offset: u64, length: u64) -> String {
    format!(
        "    & fsutil sparse setflag $Target\n    \
         & fsutil file setzerodata \"offset={offset}\" \"length={length}\" $Target\n    \
         if ($LASTEXITCODE -ne 0) {{ throw 'fsutil could not free a part of the file.' }}\n"
    )
}

const COMMON: &str = r#"
$ErrorActionPreference = 'Stop'
if ($null -eq (Get-Command fio -ErrorAction SilentlyContinue)) { throw 'fio is not installed.' }
if (Test-Path -LiteralPath $Results) { throw "$Results already exists; move it away first." }
"#;

const FILE: &str = r#"
# A file of our own, which must not be there yet, and is removed however this ends.
if (Test-Path -LiteralPath $Target) { throw "$Target exists; name a file that does not." }

function Reset-Target {
    if (Test-Path -LiteralPath $Target) { Remove-Item -LiteralPath $Target }
}

function Remove-Own { Reset-Target }
"#;

const DEVICE: &str = r#"
# A device loses all it holds: nothing may use it, and the user has to say so twice.
if ($Target -notmatch '^\\\\\.\\PhysicalDrive(\d+)$') { throw "$Target is no \\.\PhysicalDriveN." }
$Number = [int]$Matches[1]
$Disk = Get-Disk -Number $Number
if ($Disk.IsBoot -or $Disk.IsSystem) { throw "Refused: $Target is the disk this system runs from." }
$InUse = @(Get-Partition -DiskNumber $Number -ErrorAction SilentlyContinue)
if ($InUse.Count -gt 0) { throw "Refused: $Target has partitions. Remove them first." }
if ($Disk.Size -lt $Space) { throw "$Target holds $($Disk.Size) bytes, and $Space are needed." }
if (-not $DestroyData) { throw "ALL DATA on $Target would be lost; add -DestroyData to confirm." }
$Answer = Read-Host "ALL DATA on $Target ($($Disk.FriendlyName)) will be lost. Type its name to go on"
if ($Answer -cne $Target) { throw 'Not confirmed; nothing was written.' }

function Reset-Target {
    # Windows trims a whole disk only through the tools of its maker.
    Read-Host "Purge $Target with its vendor's tool (secure erase), then press Enter" | Out-Null
}

function Remove-Own { }
"#;

const RUN: &str = r#"
New-Item -ItemType Directory -Path $Results | Out-Null

function Start-Work([string]$Name, [string[]]$Options) {
    Write-Host $Name
    # fio takes a colon for a separator, unless there is a backslash before it.
    $File = $Target.Replace(':', '\:')
    & fio "--name=$Name" "--description=$Description" "--filename=$File" '--ioengine=windowsaio' `
        '--direct=1' '--thread' '--output-format=json+' "--output=$Results/$Name.json" @Options
    if ($LASTEXITCODE -ne 0) { throw "fio ended with code $LASTEXITCODE." }
}

# Requests per second, as a share of what a step has reached.
function Get-Share([string]$Step, [double]$Share) {
    $Text = Get-Content -Raw -Path (Get-Item "$Results/$Step-*.json").FullName
    $Run = $Text.Substring($Text.IndexOf('{')) | ConvertFrom-Json
    $Sum = 0.0
    foreach ($Job in $Run.jobs) { $Sum += $Job.read.iops + $Job.write.iops }
    return [int][math]::Max(1, $Sum * $Share)
}
"#;
