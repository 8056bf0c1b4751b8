//! Reports as smartctl prints them, put together from facts.

use serde_json::{Value, json};

/// A report under construction.
#[derive(Clone)]
pub struct Report {
    pub kind: Kind,
    pub data: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sata,
    Nvme,
    Sas,
}

/// A sound SATA SSD that has been on for 10,000 hours.
pub fn ssd(model: &str) -> Report {
    sata(model, 0)
}

/// A sound SATA disk that spins 7,200 times a minute.
pub fn disk(model: &str) -> Report {
    sata(model, 7200)
}

fn sata(model: &str, rotation: u64) -> Report {
    let data = json!({
        "device": {"type": "sat", "protocol": "ATA"},
        "model_name": model,
        "in_smartctl_database": true,
        "logical_block_size": 512,
        "rotation_rate": rotation,
        "smart_status": {"passed": true},
        "temperature": {"current": 34},
        "power_on_time": {"hours": 10_000},
        "ata_smart_attributes": {"table": []},
        "ata_smart_error_log": {"extended": {"count": 0}},
        "ata_smart_self_test_log": {"extended": {"count": 0}},
    });
    Report { kind: Kind::Sata, data }
}

/// A sound NVMe SSD, 3 % of whose life is used by 20 TB.
pub fn nvme(model: &str) -> Report {
    let data = json!({
        "device": {"type": "nvme", "protocol": "NVMe"},
        "model_name": model,
        "smart_status": {"passed": true, "nvme": {"value": 0}},
        "temperature": {"current": 41},
        "power_on_time": {"hours": 10_000},
        "nvme_smart_health_information_log": {
            "critical_warning": 0, "temperature": 41, "available_spare": 100,
            "available_spare_threshold": 10, "percentage_used": 3,
            "data_units_written": 39_062_500, "power_on_hours": 10_000, "media_errors": 0,
            "num_err_log_entries": 0,
        },
        "nvme_error_information_log": {"size": 64, "read": 16, "unread": 0},
        "nvme_self_test_log": {"current_self_test_operation": {"value": 0}},
    });
    Report { kind: Kind::Nvme, data }
}

/// A sound SAS drive; 0 for flash.
pub fn sas(model: &str, rotation: u64) -> Report {
    let counter = |gigabytes: &str| {
        json!({"errors_corrected_by_eccfast": 0, "errors_corrected_by_eccdelayed": 0,
            "total_errors_corrected": 0, "gigabytes_processed": gigabytes,
            "total_uncorrected_errors": 0})
    };
    let data = json!({
        "device": {"type": "scsi", "protocol": "SCSI"},
        "scsi_model_name": model,
        "logical_block_size": 512,
        "rotation_rate": rotation,
        "smart_status": {"passed": true},
        "temperature": {"current": 36, "drive_trip": 65},
        "power_on_time": {"hours": 10_000, "minutes": 12},
        "scsi_grown_defect_list": 0,
        "scsi_error_counter_log": {
            "read": counter("92160.482"), "write": counter("41870.251"), "verify": counter("0.000"),
        },
    });
    Report { kind: Kind::Sas, data }
}

impl Report {
    /// Sets a field, by its path with dots.
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Report {
        let pointer = format!("/{}", path.replace('.', "/"));
        match self.data.pointer_mut(&pointer) {
            Some(field) => *field = value.into(),
            None => {
                let (parent, name) = pointer.rsplit_once('/').expect("it begins with one");
                let mut at = &mut self.data;
                for part in parent.split('/').skip(1) {
                    at = &mut at[part];
                }
                at[name] = value.into();
            }
        }
        self
    }

    /// Sets a field of the NVMe health log.
    pub fn log(self, name: &str, value: impl Into<Value>) -> Report {
        self.set(&format!("nvme_smart_health_information_log.{name}"), value)
    }

    /// Adds an attribute with its normalised and raw values.
    pub fn attribute(self, id: u64, name: &str, value: u64, raw: u64) -> Report {
        self.row(json!({
            "id": id, "name": name, "value": value, "worst": value, "thresh": 0, "when_failed": "",
            "flags": {"prefailure": false}, "raw": {"value": raw, "string": raw.to_string()},
        }))
    }

    /// Adds an attribute that is, or was, at its threshold.
    pub fn failed(self, id: u64, name: &str, when: &str, prefailure: bool) -> Report {
        self.row(json!({
            "id": id, "name": name, "value": 1, "worst": 1, "thresh": 10, "when_failed": when,
            "flags": {"prefailure": prefailure}, "raw": {"value": 0, "string": "0"},
        }))
    }

    pub fn row(mut self, row: Value) -> Report {
        let table = &mut self.data["ata_smart_attributes"]["table"];
        table.as_array_mut().expect("it is a list").push(row);
        self
    }

    /// Adds rows to the device statistics.
    pub fn statistics(self, rows: &[(&str, u64)]) -> Report {
        let row = |(name, value): &(&str, u64)| json!({"name": name, "value": value, "flags": {"valid": true}});
        let rows: Vec<Value> = rows.iter().map(row).collect();
        self.set("ata_device_statistics", json!({"pages": [{"number": 1, "table": rows}]}))
    }

    /// Logs errors, the newest of which came after this many hours of being on, with these bits.
    pub fn errors(self, count: u64, hours: u64, bits: u64, words: &str) -> Report {
        let entry = json!({"error_number": count, "lifetime_hours": hours,
            "completion_registers": {"error": bits, "status": 81}, "error_description": words});
        let log = json!({"revision": 1, "count": count, "table": [entry]});
        self.set("ata_smart_error_log.extended", log)
    }

    /// Logs self-tests, the newest first: extended or not, the status byte, hours.
    pub fn tests(self, tests: &[(bool, u64, u64)]) -> Report {
        let one = |(is_extended, status, hours): &(bool, u64, u64)| {
            let words = match status >> 4 {
                0 => "Completed without error",
                1 => "Aborted by host",
                7 => "Completed: read failure",
                _ => "Completed: electrical failure",
            };
            json!({"type": {"value": if *is_extended { 2 } else { 1 }},
                "status": {"value": status, "string": words, "passed": *status == 0},
                "lifetime_hours": hours})
        };
        let table: Vec<Value> = tests.iter().map(one).collect();
        self.set("ata_smart_self_test_log.extended", json!({"count": table.len(), "table": table}))
    }

    /// Says how fast the link is, and could be, in units of 100 Mb/s.
    pub fn link(self, now: u64, most: u64) -> Report {
        let speed = |units: u64| json!({"units_per_second": units, "bits_per_unit": 100_000_000});
        self.set("interface_speed", json!({"current": speed(now), "max": speed(most)}))
    }

    pub fn model(&self) -> String {
        let name = self.data["model_name"].as_str().or(self.data["scsi_model_name"].as_str());
        name.unwrap_or_default().to_owned()
    }
}
