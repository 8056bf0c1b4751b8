//! What stands in a report.

use serde_json::Value;

/// A table by its name.
pub fn table<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tables = report["tables"].as_array().unwrap();
    tables.iter().find(|table| table["name"] == name).unwrap_or_else(|| panic!("no table {name}"))
}

/// Returns what stands in a column of it.
pub fn column(table: &Value, name: &str) -> Vec<Value> {
    let columns = table["columns"].as_array().unwrap();
    let index = columns.iter().position(|column| column["name"] == name).unwrap();
    table["rows"].as_array().unwrap().iter().map(|row| row[index].clone()).collect()
}

/// Returns the numbers in a column of a table.
pub fn numbers(table: &Value, name: &str) -> Vec<f64> {
    column(table, name).iter().map(|cell| cell.as_f64().unwrap()).collect()
}

/// The codes of all findings.
pub fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}
