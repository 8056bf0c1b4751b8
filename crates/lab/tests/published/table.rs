//! The published fragmentation table, as far as profiles were fitted to it; for the test of them
//! and for the program that fits them.

/// Seconds to read 4 GiB: at fill, after 250 MiB, after 5050 MiB.
pub const PUBLISHED: [(&str, [f64; 3]); 10] = [
    ("intel-s3510", [10.7, 10.8, 10.8]),
    ("toshiba-xg5", [1.9, 3.7, 6.8]),
    ("samsung-pm963", [2.8, 3.5, 4.2]),
    ("samsung-pm983", [3.3, 3.4, 3.4]),
    ("samsung-pm981", [1.8, 2.1, 3.5]),
    ("samsung-pm1725b", [1.8, 2.0, 2.9]),
    ("micron-5200", [9.3, 10.4, 10.7]),
    ("samsung-pm883", [7.9, 8.1, 8.0]),
    ("intel-p3520", [5.8, 6.0, 5.8]),
    ("intel-p4500", [4.2, 4.3, 4.3]),
];
